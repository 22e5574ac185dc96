from os import PathLike
from typing import Any, Callable, Literal, Sequence, final

_Neighbours = Literal["add-remove", "zero-out", "replace"]
_Sampler = Literal["poisson", "shuffled", "balls-in-bins", "without-replacement"]

__version__: str

@final
class Bounds:
    @property
    def upper(self) -> float: ...
    @property
    def lower(self) -> float: ...
    @property
    def has_upper(self) -> bool: ...
    @property
    def has_lower(self) -> bool: ...
    @property
    def configured(self) -> dict[str, Any]: ...

@final
class Defaults:
    @property
    def file(self) -> str | None: ...
    @property
    def values(self) -> dict[str, Any]: ...

def defaults(path: str | PathLike[str] | None = None) -> Defaults: ...

@final
class Report:
    @property
    def card(self) -> str: ...
    @property
    def epsilon(self) -> Bounds: ...
    def to_json(self) -> str: ...
    def to_html(self) -> str: ...
    def _repr_html_(self) -> str: ...

@final
class Plan:
    def __new__(
        cls, *, sigma: float, sample_rate: float, steps: int, sampler: _Sampler = "poisson"
    ) -> Plan: ...
    @staticmethod
    def from_json(text: str, *, neighbours: _Neighbours = "add-remove") -> Plan: ...
    def to_json(self) -> str: ...
    def then(self, other: Plan) -> Plan: ...
    def epsilon(
        self, delta: float | None = None, *, neighbours: _Neighbours | None = None, group: int | None = None,
        tolerance: float | None = None, defaults: Defaults | None = None,
    ) -> Bounds: ...
    def delta(
        self, epsilon: float, *, neighbours: _Neighbours | None = None, group: int | None = None,
        tolerance: float | None = None, defaults: Defaults | None = None,
    ) -> Bounds: ...
    def tpr(
        self, fpr: float, *, neighbours: _Neighbours | None = None, group: int | None = None,
        tolerance: float | None = None, defaults: Defaults | None = None,
    ) -> Bounds: ...
    def posterior(
        self, prior: float | None = None, *, group: int | None = None, tolerance: float | None = None,
        defaults: Defaults | None = None,
    ) -> Bounds: ...
    def curve(
        self, what: Literal["epsilon", "profile", "trade-off", "posterior"], at: Sequence[float], *, neighbours: _Neighbours | None = None, group: int | None = None,
        tolerance: float | None = None, defaults: Defaults | None = None,
    ) -> list[tuple[float, Bounds]]: ...
    def report(
        self, delta: float | None = None, *, neighbours: _Neighbours | None = None, group: int | None = None,
        unit: str | None = None, tolerance: float | None = None, defaults: Defaults | None = None,
    ) -> Report: ...
    def require_covered(self, neighbours: _Neighbours) -> None: ...

@final
class Calibration:
    @property
    def solved(self) -> Literal["sigma", "sample_rate", "steps"]: ...
    @property
    def answer(self) -> float: ...
    @property
    def fails(self) -> float | None: ...
    @property
    def plan(self) -> Plan: ...
    @property
    def configured(self) -> dict[str, Any]: ...

def calibrate(
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    prior: float | None = None,
    posterior: float | None = None,
    fpr: float | None = None,
    tpr: float | None = None,
    sigma: float | None = None,
    sample_rate: float | None = None,
    steps: int | None = None,
    sampler: _Sampler = "poisson",
    neighbours: _Neighbours | None = None,
    group: int | None = None,
    tolerance: float | None = None,
    defaults: Defaults | None = None,
) -> Calibration: ...

@final
class CanaryPlan:
    @staticmethod
    def from_json(text: str) -> CanaryPlan: ...
    def to_json(self) -> str: ...
    def insert_texts(self, texts: Sequence[str]) -> list[str]: ...
    def __len__(self) -> int: ...
    @property
    def secrets(self) -> list[tuple[str, str, int]]: ...
    @property
    def records(self) -> int: ...
    @property
    def copies(self) -> int: ...
    @property
    def candidates(self) -> int: ...

@final
class Redactor:
    def __new__(cls, policy: str = "general") -> Redactor: ...
    def __call__(self, text: str) -> str: ...
    def chat(self, messages: str) -> str: ...

def answer(messages: str) -> str | None: ...
def with_answer(chat: str, text: str) -> str: ...
def plan_canaries(
    texts: Sequence[str],
    template: str,
    *,
    copies: Sequence[int],
    n: int,
    seed: int | None = None,
    own_contexts: bool = False,
    unit: str = "document",
) -> CanaryPlan: ...
@final
class Exposure:
    @property
    def epsilon_lower(self) -> float: ...
    @property
    def largest_lower(self) -> float: ...
    @property
    def largest_upper(self) -> float: ...
    @property
    def p_value(self) -> float: ...
    @property
    def exceeded(self) -> bool: ...
    @property
    def says(self) -> str: ...
    @property
    def card(self) -> str: ...
    @property
    def configured(self) -> dict[str, Any]: ...
    @property
    def document(self) -> dict[str, Any]: ...
    def to_json(self) -> str: ...
    def to_html(self) -> str: ...
    def _repr_html_(self) -> str: ...

def exposure(
    plan: CanaryPlan,
    tokenizer: str | PathLike[str],
    settings: str | None,
    scorer: Callable[[list[list[int]], list[int]], Any],
    *,
    vocabulary: int,
    name: str,
    delta: float | None,
    confidence: float | None,
    max_exposure: float | None,
    batch: int,
    budget: int | None,
    records: int | None,
    met: bool,
    promise: Plan | None,
    earlier: Sequence[tuple[str, Exposure | str]],
    defaults: Defaults | None,
) -> Exposure: ...
def membership(
    members: Sequence[float],
    non_members: Sequence[float],
    *,
    fpr: Sequence[float],
    confidence: float | None,
    seed: int,
    groups: tuple[list[str], list[str]] | None,
    texts: tuple[list[str], list[str]] | None,
    defaults: Defaults | None,
) -> str: ...
