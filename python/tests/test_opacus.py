"""Opacus with Reticent's accountant: a real training, and the ways to misuse it."""

import math
import warnings
from itertools import islice

import pytest
import reticent
import torch
from opacus import PrivacyEngine
from opacus.schedulers import ExponentialGradClip
from opacus.utils.batch_memory_manager import BatchMemoryManager
from reticent.opacus import Accountant, register
from torch.utils.data import DataLoader, TensorDataset

warnings.simplefilter("ignore")
register()
register()  # a second time changes nothing

RECORDS, BATCH = 64, 8


def made(sigma: float = 1.0, dtype: torch.dtype = torch.float32, **kwargs):
    torch.manual_seed(0)
    features = torch.randn(RECORDS, 4, dtype=dtype)
    data = TensorDataset(features, (features.sum(1) > 0).long())
    model = torch.nn.Linear(4, 2, dtype=dtype)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    loader = DataLoader(data, batch_size=BATCH, shuffle=True)
    engine = PrivacyEngine(accountant="reticent")
    settings = {"noise_multiplier": sigma, "max_grad_norm": 1.0, **kwargs}
    return engine, loader, *engine.make_private(module=model, optimizer=optimizer, data_loader=loader, **settings)


def step(model, optimizer, batch) -> None:
    optimizer.zero_grad()
    torch.nn.functional.cross_entropy(model(batch[0]), batch[1]).backward()
    optimizer.step()


