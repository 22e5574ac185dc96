"""What Python shows of the accounting crate: directions, arguments, errors, threads."""

import copy
import json
import math
import pickle
import signal
import subprocess
import sys
import threading
import time

import pytest
import reticent

PLAN = reticent.Plan(sigma=1.1, sample_rate=0.01, steps=10_000)


def test_ends_are_in_order_and_close() -> None:
    for bounds in (PLAN.epsilon(1e-5), PLAN.delta(1.0), PLAN.tpr(1e-3), PLAN.posterior(1e-9)):
        assert 0 < bounds.lower <= bounds.upper <= bounds.lower * (1 + 1e-5)


def test_epsilon_and_delta_are_inverse() -> None:
    for delta in (1e-3, 1e-5, 1e-10):
        assert PLAN.delta(PLAN.epsilon(delta).upper).lower <= delta
        assert PLAN.delta(PLAN.epsilon(delta).lower).upper >= delta


def test_what_harms_more_is_larger() -> None:
    epsilon = PLAN.epsilon(1e-5).lower
    assert PLAN.epsilon(1e-5, neighbours="replace").lower > epsilon
    assert PLAN.epsilon(1e-5, group=5).lower > epsilon
    shuffled = reticent.Plan(sigma=1.1, sample_rate=0.01, steps=10_000, sampler="shuffled")
    assert shuffled.epsilon(1e-5, neighbours="replace").upper > PLAN.epsilon(1e-5, neighbours="replace").upper


def test_runs_within_an_epoch_are_no_epoch() -> None:
    half = reticent.Plan(sigma=1, sample_rate=0.25, steps=2, sampler="balls-in-bins")
    step = reticent.Plan(sigma=1, sample_rate=0.25, steps=1, sampler="balls-in-bins")
    epoch = reticent.Plan(sigma=1, sample_rate=0.25, steps=4, sampler="balls-in-bins")
    for plan in (half.then(half), step.then(step).then(step).then(step)):
        assert plan.epsilon(1e-5).upper > 1.1 * epoch.epsilon(1e-5).upper
    drawn = reticent.Plan(sigma=1, sample_rate=0.25, steps=2).epsilon(1e-5).upper
    assert abs(step.then(step).epsilon(1e-5).upper - drawn) < 1e-5


@pytest.mark.parametrize("use", [float, int, bool, lambda b: b < 2, lambda b: 2 < b, lambda b: b >= 2, math.sqrt, "{:.3f}".format])
def test_a_bound_is_no_number(use) -> None:
    with pytest.raises(TypeError, match=r"\.upper.*\.lower"):
        use(PLAN.epsilon(1e-5))


@pytest.mark.parametrize("use", [lambda b: b + 1, lambda b: 1 - b, round, lambda b: max(b, 2.0)])
def test_no_arithmetic_with_a_bound(use) -> None:
    with pytest.raises(TypeError):
        use(PLAN.epsilon(1e-5))


def test_an_unknown_end_raises() -> None:
    stated = reticent.Plan.from_json('{"type": "zcdp", "rho": 0.1, "neighbours": "add-remove"}')
    bounds = stated.epsilon(1e-5)
    assert bounds.has_upper and not bounds.has_lower
    with pytest.raises(ValueError, match="lower: no lower end is known"):
        _ = bounds.lower
    assert "unknown" in repr(bounds)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: PLAN.epsilon(2), r"delta: .*\[0, 1\], got 2"),
        (lambda: PLAN.epsilon(math.nan), r"delta: .*\[0, 1\], got NaN"),
        (lambda: PLAN.delta(-1), r"epsilon: .*\[0, inf\], got -1"),
        (lambda: PLAN.tpr(1.5), r"fpr: .*\[0, 1\], got 1.5"),
        (lambda: PLAN.posterior(-0.1), r"prior: .*\[0, 1\], got -0.1"),
        (lambda: PLAN.epsilon(1e-5, group=0), r"group: .*\[1, 10000\], got 0"),
        (lambda: PLAN.epsilon(1e-5, group=-1), r"group: .*\[1, 10000\], got -1"),
        (lambda: PLAN.epsilon(1e-5, tolerance=0), r"tolerance: .*\[1e-12, 0.5\], got 0"),
        (lambda: PLAN.epsilon(1e-5, neighbours="swap"), "neighbours: must be one of .*got \"swap\""),
        (lambda: PLAN.curve("renyi", [2.0]), "what: must be one of"),
        (lambda: reticent.Plan(sigma=0, sample_rate=0.1, steps=1), r"sigma: .*\(0, inf\), got 0"),
        (lambda: reticent.Plan(sigma=1, sample_rate=2, steps=1), r"sample_rate: .*\[0, 1\], got 2"),
        (lambda: reticent.Plan(sigma=1, sample_rate=1, steps=-1), r"steps: .*got -1"),
        (lambda: reticent.Plan(sigma=1, sample_rate=1, steps=1, sampler="coin"), 'sampler: .*"balls-in-bins", "without-replacement", got "coin"'),
        (lambda: reticent.Plan.from_json("[1"), "text: "),
        (lambda: reticent.calibrate(epsilon=1, delta=1e-5, steps=1), "exactly two of sigma"),
        (lambda: reticent.calibrate(epsilon=1, sample_rate=1, steps=1), "epsilon, delta: one is given"),
        (lambda: reticent.calibrate(sample_rate=1, steps=1), "exactly one promise"),
        (lambda: reticent.calibrate(prior=0.1, posterior=0.1, sample_rate=1, steps=1), "posterior"),
    ],
)
def test_errors_name_argument_value_and_range(call, words) -> None:
    with pytest.raises(ValueError, match=words):
        call()


