"""Reticent's accountant for Opacus.

    from reticent.opacus import register
    register()
    engine = PrivacyEngine(accountant="reticent")

The engine's ε is then a certified upper bound for what ran, and what can't be accounted is
refused: loaders that are shuffled instead of Poisson-sampled, batches from another loader than
the one that Opacus returned, optimizers whose noise is not the Gaussian's on one clipped sum.
"""

from __future__ import annotations

import functools
import json
import math
from typing import Any, Callable

from opacus import PrivacyEngine
from opacus.accountants import IAccountant, register_accountant
from opacus.optimizers import DPOptimizer
from opacus.utils.uniform_sampler import UniformWithReplacementSampler

from reticent._reticent import Bounds, Plan

__all__ = ["MECHANISM", "Accountant", "register"]

MECHANISM = "reticent"


class Accountant(IAccountant):
    """Counts what an Opacus optimizer did; `bounds` and `get_epsilon` say what it promises.

    `history` holds (noise multiplier, sample rate, steps), and for steps over k accumulated
    Poisson batches (noise multiplier, sample rate, steps, k): a record may be in each of the k.
    A noise multiplier of 0 stands for steps without noise or clipping, which promise nothing.
    """

    def __init__(self) -> None:
        self.history: list[tuple[float, ...]] = []
        self._sampler: UniformWithReplacementSampler | None = None
        self._poisson: bool | None = None
        self._drawn = 0
        self._used = 0

    def step(self, *, noise_multiplier: float, sample_rate: float) -> None:
        """Counts one step on one Poisson batch."""
        self._count(noise_multiplier, sample_rate, 1)

    def _count(self, noise_multiplier: float, sample_rate: float, batches: int) -> None:
        kind = (noise_multiplier, sample_rate) if batches == 1 else (noise_multiplier, sample_rate, batches)
        if self.history:
            *last, steps = self._ordered(self.history[-1])
            if tuple(last) == kind:
                self.history[-1] = self._entry(kind, int(steps) + 1)
                return
        self.history.append(self._entry(kind, 1))

    @staticmethod
    def _ordered(entry: tuple[float, ...]) -> tuple[float, ...]:
        """The steps last."""
        noise, rate, steps, *batches = entry
        return (noise, rate, *batches, steps)

    @staticmethod
    def _entry(kind: tuple[float, ...], steps: int) -> tuple[float, ...]:
        noise, rate, *batches = kind
        return (noise, rate, steps, *batches)

    def get_optimizer_hook_fn(self, sample_rate: float) -> Callable[[DPOptimizer], None]:
        """The hook that Opacus calls at each step, for Poisson batches of this rate."""
        if self._poisson is False:
            raise ValueError(_SHUFFLED)

        def hook(optimizer: DPOptimizer) -> None:
            if type(optimizer).__name__ not in _COVERED:
                raise ValueError(
                    f"optimizer: {type(optimizer).__name__} is not covered; covered are {', '.join(sorted(_COVERED))}"
                )
            batches = optimizer.accumulated_iterations
            self._used += batches
            if self._sampler is not None and self._used > self._drawn:
                raise ValueError(
                    f"data_loader: {self._used} batches were trained on, but {self._drawn} were drawn by the Poisson "
                    "loader that make_private returned: train on that loader, or account for yours with reticent.Plan"
                )
            noise = float(optimizer.noise_multiplier)
            if not math.isfinite(_norm(optimizer.max_grad_norm)):
                noise = 0.0  # nothing was clipped: no noise is enough
            self._count(noise, sample_rate, batches)

        return hook

    @property
    def plan(self) -> Plan:
        """What ran so far."""
        return Plan.from_json(json.dumps({"type": "sequence", "parts": [_part(*e) for e in self.history]}))

    def bounds(self, delta: float) -> Bounds:
        """Both certified ends of ε at `delta`, for one record present or absent."""
        return self.plan.epsilon(delta)

    def get_epsilon(self, delta: float, *args: Any, **kwargs: Any) -> float:
        """ε at `delta`: an upper bound; infinite when noise or clipping was switched off."""
        if args or kwargs:
            raise ValueError(f"get_epsilon: takes delta alone, got {[*args, *kwargs]}")
        return self.bounds(delta).upper

    def __len__(self) -> int:
        return sum(int(entry[2]) for entry in self.history)

    @classmethod
    def mechanism(cls) -> str:
        return MECHANISM

    def _watch(self, loader: Any) -> None:
        """Counts the batches that the Poisson loader draws."""
        sampler = loader.batch_sampler
        if not isinstance(sampler, UniformWithReplacementSampler):
            raise ValueError(f"data_loader: its sampler is {type(sampler).__name__}, not Opacus' Poisson sampler")
        accountant, kind = self, type(sampler)

        class Counted(kind):  # type: ignore[misc, valid-type]
            def __iter__(self) -> Any:
                for batch in kind.__iter__(self):
                    accountant._drawn += 1
                    yield batch

        Counted.__name__ = kind.__name__
        sampler.__class__ = Counted
        self._sampler = sampler


_COVERED = frozenset(["DPOptimizer", "DPPerLayerOptimizer"])

_SHUFFLED = (
    "poisson_sampling: must be True, got False: a shuffled loader's batches are not Poisson batches, and their "
    "epsilon is larger; reticent.Plan(..., sampler=\"shuffled\") says what they promise"
)


def _norm(norm: Any) -> float:
    return max(map(float, norm)) if isinstance(norm, (list, tuple)) else float(norm)


def _part(noise: float, rate: float, steps: int, batches: int = 1) -> dict[str, Any]:
    each: dict[str, Any]
    if noise == 0:
        each = {"type": "non-private", "why": "noise or clipping was switched off"}
    elif batches == 1:
        each = {
            "type": "subsampled-gaussian",
            "noise_multiplier": noise,
            "sampling_rate": rate,
            "sampling": "poisson",
        }
    else:
        # One record takes part in each of the batches by a coin of its own.
        each = {"type": "poisson-binomial-gaussian", "noise_multiplier": noise, "rates": [rate] * int(batches)}
    return {"type": "repeat", "times": int(steps), "each": each}


def register() -> None:
    """Makes `PrivacyEngine(accountant="reticent")` known to Opacus; calling it again does nothing more.

    Opacus tells an accountant nothing about the loader, so `PrivacyEngine.make_private` is
    wrapped for engines that use this accountant, and for no others.
    """
    register_accountant(MECHANISM, Accountant, force=True)
    original = PrivacyEngine.make_private
    if getattr(original, "_reticent", False):
        return

    @functools.wraps(original)
    def make_private(self: PrivacyEngine, *args: Any, poisson_sampling: bool = True, **kwargs: Any) -> Any:
        accountant = self.accountant
        if not isinstance(accountant, Accountant):
            return original(self, *args, poisson_sampling=poisson_sampling, **kwargs)
        if not poisson_sampling:
            raise ValueError(_SHUFFLED)
        made = original(self, *args, poisson_sampling=poisson_sampling, **kwargs)
        accountant._watch(made[-1])
        return made

    make_private._reticent = True  # type: ignore[attr-defined]
    PrivacyEngine.make_private = make_private
