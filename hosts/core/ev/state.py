"""The state machine of one entropy value as a table (section 3.4). This file knows nothing else."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Final

from hosts.core.events import EvState

if TYPE_CHECKING:
    from collections.abc import Mapping

GOOD: Final = EvState.GOOD
SKIP: Final = EvState.SKIP
BAD: Final = EvState.ASSUMED_BAD
DENIED: Final = EvState.DENIED


class EvInput(Enum):
    """What happens to an EV; the value is the `reason` of EvStateChange."""

    SACK_SKIP_ONCE = "skip_once"  # SACK m=SKIP_ONCE for this EV: congestion on its path
    NACK_TRIMMED = "nack_trimmed"
    ROTATION = "rotation"  # the rotation pointer reached it
    SACK_ALWAYS_SKIP = "always_skip"
    LOSS = "loss"  # inferred loss of an untrimmed packet
    RTO = "rto"  # time-out of an untrimmed packet
    PATH_FAILURE = "path_failure"  # local path failure
    PROBE_FAILED = "probe_failed"
    PROBE_OK = "probe_ok"  # enough probes answered, the last with m=NONE
    PROBE_OK_MARKED = "probe_ok_marked"  # the same, the last with m=SKIP_ONCE
    DENY = "deny"
    ALLOW = "allow"


TRANSITIONS: Mapping[tuple[EvState, EvInput], EvState] = {
    (GOOD, EvInput.SACK_SKIP_ONCE): SKIP,
    (GOOD, EvInput.NACK_TRIMMED): SKIP,
    (GOOD, EvInput.SACK_ALWAYS_SKIP): BAD,
    (GOOD, EvInput.LOSS): BAD,
    (GOOD, EvInput.RTO): BAD,
    (GOOD, EvInput.PATH_FAILURE): BAD,
    (GOOD, EvInput.PROBE_FAILED): BAD,
    (GOOD, EvInput.DENY): DENIED,
    (SKIP, EvInput.ROTATION): GOOD,
    (SKIP, EvInput.SACK_ALWAYS_SKIP): BAD,
    (SKIP, EvInput.LOSS): BAD,
    (SKIP, EvInput.RTO): BAD,
    (SKIP, EvInput.PATH_FAILURE): BAD,
    (SKIP, EvInput.PROBE_FAILED): BAD,
    (SKIP, EvInput.DENY): DENIED,
    (BAD, EvInput.PROBE_OK): GOOD,
    (BAD, EvInput.PROBE_OK_MARKED): SKIP,  # section 9 #11
    (BAD, EvInput.DENY): DENIED,
    (DENIED, EvInput.ALLOW): GOOD,
}


class EvTable:
    """(state, input) -> next state; a pair that is not in the table changes nothing."""

    __slots__ = ("_next",)

    def __init__(
        self, transitions: Mapping[tuple[EvState, EvInput], EvState] = TRANSITIONS
    ) -> None:
        self._next = dict(transitions)

    def next(self, state: EvState, what: EvInput) -> EvState:
        return self._next.get((state, what), state)
