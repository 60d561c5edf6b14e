"""A queue pair: its state (as a table) and its parts (section 4.1)."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import TYPE_CHECKING

from hosts.core.config import QpConfig
from hosts.core.events import QpState

if TYPE_CHECKING:
    from hosts.core.ev.evset import EvSet
    from hosts.core.link import Link
    from hosts.core.probes import Prober
    from hosts.core.qpcc import Destination
    from hosts.core.requestor import Requestor
    from hosts.core.responder import Responder
    from hosts.core.reverse_ev import ReverseEvs


class QpInput(Enum):
    """What a user or a failure does to a QP."""

    INIT = "init"
    RTR = "ready to receive"
    RTS = "ready to send"
    FAIL = "error"
    RESET = "reset"


TRANSITIONS: Mapping[tuple[QpState, QpInput], QpState] = {
    (QpState.RESET, QpInput.INIT): QpState.INIT,
    (QpState.INIT, QpInput.RTR): QpState.RTR,
    (QpState.RTR, QpInput.RTS): QpState.RTS,
    (QpState.RESET, QpInput.FAIL): QpState.ERROR,
    (QpState.INIT, QpInput.FAIL): QpState.ERROR,
    (QpState.RTR, QpInput.FAIL): QpState.ERROR,
    (QpState.RTS, QpInput.FAIL): QpState.ERROR,
    (QpState.ERROR, QpInput.RESET): QpState.RESET,
}


def next_state(state: QpState, what: QpInput) -> QpState | None:
    """The table; None when this input is not allowed in this state."""
    return TRANSITIONS.get((state, what))


class Parts:
    """What a QP consists of once it knows its peer."""

    __slots__ = ("destination", "link", "peer_ips", "prober", "requestor", "responder", "reverse")

    def __init__(
        self,
        link: Link,
        destination: Destination,
        requestor: Requestor,
        responder: Responder,
        prober: Prober,
        reverse: ReverseEvs,
    ) -> None:
        self.link = link
        self.destination = destination
        self.requestor = requestor
        self.responder = responder
        self.prober = prober
        self.reverse = reverse
        self.peer_ips = frozenset(link.peer.ips.values())


class Qp:
    """One QP. `parts` is None before connect."""

    __slots__ = ("config", "evs", "first_psn", "parts", "qpn", "receives", "state")

    def __init__(self, qpn: int, config: QpConfig, first_psn: int, evs: EvSet) -> None:
        self.qpn = qpn
        self.config = config
        self.first_psn = first_psn
        self.evs = evs
        self.state = QpState.INIT
        self.parts: Parts | None = None
        self.receives: list[int] = []  # receive work requests posted before connect
