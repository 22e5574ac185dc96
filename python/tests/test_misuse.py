"""What a hurried or a hostile user does: an error that names the argument, or the safe side."""

import copy
import json
import math
import pickle
import subprocess
import sys
import threading
from itertools import islice

import numpy
import pandas
import pytest
import reticent
import torch
from opacus import PrivacyEngine
from opacus.optimizers import DPOptimizer
from opacus.utils.batch_memory_manager import BatchMemoryManager
from reticent.opacus import Accountant
from test_opacus import BATCH, RECORDS, made, step
from torch.utils.data import DataLoader, TensorDataset

PLAN = reticent.Plan(sigma=1.1, sample_rate=0.01, steps=1000)
TEXTS = ["one line", "another line"]


def canaries(**kwargs):
    return reticent.canaries(TEXTS, **{"n": 2, "copies": 1, **kwargs})


# Bounds

BOUND = PLAN.epsilon(1e-5)


REFUSED = r"a bound is no plain number: take \.upper \(.*\) or \.lower"


@pytest.mark.parametrize(
    "use",
    [
        lambda b: b + 1, lambda b: 1 + b, lambda b: b - 1, lambda b: 1 - b, lambda b: b * 2, lambda b: 2 * b,
        lambda b: b / 2, lambda b: 2 / b, lambda b: b // 2, lambda b: 2 // b, lambda b: b % 2, lambda b: 2.5 % b,
        lambda b: b**2, lambda b: 2**b, lambda b: pow(b, 2, 3), lambda b: divmod(b, 2), lambda b: b + b, lambda b: -b,
        lambda b: +b, abs, round, lambda b: round(b, 2), math.floor, math.ceil, math.trunc, complex, lambda b: [1, 2][b],
        lambda b: sum([b]), lambda b: sum([b, b], start=0.0), iter, lambda b: numpy.float64(1) + b, lambda b: numpy.ones(2) * b,
        pickle.dumps,
    ],
)  # fmt: skip
def test_arithmetic_says_which_end_to_take(use) -> None:
    with pytest.raises(TypeError, match=REFUSED):
        use(BOUND)


def test_a_bound_is_copied_as_itself() -> None:
    assert copy.copy(BOUND) is BOUND and copy.deepcopy({"epsilon": BOUND})["epsilon"] is BOUND


@pytest.mark.parametrize(
    "use",
    [
        float, int, bool, round, math.floor, math.sqrt, abs, complex, sum,
        lambda b: b + 1, lambda b: 1 - b, lambda b: -b, lambda b: b * 2, lambda b: b / 2, lambda b: b**2,
        lambda b: b < 8, lambda b: b >= 8, lambda b: 8 > b, lambda b: b == 8, lambda b: b != 8, lambda b: max(b, 3.0),
        lambda b: sorted([b, b]), lambda b: f"{b:.3f}", lambda b: "%f" % b, lambda b: math.isclose(b, 1),
        lambda b: numpy.array([b], dtype=float), lambda b: numpy.float64(b), lambda b: torch.tensor(float(b)),
        lambda b: json.dumps({"epsilon": b}), lambda b: PLAN.delta(b), lambda b: "yes" if b else "no",
        lambda b: reticent.calibrate(epsilon=b, delta=1e-5, sample_rate=0.1, steps=100), pickle.dumps,
    ],
)  # fmt: skip
def test_a_bound_never_becomes_a_number(use) -> None:
    with pytest.raises(TypeError):
        use(BOUND)


def test_what_is_no_number_in_json_is_no_bound() -> None:
    with pytest.raises(TypeError, match=r"take \.upper .* or \.lower"):
        float(BOUND)
    assert BOUND == PLAN.epsilon(1e-5) and BOUND != PLAN.epsilon(1e-6)


# Arguments

WRONG = [math.nan, math.inf, -math.inf, -1.0, -5e-324, 1e308, 10**400, -(10**400), True, "1e-5", b"1", None, [1e-5], 1j]
TAKES = {
    "sigma": (lambda x: reticent.Plan(sigma=x, sample_rate=0.01, steps=10), [1e308]),
    "sample_rate": (lambda x: reticent.Plan(sigma=1, sample_rate=x, steps=10), []),
    "steps": (lambda x: reticent.Plan(sigma=1, sample_rate=0.01, steps=x), []),
    "delta": (lambda x: PLAN.epsilon(x), []),
    "epsilon": (lambda x: PLAN.delta(x), [1e308, math.inf]),
    "fpr": (lambda x: PLAN.tpr(x), []),
    "prior": (lambda x: PLAN.posterior(x), []),
    "group": (lambda x: PLAN.epsilon(1e-5, group=x), [None]),
    "tolerance": (lambda x: PLAN.epsilon(1e-5, tolerance=x), [None]),
    "copies": (lambda x: canaries(copies=[x]), []),
    "n": (lambda x: canaries(n=x), []),
    "confidence": (lambda x: reticent.membership([1.0, 2.0], [0.0, 1.0], confidence=x), [None]),
    "seed": (lambda x: canaries(seed=x), [None]),
}