def test_training_ends_with_the_epsilon_of_its_plan() -> None:
    engine, _, model, optimizer, loader = made()
    for _ in range(3):
        for batch in loader:
            step(model, optimizer, batch)
    plan = reticent.Plan(sigma=1.0, sample_rate=BATCH / RECORDS, steps=3 * RECORDS // BATCH)
    assert len(engine.accountant) == 24
    assert engine.get_epsilon(1e-5) == pytest.approx(plan.epsilon(1e-5).upper, rel=1e-6)
    assert engine.accountant.bounds(1e-5).lower <= engine.get_epsilon(1e-5)
    # Opacus' own certified accountant is above our lower end
    from opacus.accountants import PRVAccountant

    prv = PRVAccountant()
    prv.history = [(1.0, BATCH / RECORDS, 24)]
    assert prv.get_epsilon(1e-5) >= engine.accountant.bounds(1e-5).lower


def test_shuffled_loaders_are_refused() -> None:
    with pytest.raises(ValueError, match="poisson_sampling: must be True, got False.*shuffled"):
        made(poisson_sampling=False)


def test_other_engines_stay_as_they_were() -> None:
    model = torch.nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    loader = DataLoader(TensorDataset(torch.randn(8, 4), torch.zeros(8).long()), batch_size=4)
    engine = PrivacyEngine(accountant="rdp")
    engine.make_private(
        module=model, optimizer=optimizer, data_loader=loader, noise_multiplier=1.0, max_grad_norm=1.0,
        poisson_sampling=False,
    )  # fmt: skip


def test_training_on_another_loader_is_refused() -> None:
    _, shuffled, model, optimizer, _ = made()
    with pytest.raises(ValueError, match="1 batches were trained on, but 0 were drawn"):
        for batch in shuffled:
            step(model, optimizer, batch)


def test_training_twice_on_a_batch_is_refused() -> None:
    _, _, model, optimizer, loader = made()
    batch = next(iter(loader))
    step(model, optimizer, batch)
    with pytest.raises(ValueError, match="2 batches were trained on, but 1 were drawn"):
        step(model, optimizer, batch)


def test_physical_batches_count_once() -> None:
    engine, _, model, optimizer, loader = made()
    manager = BatchMemoryManager(data_loader=loader, max_physical_batch_size=2, optimizer=optimizer)
    with manager as small:
        for batch in small:
            step(model, optimizer, batch)
    assert len(engine.accountant) == RECORDS // BATCH
    assert engine.accountant.history == [(1.0, BATCH / RECORDS, RECORDS // BATCH)]


def test_accumulated_batches_are_one_step_of_several_coins() -> None:
    """Two Poisson batches in one step: one release, in which a record may take part twice.

    That is at least as much as one batch of twice the rate, which Opacus counts.
    """
    engine, _, model, optimizer, loader = made()
    model.allow_grad_accumulation()
    optimizer.zero_grad()
    for number, batch in enumerate(loader):
        torch.nn.functional.cross_entropy(model(batch[0]), batch[1]).backward()
        if number % 2 == 1:
            optimizer.step()
            optimizer.zero_grad()
    assert engine.accountant.history == [(1.0, BATCH / RECORDS, 4, 2)]
    assert len(engine.accountant) == 4
    one = reticent.Plan(sigma=1.0, sample_rate=2 * BATCH / RECORDS, steps=4).epsilon(1e-5)
    assert engine.accountant.bounds(1e-5).upper >= one.lower


def test_gradients_accumulated_over_the_end_of_a_pass_are_refused() -> None:
    engine, _, model, optimizer, loader = made()
    model.allow_grad_accumulation()
    optimizer.zero_grad()
    for _ in range(2):
        for batch in islice(loader, 1):
            torch.nn.functional.cross_entropy(model(batch[0]), batch[1]).backward()
    with pytest.raises(ValueError, match="2 batches were trained on, but 1 were drawn .* step before its next pass begins"):
        optimizer.step()
    assert engine.accountant.history == []


def test_noise_switched_off_is_known() -> None:
    engine, _, model, optimizer, loader = made()
    for number, batch in enumerate(loader):
        if number == 5:
            optimizer.noise_multiplier = 0.0
        step(model, optimizer, batch)
    assert engine.get_epsilon(1e-5) == math.inf


def test_clipping_switched_off_is_known() -> None:
    engine, _, model, optimizer, loader = made()
    optimizer.max_grad_norm = math.inf
    step(model, optimizer, next(iter(loader)))
    assert engine.get_epsilon(1e-5) == math.inf


def test_norms_of_layers_are_what_they_clip_with() -> None:
    """Opacus' scheduler lowers `max_grad_norm`, which scales the noise, and leaves `max_grad_norms`, which clip."""
    engine, _, model, optimizer, loader = made(clipping="per_layer", max_grad_norm=[1.0, 1.0])
    lowered = ExponentialGradClip(optimizer, gamma=0.5)
    true = []
    for batch in islice(loader, 3):
        step(model, optimizer, batch)
        true.append(optimizer.max_grad_norm / math.sqrt(2))
        lowered.step()
    assert [noise for noise, *_ in engine.accountant.history] == pytest.approx(true, rel=1e-12)
    assert true == pytest.approx([1.0, 0.5, 0.25], rel=1e-6)


@pytest.mark.parametrize("norm", [math.inf, math.nan])
def test_a_layer_that_is_not_clipped_is_known(norm) -> None:
    for clipping, name, norms in (("flat", "max_grad_norm", norm), ("per_layer", "max_grad_norms", [1.0, norm])):
        engine, _, model, optimizer, loader = made(clipping=clipping, max_grad_norm=[1.0, 1.0] if clipping == "per_layer" else 1.0)
        optimizer.signal_skip_step(do_skip=True)  # a part of the first batch
        optimizer.signal_skip_step(do_skip=False)
        (x, y), kept = next(iter(loader)), getattr(optimizer, name)
        setattr(optimizer, name, norms)
        step(model, optimizer, (x[:1], y[:1]))
        setattr(optimizer, name, kept)
        step(model, optimizer, (x[1:], y[1:]))
        assert engine.accountant.history == [(0.0, BATCH / RECORDS, 1)]
        assert engine.get_epsilon(1e-5) == math.inf


def test_physical_batches_are_clipped_each_by_the_norm_of_its_time() -> None:
    engine, _, model, optimizer, loader = made()
    lowered = ExponentialGradClip(optimizer, gamma=0.5)
    true, largest = [], 0.0
    with BatchMemoryManager(data_loader=loader, max_physical_batch_size=2, optimizer=optimizer) as small:
        for batch in small:
            largest = max(largest, optimizer.max_grad_norm)
            last = not optimizer._check_skip_next_step(pop_next=False)
            step(model, optimizer, batch)
            if last:
                true.append(optimizer.max_grad_norm / largest)
                largest = 0.0
            lowered.step()
    counted = [noise for noise, _, steps in engine.accountant.history for _ in range(steps)]
    assert counted == pytest.approx(true, rel=1e-12) and min(true) <= 0.5


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("settings", [{}, {"clipping": "per_layer", "max_grad_norm": [1.0, 1.0]}])
def test_parameters_in_half_precision_are_refused(dtype, settings) -> None:
    """Their noise is rounded to it: which numbers the weights are tells whether a record was there."""
    engine, _, model, optimizer, loader = made(dtype=dtype, **settings)
    with pytest.raises(ValueError, match=f"optimizer: a parameter is in {dtype}"):
        step(model, optimizer, next(iter(loader)))
    assert engine.accountant.history == []
    engine, _, model, optimizer, loader = made(**settings)
    batches = iter(loader)
    step(model, optimizer, next(batches))
    model.to(dtype)
    x, y = next(batches)
    with pytest.raises(ValueError, match=f"optimizer: a parameter is in {dtype}"):
        step(model, optimizer, [x.to(dtype), y])
    assert len(engine.accountant) == 1


def test_double_precision_is_counted() -> None:
    engine, _, model, optimizer, loader = made(dtype=torch.float64)
    for batch in loader:
        step(model, optimizer, batch)
    assert engine.accountant.history == [(1.0, BATCH / RECORDS, RECORDS // BATCH)]


@pytest.mark.parametrize("settings", [{}, {"clipping": "per_layer", "max_grad_norm": [0.5, 0.5]}])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_gradients_of_autocast_are_clipped_in_single_precision(dtype, settings) -> None:
    """Opacus takes their norms in half precision, which makes some of them up to 0.8 % too long."""
    engine, _, model, optimizer, loader = made(**settings)
    for x, y in loader:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=dtype):
            loss = torch.nn.functional.cross_entropy(model(x * 50), y, reduction="sum")
        loss.backward()
        assert all(p.grad_sample.dtype == dtype for p in optimizer.params), "nothing is rounded here: nothing was tested"
        optimizer.step()
        for p in optimizer.params:
            assert p.grad_sample.dtype == p.summed_grad.dtype == torch.float32
    assert len(engine.accountant) == RECORDS // BATCH


def test_adaptive_clipping_is_refused() -> None:
    _, _, model, optimizer, loader = made(
        clipping="adaptive", target_unclipped_quantile=0.5, clipbound_learning_rate=0.2, max_clipbound=10.0,
        min_clipbound=0.01, unclipped_num_std=2.0,
    )  # fmt: skip
    with pytest.raises(ValueError, match="optimizer: AdaClipDPOptimizer is not covered"):
        for batch in loader:
            step(model, optimizer, batch)


def test_calibrated_by_opacus() -> None:
    torch.manual_seed(0)
    model = torch.nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    data = TensorDataset(torch.randn(RECORDS, 4), torch.zeros(RECORDS).long())
    engine = PrivacyEngine(accountant="reticent")
    model, optimizer, loader = engine.make_private_with_epsilon(
        module=model, optimizer=optimizer, data_loader=DataLoader(data, batch_size=BATCH), target_epsilon=4.0,
        target_delta=1e-5, epochs=2, max_grad_norm=1.0,
    )  # fmt: skip
    for _ in range(2):
        for batch in loader:
            step(model, optimizer, batch)
    assert 3.9 < engine.get_epsilon(1e-5) <= 4.0


def test_state_is_saved_and_loaded() -> None:
    accountant = Accountant()
    for _ in range(10):
        accountant.step(noise_multiplier=1.0, sample_rate=0.1)
    other = Accountant()
    other.load_state_dict(accountant.state_dict())
    assert other.get_epsilon(1e-5) == accountant.get_epsilon(1e-5)
    for _ in range(5):
        accountant.step(noise_multiplier=1.0, sample_rate=0.1)
    accountant.step(noise_multiplier=2.0, sample_rate=0.1)
    other.load_state_dict(accountant.state_dict())  # which begins with the ten
    assert other.history == [(1.0, 0.1, 15), (2.0, 0.1, 1)]
    with pytest.raises(ValueError, match="takes delta alone"):
        accountant.get_epsilon(1e-5, alphas=[2])
