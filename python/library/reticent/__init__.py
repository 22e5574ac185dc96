"""Privacy accounting before training, auditing after it.

Numbers that bound something come as `Bounds`: take `.upper` (the truth is at most this) or
`.lower` (at least this). What can't be certified raises `ValueError`.

>>> import reticent
>>> plan = reticent.Plan(sigma=1.1, sample_rate=0.01, steps=10_000)
>>> plan.epsilon(delta=1e-5).upper < 5.2
True
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from reticent._reticent import Bounds, Calibration, Defaults, Plan, Report, __version__, calibrate, defaults

if TYPE_CHECKING:
    from reticent import dp_accounting, hf, opacus
    from reticent.audit import CanaryPlan, Exposure, Membership, Redactor, canaries, exposure, membership, redact

_AUDIT = frozenset(
    ["CanaryPlan", "Exposure", "Membership", "Redactor", "canaries", "exposure", "membership", "redact"]
)
_MODULES = frozenset(["audit", "dp_accounting", "hf", "opacus"])

# A literal, which type checkers read.
__all__ = [
    "Bounds", "Calibration", "CanaryPlan", "Defaults", "Exposure", "Membership", "Plan", "Redactor", "Report",
    "__version__", "calibrate", "canaries", "defaults", "exposure", "membership", "redact",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    """Loads what needs more than accounting when it is first asked for."""
    import importlib

    if name in _AUDIT:
        return getattr(importlib.import_module("reticent.audit"), name)
    if name in _MODULES:
        return importlib.import_module(f"reticent.{name}")
    raise AttributeError(f"module 'reticent' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*__all__, *_MODULES})