@pytest.mark.parametrize("value", WRONG, ids=lambda v: str(v)[:8])
@pytest.mark.parametrize("name", TAKES)
def test_wrong_values_and_types_name_the_argument(name, value) -> None:
    call, fine = TAKES[name]
    if any(value is other or value == other for other in fine) and value is not True:
        call(value)
        return
    with pytest.raises((ValueError, TypeError)) as raised:
        call(value)
    assert name in str(raised.value)  # and not in a note of it alone, which Python 3.10 has not
    assert len(str(raised.value)) < 700 and "\n" not in str(raised.value)


def test_huge_plans_end_on_the_safe_side() -> None:
    much = reticent.Plan(sigma=1e-300, sample_rate=1.0, steps=2**53)
    assert much.epsilon(1e-5).upper == math.inf
    try:
        assert much.delta(1e300).upper == 1
    except ValueError as error:
        assert "could not certify" in str(error)
    little = reticent.Plan(sigma=1e300, sample_rate=1e-300, steps=1)
    assert 0 <= little.epsilon(1e-5).upper <= 1e-5
    with pytest.raises(ValueError, match="steps"):
        reticent.Plan(sigma=1, sample_rate=1, steps=2**53 + 1)


def test_plans_from_json_are_not_trusted() -> None:
    for text in ("", "null", "[]", "{}", '{"type": "gaussian"}', '{"type": "gaussian", "noise_multiplier": -1}',
                 '{"type": "gaussian", "noise_multiplier": NaN}', '{"type": "x"}', "[" * 100_000):  # fmt: skip
        with pytest.raises(ValueError, match="text: "):
            reticent.Plan.from_json(text)
    doubled = PLAN
    for _ in range(12):
        doubled = doubled.then(doubled)
    assert doubled.epsilon(1e-5).upper >= PLAN.epsilon(1e-5).upper


