"""Reticent's accountant for Opacus.

    from reticent.opacus import register
    register()
    engine = PrivacyEngine(accountant="reticent")

The engine's ε is then a certified upper bound for what ran, and what can't be accounted is
refused: loaders that are shuffled instead of Poisson-sampled, batches from another loader than
the one that Opacus returned, batches without a step, several gradients of one record, gradients that no clipping
bounds, parameters in half precision, optimizers whose noise is not the Gaussian's on one clipped sum.

What nobody can see from here is a loss in which the gradient of a record depends on the others of its batch. The loss
that `transformers` computes of `labels` is one: a mean over all tokens of the batch. Average over the tokens of each
record first, then over the records.
"""

from __future__ import annotations

import functools
import hashlib
import json
import math
import threading
import weakref
from collections import deque
from typing import Any, Callable

try:
    import torch
    from opacus import PrivacyEngine
    from opacus.accountants import IAccountant, register_accountant
    from opacus.optimizers import DPOptimizer, DPPerLayerOptimizer
    from opacus.utils.uniform_sampler import UniformWithReplacementSampler
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        f"reticent.opacus: {error.name} is not installed: pip install opacus", name=error.name
    ) from error

from reticent._reticent import Bounds, Plan

__all__ = ["MECHANISM", "Accountant", "register"]

MECHANISM = "reticent"


class Accountant(IAccountant):
    """Counts what an Opacus optimizer did; `bounds` and `get_epsilon` say what it promises.

    `history` holds (noise multiplier, sample rate, steps), and for steps over k accumulated
    Poisson batches (noise multiplier, sample rate, steps, k): a record may be in each of the k.
    A noise multiplier of 0 stands for steps without noise or clipping, which promise nothing.
    What was counted stays: a history that is cleared or changed afterwards is refused.
    A saved state also has digests of the random generators behind each step (`generators`), so that a training that is
    resumed from it can't draw the same noise or the same batches again. Who has them can find a seed by trying all
    (PyTorch's on the CPU has 32 bits): keep such states as private as the seed.
    """

    def __init__(self) -> None:
        if getattr(self, "_counted", None):
            raise ValueError(_CHANGED)
        self.history: list[tuple[float, ...]] = []
        # The history as it was counted; none while nothing was, as Opacus sets the one of an accountant that it calibrates with.
        self._counted: list[tuple[float, ...]] = []
        self._seen: set[bytes] = set()  # states of generators behind the noise and the batches of each step
        self._lock = threading.Lock()
        self._open: _Steps | None = None

    def __getstate__(self) -> dict[str, Any]:
        """What was counted; loaders and optimizers stay where they are, so that a copy counts nothing by itself."""
        return dict(self.state_dict())

    def __setstate__(self, state: dict[str, Any]) -> None:
        Accountant.__init__(self)
        self.load_state_dict(state)

    def state_dict(self, destination: Any = None) -> Any:
        """What was counted, and digests of the generators behind it."""
        with self._lock:
            destination = super().state_dict(destination)
            destination["generators"] = sorted(state.hex() for state in self._seen)
        return destination

    def load_state_dict(self, state_dict: Any) -> None:
        """Takes up what `state_dict` of another accountant holds.

        Raises ValueError where that does not begin with what was counted here, which would be forgotten, or where it
        does not have the generators behind its steps.
        """
        before = self.history
        super().load_state_dict(state_dict)
        taken, self.history = self.history, before
        taken = _checked(taken)
        seen = _digests(state_dict)
        with self._lock:
            if not self._goes_on(taken):
                raise ValueError(_CHANGED)
            self.history, self._counted = taken, list(taken)
            self._seen |= seen

    def _goes_on(self, history: list[tuple[float, ...]]) -> bool:
        """Whether a history begins with what was counted; its steps of the last kind may be more."""
        if not self._counted:
            return True
        *same, last = self._counted
        if len(history) <= len(same) or history[: len(same)] != same:
            return False
        *kind, steps = self._ordered(last)
        *found, more = self._ordered(history[len(same)])
        return found == kind and more >= steps

    def step(self, *, noise_multiplier: float, sample_rate: float) -> None:
        """Counts one step on one Poisson batch."""
        self._count(noise_multiplier, sample_rate, 1)

    def _count(self, noise_multiplier: float, sample_rate: float, batches: int) -> None:
        kind = (noise_multiplier, sample_rate) if batches == 1 else (noise_multiplier, sample_rate, batches)
        _checked([self._entry(kind, 1)])
        with self._lock:
            if not self._counted:
                self._counted = list(self.history)
            elif len(self.history) != len(self._counted) or self.history[-1] != self._counted[-1]:
                raise ValueError(_CHANGED)
            if self.history:
                *last, steps = self._ordered(self.history[-1])
                if tuple(last) == kind:
                    self.history[-1] = self._counted[-1] = self._entry(kind, int(steps) + 1)
                    return
            self.history.append(self._entry(kind, 1))
            self._counted.append(self.history[-1])

    def _once(self, states: list[bytes]) -> None:
        """Refuses noise or batches that were drawn from the same numbers before."""
        with self._lock:
            for state in states:
                if state in self._seen:
                    raise ValueError(
                        "generator: it was set back to where it was before (as by torch.manual_seed in each epoch, or "
                        "where a resumed training begins), so that the same noise or the same batch comes twice: seed "
                        "once, before the training, and not again to resume it"
                    )
                self._seen.add(state)

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
        """The hook that Opacus calls at each step, for the Poisson loader of the same `make_private`."""
        steps = self._open = _Steps(self, sample_rate)
        return steps.count

    @property
    def plan(self) -> Plan:
        """What ran so far. Raises ValueError where the history is not what was counted."""
        if self._counted and self.history != self._counted:
            raise ValueError(_CHANGED)
        return Plan.from_json(json.dumps({"type": "sequence", "parts": [_part(*e) for e in _checked(self.history)]}))

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