def test_what_is_not_covered_is_refused() -> None:
    drawn = reticent.Plan(sigma=1, sample_rate=0.1, steps=10, sampler="without-replacement")
    with pytest.raises(ValueError, match="not covered"):
        drawn.epsilon(1e-5, neighbours="zero-out")
    with pytest.raises(ValueError, match="not covered"):
        drawn.delta(1.0, neighbours="zero-out")


def test_a_rate_of_zero_draws_nobody() -> None:
    never = reticent.Plan(sigma=1, sample_rate=0, steps=10)
    assert never.epsilon(0).upper == never.epsilon(0).lower == never.delta(0).upper == 0
    assert never.posterior(0.25).upper == never.tpr(0.25).upper == 0.25
    with pytest.raises(ValueError, match=r"sampling rate.*\(0, 1\], got 0"):
        reticent.Plan(sigma=1, sample_rate=0, steps=10, sampler="balls-in-bins").epsilon(1e-5)


def test_calibration_of_each_parameter() -> None:
    steps = reticent.calibrate(epsilon=2, delta=1e-5, sample_rate=0.1, sigma=1.5)
    assert reticent.Plan(sigma=1.5, sample_rate=0.1, steps=steps.answer) == steps.plan
    assert isinstance(steps.fails, int) and pickle.loads(pickle.dumps(steps)) == steps
    sigma = reticent.calibrate(epsilon=2, delta=1e-5, sample_rate=0.1, steps=100)
    assert sigma.plan.epsilon(1e-5).upper <= 2 < reticent.Plan(
        sigma=sigma.answer * 0.999, sample_rate=0.1, steps=100
    ).epsilon(1e-5).lower
    rate = reticent.calibrate(epsilon=2, delta=1e-5, sigma=sigma.answer, steps=100)
    assert rate.answer == pytest.approx(0.1, rel=1e-5)
    steps = reticent.calibrate(tpr=0.05, fpr=0.001, sigma=1.1, sample_rate=0.01)
    assert (steps.solved, steps.answer, steps.fails) == ("steps", 16222, 16223)  # as the book's page prints
    guess = reticent.calibrate(prior=1e-9, posterior=1e-4, group=20, sample_rate=0.001, steps=5000)
    assert guess.answer == pytest.approx(0.90921273, abs=1e-8)  # the same
    assert guess.plan.posterior(1e-9, group=20).upper <= 1e-4


def test_composition_and_pickling() -> None:
    half = reticent.Plan(sigma=1.1, sample_rate=0.01, steps=5000)
    assert half.then(half).epsilon(1e-5).upper == pytest.approx(PLAN.epsilon(1e-5).upper, rel=1e-6)
    assert pickle.loads(pickle.dumps(PLAN)) == PLAN != half
    assert reticent.Plan.from_json(PLAN.to_json()) == PLAN


def test_a_plan_keeps_what_its_document_says() -> None:
    gaussian = {"type": "gaussian", "noise_multiplier": 5}
    beside = {"unit": "turn", "base": "unstated", "held_out_public": True, "not_authenticated": ["manifest.json"]}
    plan = reticent.Plan.from_json(json.dumps({**beside, "mechanism": gaussian}))
    assert json.loads(plan.to_json())["canary_records_unknown"] is False
    for kept in (plan, reticent.Plan.from_json(plan.to_json()), pickle.loads(pickle.dumps(plan)), plan.then(PLAN), PLAN.then(plan)):
        with pytest.raises(ValueError, match="unit: must be turn"):
            kept.report(1e-5, unit="user")
        report = kept.report(1e-5)
        assert "one turn" in report.card
        for said in ("the base model", "held-out text", "would not have been noticed"):
            assert said in report.to_html() and said in report._repr_html_()
        document = json.loads(report.to_json())
        assert (document["base"], document["inputs"]["held_out_public"]) == ("unstated", True)
        assert document["inputs"]["unit"] == "turn" and document["inputs"]["not_authenticated"]
    other = reticent.Plan.from_json(json.dumps({"unit": "user", "mechanism": gaussian}))
    with pytest.raises(ValueError, match="other: one record is a user in it and a turn in this plan"):
        plan.then(other)
    # Nobody vouches for a manifest without its checkpoint.
    given = lambda value: {"value": value, "provenance": {"from": "given", "by": "test"}}  # noqa: E731
    ran = {"run": {"recipe": "mechanism", "mechanism": gaussian}, "unit": given("turn"), "delta": given(1e-6), "unauthenticated_corpus": False}
    manifest = {"schema": 1, "type": "checkpoint", "unit": "turn", "seeded": False, "vocabulary": "bytes", "plan": ran, "mechanism": gaussian}
    assert "not_authenticated" in reticent.Plan.from_json(json.dumps(manifest)).to_json()
    assert reticent.Plan.from_json(PLAN.to_json()).to_json() == PLAN.to_json()