def test_many_threads_get_the_same_answer() -> None:
    found, plan = [], reticent.Plan(sigma=1.0, sample_rate=0.02, steps=500)
    threads = [threading.Thread(target=lambda: found.append(plan.epsilon(1e-5))) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 16 and all(bound == found[0] for bound in found)


# dp_accounting

def test_events_that_are_none_are_refused() -> None:
    from dp_accounting import GaussianDpEvent, PoissonSampledDpEvent, SelfComposedDpEvent, dp_event
    from dp_accounting.privacy_accountant import UnsupportedEventError
    from reticent.dp_accounting import Accountant as Google

    for event in (
        GaussianDpEvent(-1.0), GaussianDpEvent(math.nan), PoissonSampledDpEvent(1.5, GaussianDpEvent(1)),
        PoissonSampledDpEvent(math.nan, GaussianDpEvent(1)), dp_event.UnsupportedDpEvent(), "gaussian",
        SelfComposedDpEvent(GaussianDpEvent(1), -1), SelfComposedDpEvent(GaussianDpEvent(1), 1.5),
    ):  # fmt: skip
        with pytest.raises((ValueError, TypeError, UnsupportedEventError)):
            Google().compose(event)
    none = Google().compose(GaussianDpEvent(0.0))
    assert none.get_epsilon(1e-5) == math.inf
    for count in (-1, 1.5, math.nan):
        with pytest.raises((ValueError, TypeError, UnsupportedEventError)):
            Google().compose(GaussianDpEvent(1.0), count).get_epsilon(1e-5)


def test_what_json_lacks_is_read_or_refused() -> None:
    import dp_accounting
    from dp_accounting import GaussianDpEvent, PoissonSampledDpEvent, SelfComposedDpEvent, dp_event
    from dp_accounting.privacy_accountant import UnsupportedEventError
    from reticent.dp_accounting import Accountant as Google

    def epsilon(event) -> float:
        return Google().compose(event).get_epsilon(1e-5)

    best = dp_event.RepeatAndSelectDpEvent(GaussianDpEvent(3.0), mean=4.0, shape=math.inf)
    theirs = dp_accounting.rdp.RdpAccountant().compose(best).get_epsilon(1e-5)
    assert 0.8 * theirs < epsilon(best) <= theirs
    plain = PoissonSampledDpEvent(0.125, SelfComposedDpEvent(GaussianDpEvent(2.0), 4))
    arrays = SelfComposedDpEvent(GaussianDpEvent(numpy.float32(2)), numpy.int64(4))
    assert epsilon(PoissonSampledDpEvent(numpy.array(0.125), arrays)) == epsilon(plain)
    sensitivities, shares = numpy.array([0.0, 1.0]), numpy.array([0.9, 0.1])
    mixtures = [dp_event.MixtureOfGaussiansDpEvent(1.0, *lists) for lists in ((sensitivities, shares), ([0.0, 1.0], [0.9, 0.1]))]
    assert epsilon(mixtures[0]) == epsilon(mixtures[1])
    for event in (GaussianDpEvent(math.inf), GaussianDpEvent(-math.inf), GaussianDpEvent(numpy.float64("nan")),
                  dp_event.RandomizedResponseDpEvent(0.5, numpy.float64(2.5)), GaussianDpEvent(numpy.array([1.0]))):  # fmt: skip
        with pytest.raises(UnsupportedEventError):
            Google().compose(event)


# Neighbours

def test_a_posterior_takes_no_neighbours() -> None:
    words = 'neighbours: a posterior has its own, "zero-out"; leave it out, got "replace"'
    with pytest.raises(ValueError, match=words):
        reticent.calibrate(prior=1e-9, posterior=1e-4, neighbours="replace", sample_rate=0.1, steps=10)
    with pytest.raises(ValueError, match=words):
        PLAN.curve("posterior", [1e-6], neighbours="replace")
    assert PLAN.curve("posterior", [1e-6])[0][1] == PLAN.posterior(1e-6)


# Opacus

def test_nothing_is_counted_without_a_loader() -> None:
    """The hook alone, on an optimizer that nobody gave a Poisson loader."""
    _, _, model, optimizer, loader = made()
    optimizer.attach_step_hook(Accountant().get_optimizer_hook_fn(sample_rate=1e-6))
    with pytest.raises(ValueError, match="data_loader: nothing says how its batches are drawn"):
        step(model, optimizer, next(iter(loader)))


def test_an_engine_with_the_accountant_put_in_by_hand() -> None:
    engine, loader, *_ = made()
    model = torch.nn.Linear(4, 2)
    other = PrivacyEngine(accountant="rdp")
    other.accountant = Accountant()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    with pytest.raises(ValueError, match="poisson_sampling: must be True"):
        other.make_private(
            module=model, optimizer=optimizer, data_loader=loader, noise_multiplier=1.0, max_grad_norm=1.0,
            poisson_sampling=False,
        )  # fmt: skip


def test_a_rate_that_is_raised_afterwards_is_refused() -> None:
    _, _, model, optimizer, loader = made()
    loader.batch_sampler.sample_rate = 0.9
    with pytest.raises(ValueError, match="drawn at the rate 0.9, and accounted for at 0.125"):
        step(model, optimizer, next(iter(loader)))


def test_batches_left_over_are_not_spent_in_another_pass() -> None:
    _, _, model, optimizer, loader = made()
    for _ in loader:
        pass  # looked at, not trained on
    batch = next(iter(loader))
    step(model, optimizer, batch)
    with pytest.raises(ValueError, match="were drawn"):
        step(model, optimizer, batch)


def test_two_loaders_of_one_engine_do_not_lend_each_other_batches() -> None:
    engine, plain, model, optimizer, loader = made()
    second = torch.nn.Linear(4, 2)
    other, other_optimizer, other_loader = engine.make_private(
        module=second, optimizer=torch.optim.SGD(second.parameters(), lr=0.5), data_loader=plain, noise_multiplier=1.0,
        max_grad_norm=1.0,
    )  # fmt: skip
    step(model, optimizer, next(iter(loader)))
    step(other, other_optimizer, next(iter(other_loader)))
    assert len(engine.accountant) == 2
    with pytest.raises(ValueError, match="2 batches were trained on, but 1 were drawn"):
        step(model, optimizer, next(iter(other_loader)))


def test_steps_behind_the_optimizers_back_are_refused() -> None:
    _, _, model, optimizer, loader = made()
    step(model, optimizer, next(iter(loader)))
    with pytest.raises(ValueError, match="a step that nobody counted"):
        optimizer.original_optimizer.step()
    optimizer.attach_step_hook(lambda optimizer: None)
    with pytest.raises(ValueError, match="a step that nobody counted"):
        step(model, optimizer, next(iter(loader)))


def test_replaced_methods_are_refused(monkeypatch) -> None:
    _, _, model, optimizer, loader = made()
    optimizer.add_noise = lambda: None
    with pytest.raises(ValueError, match="add_noise was replaced"):
        step(model, optimizer, next(iter(loader)))
    _, _, model, optimizer, loader = made()
    monkeypatch.setattr(DPOptimizer, "clip_and_accumulate", DPOptimizer.clip_and_accumulate.__get__(object()).__func__)
    step(model, optimizer, next(iter(loader)))  # the same function
    original = DPOptimizer.clip_and_accumulate
    monkeypatch.setattr(DPOptimizer, "clip_and_accumulate", lambda self: original(self))
    with pytest.raises(ValueError, match="clip_and_accumulate was replaced"):
        step(model, optimizer, next(iter(loader)))


def test_an_optimizer_that_only_bears_the_name_is_refused() -> None:
    _, _, model, optimizer, loader = made()

    class Quiet(type(optimizer)):
        def add_noise(self) -> None:
            for p in self.params:
                p.grad = p.summed_grad.view_as(p)

    Quiet.__name__ = "DPOptimizer"
    optimizer.__class__ = Quiet
    with pytest.raises(ValueError, match="is not covered"):
        step(model, optimizer, next(iter(loader)))


def test_two_views_of_a_record_are_refused() -> None:
    """Each is clipped by itself, so that one record counts twice: at twice the sensitivity ε is 12.9, not 3.2."""
    engine, _, model, optimizer, loader = made()
    optimizer.zero_grad()
    x, y = next(iter(loader))
    with pytest.raises(ValueError, match=rf"{2 * len(x)} per-sample gradients, .* at most {len(x)} records"):
        step(model, optimizer, (torch.cat([x, x + 0.01]), torch.cat([y, y])))
    assert len(engine.accountant) == 0


def test_two_views_in_physical_batches_are_refused() -> None:
    _, _, model, optimizer, loader = made()
    with BatchMemoryManager(data_loader=loader, max_physical_batch_size=2, optimizer=optimizer) as small:
        with pytest.raises(ValueError, match="per-sample gradients"):
            for x, y in small:
                step(model, optimizer, (torch.cat([x, x]), torch.cat([y, y])))


def test_batches_of_one_step_without_a_count_are_refused() -> None:
    """Two batches by signal_skip_step, of which Opacus would count the last."""
    _, _, model, optimizer, loader = made()
    batches = iter(loader)
    optimizer.signal_skip_step(do_skip=True)
    step(model, optimizer, next(batches))
    with pytest.raises(ValueError, match="per-sample gradients"):
        step(model, optimizer, next(batches))


def test_batches_may_be_drawn_ahead() -> None:
    engine, _, model, optimizer, loader = made()
    loader.num_workers, loader.prefetch_factor = 2, 2
    for batch in loader:
        step(model, optimizer, batch)
    assert len(engine.accountant) == 8


def small(**kwargs):
    """Eight records in batches of one on average, of which a third is empty."""
    torch.manual_seed(0)
    model = torch.nn.Linear(4, 2)
    data = TensorDataset(torch.randn(8, 4), torch.zeros(8).long())
    engine = PrivacyEngine(accountant="reticent")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    settings = {"noise_multiplier": 1.0, "max_grad_norm": 1.0, **kwargs}
    return engine, *engine.make_private(module=model, optimizer=optimizer, data_loader=DataLoader(data, batch_size=1), **settings)


def test_empty_batches_have_their_steps() -> None:
    """Left out, whether there is a step depends on one record: without x the batch {x} is empty."""
    engine, model, optimizer, loader = small()
    sizes = []
    for _ in range(3):
        for batch in loader:
            sizes.append(len(batch[0]))
            step(model, optimizer, batch)
    assert len(engine.accountant) == 24 and 0 in sizes and all(p.isfinite().all() for p in model.parameters())
    _, model, optimizer, loader = small()
    with pytest.raises(ValueError, match="batch has at most 0 records: a batch before it was left out"):
        for batch in (batch for _ in range(3) for batch in loader if len(batch[0]) > 0):
            step(model, optimizer, batch)
    # A row that is made up for an empty batch is as far from {x} as two records are.
    _, model, optimizer, loader = small(rand_on_empty=True)
    with pytest.raises(ValueError, match=r"batch has at most 0 records: .*\(rand_on_empty\)"):
        for batch in (batch for _ in range(3) for batch in loader):
            step(model, optimizer, batch)


@pytest.mark.parametrize("workers", [0, 2])
def test_a_pass_may_end_early_but_not_with_an_empty_batch_left_out(workers) -> None:
    engine, model, optimizer, loader = small()
    loader.num_workers, loader.prefetch_factor = workers, 2 if workers else None
    for _ in range(6):
        for batch in islice(loader, 7):
            step(model, optimizer, batch)
    assert len(engine.accountant) == 42
    if workers == 0:
        with pytest.raises(ValueError, match="the last pass ended with an empty batch that had no step"):
            for _ in range(20):
                batches = list(loader)  # each is taken in turn
                last = len(batches) - (len(batches[-1][0]) == 0)
                for batch in batches[:last]:
                    step(model, optimizer, batch)


def test_other_batches_are_not_left_out_either() -> None:
    _, _, model, optimizer, loader = made()
    with pytest.raises(ValueError, match="a batch before it was left out"):
        for batch in loader:
            if len(batch[0]) >= BATCH:
                step(model, optimizer, batch)


def test_a_replaced_accountant_is_refused() -> None:
    engine, _, model, optimizer, loader = made()
    batches = iter(loader)
    step(model, optimizer, next(batches))
    engine.accountant = Accountant()
    with pytest.raises(ValueError, match="accountant: the engine has another one than at make_private"):
        step(model, optimizer, next(batches))


@pytest.mark.parametrize(
    "change", [list.clear, list.pop, lambda h: h.insert(0, h[0]), lambda h: h.__setitem__(0, (9.0, 0.1, 1))]
)
def test_a_changed_history_is_refused(change) -> None:
    engine, _, model, optimizer, loader = made()
    batches = iter(loader)
    step(model, optimizer, next(batches))
    change(engine.accountant.history)
    with pytest.raises(ValueError, match="history: it is not what was counted"):
        engine.get_epsilon(1e-5)
    with pytest.raises(ValueError, match="history: it is not what was counted"):
        step(model, optimizer, next(batches))
    other = Accountant()
    other.load_state_dict({"history": [(1.0, 0.1, 5)], "mechanism": "reticent", "generators": []})
    other.history.clear()
    with pytest.raises(ValueError, match="history: it is not what was counted"):
        other.get_epsilon(1e-5)


@pytest.mark.parametrize(
    "history", [[], [(1.0, 0.125, 1)], [(2.0, 0.125, 2)], [(1.0, 0.5, 2)], [(1.0, 0.125, 2, 2)], [(2.0, 0.125, 1), (1.0, 0.125, 2)]]
)
def test_what_was_counted_is_not_overwritten(history) -> None:
    engine, _, model, optimizer, loader = made()
    batches = iter(loader)
    for _ in range(2):
        step(model, optimizer, next(batches))
    accountant, before = engine.accountant, engine.get_epsilon(1e-5)
    for forget in (
        lambda: accountant.load_state_dict({"history": history, "mechanism": "reticent", "generators": []}),
        lambda: accountant.__setstate__({"history": history, "mechanism": "reticent", "generators": []}),
        accountant.__init__,
    ):
        with pytest.raises(ValueError, match="history: it is not what was counted"):
            forget()
    assert accountant.history == [(1.0, 0.125, 2)] and engine.get_epsilon(1e-5) == before


def test_noise_that_comes_twice_is_refused() -> None:
    """Two steps with the same noise are one step of twice the sensitivity, and their difference has none."""
    engine, _, model, optimizer, loader = made()
    torch.manual_seed(42)
    for batch in loader:
        step(model, optimizer, batch)
    torch.manual_seed(42)
    with pytest.raises(ValueError, match="generator: it was set back to where it was before"):
        step(model, optimizer, next(iter(loader)))
    assert len(engine.accountant) == RECORDS // BATCH
    own = torch.Generator().manual_seed(1)
    engine, _, model, optimizer, loader = made(noise_generator=own)
    batches = iter(loader)
    step(model, optimizer, next(batches))
    step(model, optimizer, next(batches))
    own.manual_seed(1)
    with pytest.raises(ValueError, match="generator: it was set back"):
        step(model, optimizer, next(batches))


def test_batches_that_come_twice_are_refused() -> None:
    engine, _, model, optimizer, loader = made(noise_generator=torch.Generator().manual_seed(1))
    torch.manual_seed(42)
    for _ in loader:
        pass  # looked at, not trained on
    torch.manual_seed(42)
    step(model, optimizer, next(iter(loader)))
    torch.manual_seed(42)
    with pytest.raises(ValueError, match="generator: it was set back"):
        step(model, optimizer, next(iter(loader)))
    assert len(engine.accountant) == 1


def test_a_resumed_training_that_repeats_itself_is_refused(tmp_path) -> None:
    """A script that seeds at its top draws the noise and the batches of its first steps again when it resumes."""
    engine, _, model, optimizer, loader = made()
    for batch in loader:
        step(model, optimizer, batch)
    saved = {"path": tmp_path / "checkpoint.pt"}
    engine.save_checkpoint(module=model, optimizer=optimizer, **saved)
    reached = torch.get_rng_state()
    engine, _, model, optimizer, loader = made()
    engine.load_checkpoint(module=model, optimizer=optimizer, **saved)
    with pytest.raises(ValueError, match="generator: it was set back .* where a resumed training begins"):
        step(model, optimizer, next(iter(loader)))
    torch.set_rng_state(reached)
    step(model, optimizer, next(iter(loader)))
    torch.manual_seed(7)
    step(model, optimizer, next(iter(loader)))
    assert engine.accountant.history == [(1.0, BATCH / RECORDS, RECORDS // BATCH + 2)]


@pytest.mark.parametrize("generators", [{}, {"generators": None}, {"generators": "00"}, {"generators": [7]}])
def test_states_without_their_generators_are_refused(generators) -> None:
    accountant = Accountant()
    with pytest.raises(ValueError, match="state_dict: its `generators` must be the list"):
        accountant.load_state_dict({"history": [(1.0, 0.1, 5)], "mechanism": "reticent", **generators})
    assert accountant.history == []


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_gradient_that_is_no_number_is_refused(value) -> None:
    """It is neither clipped nor noised: one record decides whether the weights become NaN."""
    engine, _, model, optimizer, loader = made()
    batches = iter(loader)
    x, y = next(batches)
    x[0] = value
    before = model._module.weight.detach().clone()
    with pytest.raises(ValueError, match="optimizer: the gradient of a record is NaN or infinite"):
        step(model, optimizer, (x, y))
    assert torch.equal(model._module.weight, before) and engine.accountant.history == []
    # Whether a batch is left out depends on the record too.
    step(model, optimizer, next(batches))
    assert engine.get_epsilon(1e-5) == math.inf


def test_a_parameter_that_is_frozen_too_late_is_refused() -> None:
    """Opacus leaves it out of clipping and noise, and the wrapped optimizer moves it by what backward left."""
    _, _, model, optimizer, loader = made()
    batches = iter(loader)
    x, y = next(batches)
    optimizer.zero_grad()
    torch.nn.functional.cross_entropy(model(x), y).backward()
    before = model._module.weight.detach().clone()
    model._module.weight.requires_grad = False
    with pytest.raises(ValueError, match="optimizer: 1 of its parameters have requires_grad False and a gradient"):
        optimizer.step()
    assert torch.equal(model._module.weight, before)
    # In time.
    engine, _, model, optimizer, loader = made()
    batches = iter(loader)
    step(model, optimizer, next(batches))
    model._module.weight.requires_grad = False
    step(model, optimizer, next(batches))
    assert len(engine.accountant) == 2


def test_a_swapped_original_optimizer_is_refused() -> None:
    engine, _, model, optimizer, loader = made()
    optimizer.original_optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with pytest.raises(ValueError, match="its original_optimizer was replaced"):
        step(model, optimizer, next(iter(loader)))
    assert len(engine.accountant) == 0


@pytest.mark.parametrize("noise", [math.nan, math.inf, -1.0])
def test_noise_that_there_cannot_be(noise) -> None:
    accountant = Accountant()
    with pytest.raises(ValueError, match=r"noise_multiplier: must lie in \[0, inf\)"):
        accountant.step(noise_multiplier=noise, sample_rate=0.1)
    assert accountant.history == []


def test_noise_lowered_midway_counts_from_there() -> None:
    engine, _, model, optimizer, loader = made()
    for number, batch in enumerate(loader):
        if number == 4:
            optimizer.noise_multiplier = 0.5
        step(model, optimizer, batch)
    rate = BATCH / RECORDS
    assert engine.accountant.history == [(1.0, rate, 4), (0.5, rate, 4)]
    parts = [reticent.Plan(sigma=sigma, sample_rate=rate, steps=4) for sigma in (1.0, 0.5)]
    both = parts[0].then(parts[1]).epsilon(1e-5)
    assert engine.get_epsilon(1e-5) == pytest.approx(both.upper, rel=1e-9)


def test_no_noise_promises_nothing() -> None:
    engine, _, model, optimizer, loader = made(sigma=0.0)
    step(model, optimizer, next(iter(loader)))
    assert engine.get_epsilon(1e-5) == math.inf


def test_pickled_accountants_keep_what_was_counted_and_count_nothing() -> None:
    engine, _, model, optimizer, loader = made()
    step(model, optimizer, next(iter(loader)))
    for other in (pickle.loads(pickle.dumps(engine.accountant)), copy.deepcopy(engine.accountant)):
        assert other.state_dict() == engine.accountant.state_dict()
        assert other.get_epsilon(1e-5) == engine.get_epsilon(1e-5)
        optimizer.attach_step_hook(other.get_optimizer_hook_fn(sample_rate=1e-9))
        with pytest.raises(ValueError, match="nothing says how its batches are drawn"):
            step(model, optimizer, next(iter(loader)))


@pytest.mark.parametrize(
    "entry",
    [(math.nan, 0.1, 5), (-1.0, 0.1, 5), (1.0, 0.0, 5), (1.0, 1.5, 5), (1.0, 0.1, 0), (1.0, 0.1, -5), (1.0, 0.1, 2.5),
     (1.0, 0.1), (1.0, 0.1, 5, 0), (1.0, 0.1, 5, 1.5)],
)  # fmt: skip
def test_forged_histories_are_refused(entry) -> None:
    accountant = Accountant()
    accountant.step(noise_multiplier=1.0, sample_rate=0.1)
    state = {"history": [entry], "mechanism": "reticent", "generators": []}
    with pytest.raises((ValueError, TypeError)):
        accountant.load_state_dict(state)
    assert accountant.history == [(1.0, 0.1, 1)]
    # Whoever writes into the list is held up when asking.
    accountant.history = [entry]
    with pytest.raises((ValueError, TypeError)):
        accountant.get_epsilon(1e-5)


def test_threads_lose_no_step() -> None:
    accountant = Accountant()

    def work() -> None:
        for _ in range(500):
            accountant.step(noise_multiplier=1.0, sample_rate=0.01)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(accountant) == 4000


# Audits

def test_callbacks_say_what_is_wrong_before_anyone_trains() -> None:
    from reticent.hf import AuditCallback

    plan = canaries()
    for arguments, words in (
        ({"promise": 2.0}, "promise: must be a Plan or a function"),
        ({"promise": BOUND}, "promise: must be a Plan or a function"),
        ({"delta": 2}, r"delta: .*\[0, 1\], got 2"),
        ({"delta": "1e-5"}, "delta"),
        ({"confidence": 1.0}, "confidence: "),
        ({"max_exposure": -1}, "max_exposure: "),
        ({"max_exposure": 1075}, r"max_exposure: must be a number of bits in \[0, 1074\], got 1075"),
        ({"batch": 0}, "batch: must lie in"),
        ({"budget": -1}, "budget: must lie in"),
        ({"defaults": {"delta": 1}}, "defaults"),
    ):
        with pytest.raises((ValueError, TypeError), match=words):
            AuditCallback(plan, **arguments)
    with pytest.raises(TypeError, match="plan: must be a CanaryPlan"):
        AuditCallback("plan")


def test_scorers_of_several_threads_and_none() -> None:
    plan = canaries()
    for scorer in (None, 5, "model"):
        with pytest.raises(TypeError):
            reticent.exposure(plan, scorer, tokenizer="characters")
    for answer in (None, [], [[None]], "text", [["a"]]):
        with pytest.raises((TypeError, ValueError)):
            reticent.exposure(plan, lambda p, w, answer=answer: answer, tokenizer="characters")


def test_opacus_that_is_missing_says_how_to_install_it() -> None:
    code = "import sys; sys.modules['opacus'] = None; import reticent.opacus"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert 'ModuleNotFoundError: reticent.opacus: opacus is not installed: pip install opacus' in done.stderr
    # A stranger may own the name of this package there: it is installed from a clone.
    assert "install reticent" not in done.stderr and "reticent[" not in done.stderr


def test_membership_of_nothing() -> None:
    for members, others in (([], [1.0]), ([1.0], []), ([math.inf, math.nan], [1.0]), ([[1.0]], [1.0])):
        with pytest.raises((ValueError, TypeError)):
            reticent.membership(members, others)
    for members in ([None], ["ninety"], [1j], [10**400]):
        with pytest.raises(TypeError, match="members, row 0: must be a number, got") as raised:
            reticent.membership(members, [1.0])
        assert "ninety" not in str(raised.value)
    for fpr in ((math.nan,), (2.0,), (-0.1,), (True,)):
        with pytest.raises((ValueError, TypeError)):
            reticent.membership([1.0, 2.0], [0.0, 1.0], fpr=fpr)


NO_SEQUENCES = [
    "123", b"123", {1.0: 0, 2.0: 0, 3.0: 0}, {1.0, 2.0, 3.0}, 0.5, None, pandas.DataFrame({label: [1.0] * 3 for label in range(3)}),
]  # fmt: skip


@pytest.mark.parametrize("wrong", NO_SEQUENCES, ids=lambda wrong: type(wrong).__name__)
def test_keys_and_labels_are_no_values(wrong) -> None:
    scores = [1.0, 2.0, 3.0]
    for name, call in (
        ("members", lambda: reticent.membership(wrong, scores)),
        ("non_members", lambda: reticent.membership(scores, wrong)),
        ("fpr", lambda: reticent.membership(scores, scores, fpr=wrong)),
        ("groups of members", lambda: reticent.membership(scores, scores, groups=(wrong, scores))),
        ("texts of non-members", lambda: reticent.membership(scores, scores, texts=(["a", "b", "c"], wrong))),
        ("supervised", lambda: reticent.audit.preflight(canaries(), wrong)),
    ):
        with pytest.raises(TypeError, match=f"{name}: must be a sequence such as .*, got {type(wrong).__name__}"):
            call()
    for copies in ({3: 1}, {3}, "3", pandas.DataFrame({3: [1]})):
        with pytest.raises(TypeError, match="copies"):
            canaries(copies=copies)


SCORES = [0.1 * row for row in range(24)]
AUTHORS = [row % 12 for row in range(24)]  # a bootstrap needs ten on each side


@pytest.mark.parametrize(
    "same",
    [numpy.array, pandas.Series, torch.tensor, lambda a: numpy.array(a, dtype=numpy.int32), lambda a: list(map(float, a)),
     lambda a: list(numpy.array(a)), lambda a: list(torch.tensor(a)), lambda a: pandas.Series(a, dtype="Int64")],
)  # fmt: skip
def test_equal_groups_are_one_whatever_their_type(same) -> None:
    """An author on both sides is one author, so that the interval is as wide as with lists of one type."""
    plain = reticent.membership(SCORES, SCORES, groups=(AUTHORS, AUTHORS)).document
    for groups in ((same(AUTHORS), AUTHORS), (AUTHORS, same(AUTHORS))):
        assert reticent.membership(SCORES, SCORES, groups=groups).document == plain
    assert reticent.membership(SCORES, SCORES, groups=(AUTHORS, [20 + a for a in AUTHORS])).document["groups"] != plain["groups"]


def test_groups_of_text_are_compared_as_text() -> None:
    names = [f"author {author}" for author in AUTHORS]
    plain = reticent.membership(SCORES, SCORES, groups=(names, names)).document
    for same in (numpy.array(names), pandas.Series(names), pandas.Series(names, dtype="category")):
        assert reticent.membership(SCORES, SCORES, groups=(same, names)).document == plain
    assert plain == reticent.membership(SCORES, SCORES, groups=(AUTHORS, AUTHORS)).document


@pytest.mark.parametrize(
    ("group", "words"),
    [(None, "must not be missing, got NoneType"), (math.nan, "must not be missing, got float"),
     (numpy.float32("nan"), "must not be missing"), (pandas.NA, "must not be missing, got NAType"),
     (pandas.NaT, "must not be missing, got NaTType"), ([1], "must be text or a number, got list")],
)  # fmt: skip
def test_groups_that_say_nothing_are_refused(group, words) -> None:
    with pytest.raises((ValueError, TypeError), match=f"groups of non-members, row 2: {words}"):
        reticent.membership([1.0] * 3, [0.0] * 3, groups=([1, 2, 3], [1, 2, group]))


def test_groups_are_two_sequences_of_one_kind() -> None:
    with pytest.raises(ValueError, match="groups: must be all text or all numbers, got both"):
        reticent.membership([1.0] * 3, [0.0] * 3, groups=(["1", "2", "3"], [1, 2, 3]))
    with pytest.raises(ValueError, match="groups: must be two sequences, of members and of non-members, got 3"):
        reticent.membership([1.0] * 3, [0.0] * 3, groups=([1, 2, 3], [1, 2, 3], [1, 2, 3]))


HALF = "ada@example.org \ud800"
SURROGATE = r"must be text, and has half of a surrogate pair \(U\+D800 to U\+DFFF\)$"


@pytest.mark.parametrize(("use", "where"), [
    (lambda: reticent.redact(HALF), "batch"),
    (lambda: reticent.redact({"text": ["fine", HALF]}), "text, row 1"),
    (lambda: reticent.canaries(["fine", HALF], n=1, copies=1), "data, row 1"),
    (lambda: reticent.membership([1, 2], [3], texts=(["fine", HALF], ["other"])), "texts of members, row 1"),
    (lambda: reticent.membership([1], [2, 3], texts=(["fine"], ["other", HALF])), "texts of non-members, row 1"),
])  # fmt: skip
def test_text_that_utf_8_cannot_say_is_refused_by_place(use, where) -> None:
    with pytest.raises(ValueError, match=f"^{where}: {SURROGATE}") as raised:
        use()
    assert raised.value.__context__ is None and "ada" not in str(raised.value)


def test_a_column_is_masked_and_its_labels_are_not_quoted() -> None:
    column = pandas.Series(["to ada@example.org", "x"], index=["bob@example.org", 1])
    assert reticent.redact(column) == ["to <MASK>", "x"]
    assert list(reticent.redact(pandas.DataFrame({"text": ["to ada@example.org"]}))["text"]) == ["to <MASK>"]
    with pytest.raises(ValueError, match=r"field: 'text' is not in the batch; it has \['1', 'a'\]"):
        reticent.redact({"a": [], 1: []})


@pytest.mark.parametrize(("use", "said"), [
    (lambda: reticent.membership(["1", "2"], [3]), "members, row 0: must be a number, got str"),
    (lambda: reticent.membership([1], [2, b"3"]), "non_members, row 1: must be a number, got bytes"),
    (lambda: reticent.membership([1], [2]).tpr_lower("x"), "fpr: must be a number, got str"),
    (lambda: reticent.membership([1, 2], [3], texts=(["a", None], ["b"])), "texts of members, row 1: must be text, got NoneType"),
    (lambda: reticent.audit.preflight(canaries(), [1]), "supervised, row 0: must be text, got int"),
])  # fmt: skip
def test_what_is_of_another_type_is_named(use, said) -> None:
    with pytest.raises(TypeError) as raised:
        use()
    assert str(raised.value) == said


@pytest.mark.parametrize("true", [True, numpy.True_, torch.tensor(True), numpy.array(True)], ids=lambda v: type(v).__name__)
@pytest.mark.parametrize("name", TAKES)
def test_bools_of_every_library_are_no_numbers(name, true) -> None:
    with pytest.raises(TypeError, match=r"must be a (whole )?number, got bool$") as raised:
        TAKES[name][0](true)
    assert name in str(raised.value)


def test_numbers_of_other_libraries_are_numbers() -> None:
    for one in (numpy.float32(0.5), numpy.array(0.5), torch.tensor(0.5), numpy.int64(1), torch.tensor(1)):
        assert reticent.Plan(sigma=one, sample_rate=0.01, steps=1) == reticent.Plan(sigma=float(one), sample_rate=0.01, steps=1)


@pytest.mark.parametrize("use", [
    lambda text: reticent.Plan(sigma=1, sample_rate=0.1, steps=1, sampler=text),
    lambda text: PLAN.epsilon(1e-5, neighbours=text),
    lambda text: canaries(unit=text),
    lambda text: reticent.redact("one", text),
    lambda text: PLAN.curve(text, []),
])  # fmt: skip
def test_long_texts_are_not_quoted(use) -> None:
    with pytest.raises(ValueError, match="must be one of .*, got a text of 30000 characters$") as raised:
        use("names: [Ada Lovelace, Bob]\nxyz" * 1000)
    assert "Ada" not in str(raised.value)


def test_a_curve_is_checked_without_places() -> None:
    with pytest.raises(ValueError, match="what: must be one of"):
        PLAN.curve("nope", [])
    with pytest.raises(ValueError, match="neighbours: a posterior has its own"):
        PLAN.curve("posterior", [], neighbours="replace")
