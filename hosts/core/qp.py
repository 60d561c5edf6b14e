"""A queue pair: its state (as a table) and its parts (section 4.1)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import TYPE_CHECKING

from hosts.core.config import PeerInfo, QpConfig
from hosts.core.ev.format import EvKind
from hosts.core.events import QpState
from hosts.core.interop import Agreement
from hosts.core.timers import Timer, Timers
from hosts.wire.encap import EncapTemplate, SrPath

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

    __slots__ = ("destination", "link", "peer_ips", "prober", "requestor", "responder", "reverse",
                 "trims", "wake")  # fmt: skip

    def __init__(
        self,
        link: Link,
        destination: Destination,
        requestor: Requestor,
        responder: Responder,
        prober: Prober,
        reverse: ReverseEvs,
        wake: Callable[[], None],
    ) -> None:
        self.link = link
        self.trims = link.agreement.trims
        self.wake = wake  # something may be sent now
        self.destination = destination
        self.requestor = requestor
        self.responder = responder
        self.prober = prober
        self.reverse = reverse
        self.peer_ips = frozenset(link.peer.ips.values())


class Qp:
    """One QP. `parts` is None before it knows its peer. kind, paths: of its EVs (`paths`: outer
    addresses by EV, when its profile has them). agreement: with the peer. owes_ack: it is in the
    endpoint's list of those that owe a transport ACK."""

    __slots__ = ("agreement", "config", "evs", "first_psn", "kind", "owes_ack", "parts", "paths",
                 "peer", "qpn", "receives", "state", "timer")  # fmt: skip

    def __init__(
        self,
        qpn: int,
        config: QpConfig,
        first_psn: int,
        evs: EvSet,
        kind: EvKind,
        paths: dict[int, SrPath],
        timers: Timers,
    ) -> None:
        self.qpn = qpn
        self.config = config
        self.first_psn = first_psn
        self.evs = evs
        self.kind = kind
        self.paths = paths
        self.state = QpState.INIT
        self.timer = Timer(timers, self.on_deadline)
        self.agreement: Agreement | None = None
        self.peer: PeerInfo | None = None
        self.parts: Parts | None = None
        self.owes_ack = False
        self.receives: list[int] = []  # receive work requests posted before connect

    def repath(self, old: int, new: int, path: SrPath | None) -> None:
        """An EV was replaced by one with these outer addresses (None: no SRv6)."""
        if path is None:
            return
        self.paths.pop(old, None)
        self.paths[new] = path
        if self.parts is not None:
            for flow in self.parts.link.flows.made.values():
                if isinstance(flow, EncapTemplate):
                    flow.forget(new)

    def on_deadline(self, now: int) -> None:
        """Serve what is due and say when to come back."""
        parts = self.parts
        if parts is None or self.state is QpState.ERROR:
            return
        requestor, prober, reverse = parts.requestor, parts.prober, parts.reverse
        due = requestor.next_deadline()
        if due is not None and due <= now:
            requestor.on_deadline(now)
            parts.wake()
        prober.on_deadline(now)
        reverse.on_deadline(now, parts.destination.cc.base_rtt_ns, requestor.last_sent)
        for due in (requestor.next_deadline(), prober.next_deadline(), reverse.next_deadline()):
            if due is not None:
                self.timer.at(due)