def test_plans_of_many_parts_stay_flat() -> None:
    """Beyond the depth that JSON may have; equal parts in a row are one."""
    each = [reticent.Plan(sigma=sigma, sample_rate=0.01, steps=10) for sigma in (1.1, 1.2)]
    plan, same = each[0], each[0]
    for number in range(300):
        plan = plan.then(each[number % 2])
        same = same.then(each[0])
    assert pickle.loads(pickle.dumps(plan)) == plan == reticent.Plan.from_json(plan.to_json())
    assert same.report(1e-5).epsilon.upper == pytest.approx(
        reticent.Plan(sigma=1.1, sample_rate=0.01, steps=3010).epsilon(1e-5).upper, rel=1e-6
    )
    assert len(same.to_json()) < 1000
    left, right = each[0].then(each[1]), each[1].then(each[0])
    assert left.then(right) == each[0].then(each[1].then(right)) == left.then(each[1]).then(each[0])
    huge = reticent.Plan(sigma=1.0, sample_rate=0.01, steps=2**53)
    assert huge.then(huge).to_json().count(str(2**53)) == 2


def test_calibrations_and_reports_are_kept() -> None:
    found = reticent.calibrate(epsilon=2, delta=1e-5, sample_rate=0.1, steps=100)
    for other in (pickle.loads(pickle.dumps(found)), copy.deepcopy(found)):
        assert other == found and repr(other) == repr(found) and other.plan == found.plan
    report = PLAN.report(1e-5)
    assert copy.deepcopy(report) is copy.copy(report) is report
    with pytest.raises(TypeError, match=r"Report: can't be pickled; keep what its to_json\(\) gives"):
        pickle.dumps(report)


def test_ctrl_c_ends_a_calibration() -> None:
    code = (
        "import reticent, signal, time; signal.signal(signal.SIGINT, signal.default_int_handler); print('on', flush=True)\n"
        "try: reticent.calibrate(epsilon=1e-3, delta=1e-9, steps=10**6, sigma=0.5)\n"
        "except KeyboardInterrupt: print(reticent.Plan(sigma=1.0, sample_rate=0.1, steps=1).epsilon(1e-5).upper > 0)"
    )
    run = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert run.stdout.readline() == "on\n"
    time.sleep(1)
    run.send_signal(signal.SIGINT)
    sent = time.monotonic()
    try:
        assert run.communicate(timeout=60)[0] == "True\n"
    finally:
        run.kill()
    assert time.monotonic() - sent < 30


def test_other_threads_run_while_an_engine_does() -> None:
    """A pure Python thread makes progress during one long call: the lock is released."""
    ticks = []
    done = threading.Event()

    def tick() -> None:
        while not done.is_set():
            ticks.append(time.perf_counter())
            time.sleep(0.0005)

    ticker = threading.Thread(target=tick)
    ticker.start()
    while not ticks:
        time.sleep(0.001)
    start = time.perf_counter()
    reticent.calibrate(prior=1e-9, posterior=1e-4, group=20, sample_rate=0.001, steps=5000)
    end = time.perf_counter()
    done.set()
    ticker.join()
    assert any(start < at < end for at in ticks)


def test_importing_loads_nothing_heavy() -> None:
    code = (
        "import reticent, sys; reticent.Plan(sigma=1.0, sample_rate=0.1, steps=1).epsilon(1e-5);"
        "print([m for m in ('numpy', 'torch', 'transformers', 'dp_accounting', 'json') if m in sys.modules])"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert said.strip() == "[]"


def test_nothing_ran_and_nothing_protects() -> None:
    nothing = reticent.Plan(sigma=1.0, sample_rate=0.1, steps=0)
    assert nothing.epsilon(0).upper == 0
    bare = reticent.Plan.from_json('{"type": "non-private", "why": "test"}')
    assert bare.epsilon(0.5).upper == math.inf and bare.delta(100).upper == 1
