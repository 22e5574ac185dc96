"""dp_accounting's own tests of accountants, and what they do not ask."""

import math

import dp_accounting
import numpy
import pytest
from dp_accounting import (
    ComposedDpEvent,
    GaussianDpEvent,
    NeighboringRelation,
    PoissonSampledDpEvent,
    SampledWithReplacementDpEvent,
    SelfComposedDpEvent,
    UnsupportedEventError,
    privacy_accountant_test,
)
from reticent.dp_accounting import Accountant


class TestAccountant(privacy_accountant_test.PrivacyAccountantTest):
    def _make_test_accountants(self):
        return [Accountant(), *map(Accountant, NeighboringRelation)]


EVENT = PoissonSampledDpEvent(0.01, GaussianDpEvent(1.1))


def test_between_their_ends() -> None:
    """Their pessimistic ε is no less than our lower end, and near our upper one."""
    theirs = dp_accounting.pld.PLDAccountant().compose(EVENT, 1000).get_epsilon(1e-5)
    found = Accountant().compose(EVENT, 1000).bounds(1e-5)
    assert found.lower <= theirs <= found.upper * 1.01


def test_many_calls_are_one() -> None:
    once = Accountant().compose(EVENT, 300)
    often = Accountant()
    for _ in range(300):
        often.compose(EVENT)
    nested = Accountant().compose(SelfComposedDpEvent(ComposedDpEvent([EVENT, EVENT]), 75), 2)
    assert once.get_epsilon(1e-5) == often.get_epsilon(1e-5)
    assert nested.get_epsilon(1e-5) == pytest.approx(once.get_epsilon(1e-5), rel=1e-5)


def test_relations_are_told_apart() -> None:
    found = {r: Accountant(r).compose(EVENT, 1000).get_epsilon(1e-5) for r in NeighboringRelation}
    assert found[NeighboringRelation.REPLACE_ONE] > found[NeighboringRelation.ADD_OR_REMOVE_ONE]


def test_what_is_not_covered_is_not_composed() -> None:
    accountant = Accountant()
    drawn = SampledWithReplacementDpEvent(100, 10, GaussianDpEvent(1.0))
    for event in (drawn, ComposedDpEvent([EVENT, drawn])):
        if not accountant.supports(event):
            with pytest.raises(UnsupportedEventError):
                accountant.compose(event)
    assert accountant.get_epsilon(1e-5) == 0
    with pytest.raises(UnsupportedEventError, match="noise multiplier must lie in"):
        accountant.compose(GaussianDpEvent(-1.0))


def test_counts_that_cannot_be_answered_are_not_composed() -> None:
    """In the ledger they would spoil every later answer."""
    accountant, gaussian = Accountant(), GaussianDpEvent(1.0)
    for count in (-3, 2.5, 2**60, math.nan):
        often = SelfComposedDpEvent(gaussian, count)
        for event in (often, ComposedDpEvent([EVENT, often])):
            assert not accountant.supports(event)
            with pytest.raises(UnsupportedEventError, match="caused by subevent"):
                accountant.compose(event)
    for event, count in ((EVENT, 2**60), (SelfComposedDpEvent(gaussian, 2**30), 2**30)):
        with pytest.raises(UnsupportedEventError, match=r"count: must be a whole number in \[0, 9007199254740992\]"):
            accountant.compose(event, count)
    assert accountant.compose(EVENT).get_epsilon(1e-5) == Accountant().compose(EVENT).get_epsilon(1e-5)
    arrays = ComposedDpEvent([EVENT, SelfComposedDpEvent(gaussian, numpy.int64(2))])
    assert accountant.supports(arrays)
    accountant.compose(arrays)


def test_no_noise_promises_nothing() -> None:
    assert Accountant().compose(GaussianDpEvent(0.0)).get_epsilon(1e-5) == math.inf


def test_calibration_by_their_search() -> None:
    sigma = dp_accounting.calibrate_dp_mechanism(
        Accountant, lambda s: SelfComposedDpEvent(PoissonSampledDpEvent(0.1, GaussianDpEvent(s)), 100), 2.0, 1e-5
    )
    assert sigma == pytest.approx(2.2477, abs=1e-3)