class _Steps:
    """The steps of one optimizer on one Poisson loader."""

    def __init__(self, accountant: Accountant, sample_rate: float) -> None:
        self.accountant = accountant
        self.sample_rate = sample_rate
        self.watching = False
        self.engine: Callable[[], PrivacyEngine | None] = lambda: None
        self.original: Any = None
        self.clipping: _Clipping | None = None
        self.drawn = 0
        self.used = 0
        self.begun = 0  # how many were used before this pass
        self.ended = False  # whether this pass handed out its last batch
        self.allowed = 0
        # Of each batch that was drawn and not used yet, in order: its records, and the generator's state behind it.
        self.batches: deque[tuple[int, list[bytes]]] = deque()
        self.gradients = 0  # per-sample gradients since the last step
        self.norm = 0.0  # the largest that a gradient was clipped to since the last step

    def count(self, optimizer: DPOptimizer) -> None:
        """Called between the noise and the step; what it raises keeps the step from being taken."""
        if type(optimizer) not in _COVERED:
            covered = ", ".join(sorted(kind.__name__ for kind in _COVERED))
            raise ValueError(f"optimizer: {type(optimizer).__qualname__} is not covered; covered are {covered}")
        replaced = sorted(
            {name for kind, name, original in _TRUSTED if type(optimizer) is kind and getattr(kind, name) is not original}
            | {name for _, name, _ in _TRUSTED if not isinstance(vars(optimizer).get(name), (type(None), _Clipping))}
        )
        if replaced:
            raise ValueError(f"optimizer: its {', '.join(replaced)} was replaced, so that nothing says what it does")
        if not self.watching:
            raise ValueError(
                "data_loader: nothing says how its batches are drawn: call reticent.opacus.register() and then "
                "make_private of an engine with accountant=\"reticent\", or account for them with reticent.Plan"
            )
        if vars(optimizer).get("clip_and_accumulate") is not self.clipping:
            raise ValueError("optimizer: its clip_and_accumulate was replaced, so that nothing says what it does")
        if optimizer.original_optimizer is not self.original:
            raise ValueError(
                "optimizer: its original_optimizer was replaced, whose steps nobody counts: call make_private with that one"
            )
        engine = self.engine()
        if engine is not None and engine.accountant is not self.accountant:
            raise ValueError(
                "accountant: the engine has another one than at make_private, which knows nothing of this training: "
                "leave it, or make another engine for another training"
            )
        raw = sum(
            not p.requires_grad and p.grad is not None and bool(p.grad.any())
            for group in optimizer.param_groups
            for p in group["params"]
        )
        if raw:
            raise ValueError(
                f"optimizer: {raw} of its parameters have requires_grad False and a gradient, which is neither clipped nor "
                "noised: freeze parameters before their gradients are computed"
            )
        batches = optimizer.accumulated_iterations
        self.used += batches
        if self.used > self.drawn:
            raise ValueError(
                f"data_loader: {self.used} batches were trained on, but {self.drawn} were drawn by the Poisson "
                "loader that make_private returned: train on that loader, and take the step before its next pass begins "
                "(no gradient is accumulated from one pass into the next), or account for yours with reticent.Plan"
            )
        drawn = self._take(batches)
        # The noise is scaled with the norm of now, whatever the gradients were clipped to.
        noise, scale = float(optimizer.noise_multiplier), float(optimizer.max_grad_norm)
        if math.isfinite(scale) and 0 < self.norm < math.inf:
            noise *= scale / self.norm
        else:
            noise = 0.0  # nothing was clipped: no noise is enough
        if noise != 0:
            # Generators step reversibly: an equal state after equally many draws was an equal state before them.
            devices = {torch.device("cpu")} if optimizer.generator is not None else {p.device for p in optimizer.params}
            self.accountant._once([*drawn, *(s for device in devices for s in _state(optimizer.generator, device))])
        self.accountant._count(noise, self.sample_rate, batches)
        self.norm = 0.0
        self.allowed += 1

    def _take(self, batches: int) -> list[bytes]:
        """Takes the batches whose turn it is, and returns their states; a step gave no more gradients than they have records.

        Workers draw ahead, so that more may have been drawn. Had a batch been left out, whether there is a step would
        depend on its records: without record x, the batch {x} is an empty one.
        """
        gradients, self.gradients = self.gradients, 0
        taken = [self.batches.popleft() for _ in range(batches)]
        records = sum(size for size, _ in taken)
        if gradients > records:
            raise ValueError(
                f"data_loader: a step has {gradients} per-sample gradients, and its batch has at most {records} records: "
                "a batch before it was left out, or a row made up for an empty one (rand_on_empty), and each batch must have "
                "its step, an empty one with gradients of zero; or several gradients of one record (views, crops, halves) or "
                "of several batches are more than one clipped gradient each. Make one loss of all views of a record, or "
                "account for them with reticent.Plan"
            )
        return [state for _, states in taken for state in states]

    def begin(self) -> None:
        """Begins a pass of the loader: what an earlier one drew and left is no batch of this one."""
        if self.ended and self.used > self.begun and any(size == 0 for size, _ in self.batches):
            raise ValueError(
                "data_loader: the last pass ended with an empty batch that had no step, so that whether there is a step "
                "depends on a single record: take it, with gradients of zero"
            )
        self.ended = False
        self.drawn = self.begun = self.used
        self.batches.clear()

    def watch(self, engine: PrivacyEngine, optimizer: DPOptimizer, loader: Any) -> None:
        """Counts the batches that the Poisson loader draws, and the steps that are really taken."""
        sampler = loader.batch_sampler
        if type(sampler) is not UniformWithReplacementSampler:
            raise ValueError(f"data_loader: its sampler is {type(sampler).__name__}, not Opacus' Poisson sampler")
        steps = self

        class Counted(UniformWithReplacementSampler):
            def __iter__(self) -> Any:
                steps.begin()
                for batch in UniformWithReplacementSampler.__iter__(self):
                    if not self.sample_rate <= steps.sample_rate * (1 + 1e-12):
                        raise ValueError(
                            f"data_loader: its batches are drawn at the rate {self.sample_rate:g}, and accounted for "
                            f"at {steps.sample_rate:g}: call make_private again"
                        )
                    steps.drawn += 1
                    steps.batches.append((len(batch), _state(self.generator, torch.device("cpu"))))
                    yield batch
                # Workers draw the last batches before they are handed out, so that a pass may end in between.
                steps.ended = loader.num_workers == 0

        Counted.__name__ = UniformWithReplacementSampler.__name__
        sampler.__class__ = Counted
        original = optimizer.original_optimizer
        if not hasattr(original, "_reticent"):
            original.register_step_pre_hook(_taken)
        original._reticent = self
        self.original = original
        self.engine = weakref.ref(engine)
        self.clipping = optimizer.clip_and_accumulate = _Clipping(self, optimizer)
        self.watching = True


