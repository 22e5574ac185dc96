"""Reticent's accountant behind the interface of Google's `dp_accounting`.

>>> from dp_accounting import GaussianDpEvent, PoissonSampledDpEvent
>>> from reticent.dp_accounting import Accountant
>>> event = PoissonSampledDpEvent(0.01, GaussianDpEvent(1.1))
>>> epsilon = Accountant().compose(event, 10_000).get_epsilon(target_delta=1e-5)
>>> 5.19258 < epsilon < 5.19259
True
"""

from __future__ import annotations

import json
import math
from typing import Any

from dp_accounting import dp_event
from dp_accounting.dp_event_builder import DpEventBuilder
from dp_accounting.privacy_accountant import NeighboringRelation, PrivacyAccountant

from reticent._reticent import Bounds, Plan

__all__ = ["Accountant"]

_NEIGHBOURS = {
    NeighboringRelation.ADD_OR_REMOVE_ONE: "add-remove",
    NeighboringRelation.REPLACE_ONE: "replace",
    NeighboringRelation.REPLACE_SPECIAL: "zero-out",
}


class Accountant(PrivacyAccountant):
    """A `PrivacyAccountant` whose answers are certified upper ends.

    `get_epsilon` and `get_delta` return floats, as the interface wants: the truth is at most
    what they return. `bounds` has both ends. Events that are not covered are refused by name.
    """

    def __init__(
        self, neighboring_relation: NeighboringRelation = NeighboringRelation.ADD_OR_REMOVE_ONE
    ) -> None:
        super().__init__(neighboring_relation)

    @property
    def _neighbours(self) -> str:
        return _NEIGHBOURS[self.neighboring_relation]

    def _plan_of(self, event: dp_event.DpEvent) -> Plan:
        return Plan.from_json(json.dumps(_plain(event.to_named_tuple())), neighbours=self._neighbours)

    def _maybe_compose(
        self, event: dp_event.DpEvent, count: int, do_compose: bool
    ) -> PrivacyAccountant.CompositionErrorDetails | None:
        # The ledger of the base class is all the state there is.
        if do_compose:
            return None
        parts: Any = ()
        if isinstance(event, dp_event.ComposedDpEvent):
            parts = event.events
        elif isinstance(event, dp_event.SelfComposedDpEvent):
            parts = (event.event,)
        found = (self._maybe_compose(part, 0, False) for part in parts)
        wrong = next((error for error in found if error is not None), None)
        if wrong is not None:
            return wrong  # which names the part
        try:
            # All of it, since parts know nothing of counts.
            self._plan_of(event).require_covered(self._neighbours)
            if count != 0:
                # As the ledger will hold it: an entry that can't be read would spoil every later answer.
                entry = DpEventBuilder()
                entry.compose(event, count)
                self._plan_of(entry.build())
        except (TypeError, ValueError, AttributeError) as error:
            return self.CompositionErrorDetails(invalid_event=event, error_message=str(error))
        return None

    @property
    def plan(self) -> Plan:
        """Everything composed so far."""
        return self._plan_of(self.ledger)

    def bounds(self, target_delta: float) -> Bounds:
        """Both certified ends of ε at δ = `target_delta`."""
        return self.plan.epsilon(target_delta, neighbours=self._neighbours)

    def get_epsilon(self, target_delta: float) -> float:
        """ε at δ = `target_delta`: an upper bound. Raises ValueError where nothing is certified.

        As in dp_accounting, a run that promises nothing at any ε has none at δ = 1 either.
        """
        if target_delta == 1 and self.get_delta(math.inf) == 1:
            return math.inf
        return self.bounds(target_delta).upper

    def get_delta(self, target_epsilon: float) -> float:
        """δ at ε = `target_epsilon`: an upper bound. Raises ValueError where nothing is certified."""
        return self.plan.delta(target_epsilon, neighbours=self._neighbours).upper


def _plain(value: Any) -> Any:
    """A value as JSON has it: NumPy's numbers and arrays as Python's, and infinity, which JSON lacks, as the reader's "inf"."""
    value = value.tolist() if hasattr(value, "tolist") else value
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return "inf" if value == math.inf else value