class _Clipping:
    """An optimizer's `clip_and_accumulate`, which counts the gradients that it clips, and to what.

    Of physical batches (`BatchMemoryManager`) Opacus calls the hook of the last one alone.
    """

    def __init__(self, steps: _Steps, optimizer: DPOptimizer) -> None:
        self.steps = steps
        self.optimizer = optimizer

    def __call__(self) -> None:
        for p in self.optimizer.params:
            # Opacus draws the noise in the precision of the parameter.
            if p.dtype not in _PRECISE:
                raise ValueError(
                    f"optimizer: a parameter is in {p.dtype}, and so would be its noise, which is then too coarse to hide a "
                    "record: keep the parameters in torch.float32 or torch.float64, and compute with torch.autocast"
                )
            # Under autocast the norms would be rounded to half precision, so that a gradient would be clipped to more.
            gradients = getattr(p, "grad_sample", None)  # without any, Opacus raises
            if isinstance(gradients, list):
                p.grad_sample = [_precise(each) for each in gradients]
            elif gradients is not None:
                p.grad_sample = _precise(gradients)
        self.steps.norm = max(self.steps.norm, _norm(self.optimizer))
        type(self.optimizer).clip_and_accumulate(self.optimizer)
        if self.steps.norm < math.inf and not all(bool(p.summed_grad.isfinite().all()) for p in self.optimizer.params):
            # Whether the batch is left out depends on its records: a training that goes on promises nothing.
            self.steps.norm = math.inf
            raise ValueError(
                "optimizer: the gradient of a record is NaN or infinite, which neither clipping nor noise hides, so that "
                "this training promises nothing: look for such values in the data and in the loss, then train again"
            )
        self.steps.gradients += max(
            sum(map(len, p.grad_sample)) if isinstance(p.grad_sample, list) else len(p.grad_sample)
            for p in self.optimizer.params
        )


_PRECISE = frozenset([torch.float32, torch.float64])


def _precise(gradients: torch.Tensor) -> torch.Tensor:
    """Per-sample gradients in float32 where they have less precision."""
    return gradients if gradients.dtype in _PRECISE else gradients.float()


def _taken(original: Any, *_: Any) -> None:
    """Called before each step of an optimizer that Opacus wraps."""
    steps: _Steps = original._reticent
    if steps.allowed < 1:
        raise ValueError("optimizer: its original_optimizer was to take a step that nobody counted")
    steps.allowed -= 1


_COVERED = frozenset([DPOptimizer, DPPerLayerOptimizer])
_TRUSTED = tuple(
    (kind, name, getattr(kind, name))
    for kind in _COVERED
    for name in ("add_noise", "clip_and_accumulate", "pre_step", "scale_grad")
)

_CHANGED = (
    "history: it is not what was counted: it was cleared or changed, so that it would promise too much; "
    "for another training make another engine"
)

_SHUFFLED = (
    "poisson_sampling: must be True, got False: a shuffled loader's batches are not Poisson batches, and their "
    "epsilon is larger; reticent.Plan(..., sampler=\"shuffled\") says what they promise"
)


def _checked(history: Any) -> list[tuple[float, ...]]:
    """The same entries, each a step that there can be."""
    for noise, rate, steps, *batches in history:
        _ranged("noise_multiplier", noise, 0 <= noise < math.inf, "[0, inf)")
        _ranged("sample_rate", rate, 0 < rate <= 1, "(0, 1]")
        _ranged("steps", steps, 1 <= steps <= 2**53 and int(steps) == steps, "[1, 2^53]")
        if batches:
            _ranged("accumulated batches", batches[0], 2 <= batches[0] <= 10_000, "[2, 10000]")
    return [tuple(entry) for entry in history]


def _digests(state: Any) -> set[bytes]:
    """The generators behind the steps of a saved state."""
    try:
        return {bytes.fromhex(digest) for digest in state["generators"]}
    except (KeyError, TypeError, ValueError):
        raise ValueError(
            "state_dict: its `generators` must be the list of hexadecimal digests that state_dict() gives: without it "
            "nothing says whether noise comes twice"
        ) from None


def _ranged(name: str, value: float, holds: bool, allowed: str) -> None:
    if not holds:
        raise ValueError(f"{name}: must lie in {allowed}, got {value}")


def _norm(optimizer: DPOptimizer) -> float:
    """What an optimizer clips the gradient of a record to; infinite where one of its norms is no finite number."""
    norms = optimizer.max_grad_norms if isinstance(optimizer, DPPerLayerOptimizer) else [optimizer.max_grad_norm]
    norm = math.hypot(*map(float, norms))
    return norm if norm < math.inf else math.inf


def _state(generator: torch.Generator | None, device: torch.device) -> list[bytes]:
    """A digest of the state of a generator, or else of the device's own; none of one that has no state to set back."""
    if generator is not None:
        try:
            state = generator.get_state()
        except RuntimeError:  # of the operating system (secure_mode)
            return []
    elif device.type == "cpu":
        state = torch.get_rng_state()
    elif device.type == "mps":
        state = torch.mps.get_rng_state()
    else:
        state = getattr(torch, device.type).get_rng_state(device)
    return [hashlib.blake2b(state.numpy().tobytes(), digest_size=16).digest()]


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
        accountant._open = None
        made = original(self, *args, poisson_sampling=poisson_sampling, **kwargs)
        steps = accountant._open
        if steps is None:
            raise ValueError("accountant: Opacus asked it for no hook, so that no step would be counted")
        steps.watch(self, made[1], made[-1])
        return made

    make_private._reticent = True  # type: ignore[attr-defined]
    PrivacyEngine.make_private = make_private
