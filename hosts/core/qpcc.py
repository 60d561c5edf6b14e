"""One congestion control per destination and its QPs (section 5.5), and the round-robin of Ready
ones.

E and U agree on the states; see the table. Only Ready QPs are on the scheduler's list.
"""

from __future__ import annotations

from collections import deque
from enum import Enum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from hosts.core.cc.base import CongestionControl
    from hosts.core.config import CcConfig
    from hosts.core.nic import TxPort
    from hosts.core.requestor import Requestor


class QpccState(Enum):
    IDLE = "no data, nothing in flight"
    ACTIVE = "data, window closed"
    READY = "data and window"
    PENDING = "nothing to send, packets in flight"


STATES: dict[tuple[bool, bool, bool], QpccState] = {
    # (has data, window open, packets in flight)
    (False, False, False): QpccState.IDLE,
    (False, True, False): QpccState.IDLE,
    (False, False, True): QpccState.PENDING,
    (False, True, True): QpccState.PENDING,
    (True, False, False): QpccState.ACTIVE,
    (True, False, True): QpccState.ACTIVE,
    (True, True, False): QpccState.READY,
    (True, True, True): QpccState.READY,
}


BOUND_OFTEN: Final = 4
"""QPs up to which the bytes in flight are checked after every SACK."""


class Destination:
    """What is shared by the QPs towards one peer.

    parked  requestors with data and a closed window (Active), in the order they met it
    busy    requestors with packets out
    """

    __slots__ = ("_turn", "busy", "cc", "config", "parked", "requestors", "seeded")

    def __init__(self, cc: CongestionControl, config: CcConfig) -> None:
        self.cc = cc
        self.config = config
        self.requestors: list[Requestor] = []
        self.parked: deque[Requestor] = deque()
        self.busy = 0
        self.seeded = False  # base RTT: an unloaded probe was sent
        self._turn = 0

    def use(self, cc: CongestionControl, config: CcConfig) -> None:
        """Another congestion control from now on; what is in flight stays in flight."""
        cc.inflight = self.cc.inflight
        self.cc = cc
        self.config = config
        for requestor in self.requestors:
            requestor.cc = cc

    def bound_inflight(self) -> None:
        """After a SACK that brought rcvd_bytes up to date: whatever reports were lost before, the
        count of bytes in flight is right again. With many QPs once per round of them."""
        requestors = self.requestors
        count = len(requestors)
        if count == 1:
            self.cc.bound_inflight(requestors[0].window.out_bytes())
            return
        if count > BOUND_OFTEN:
            self._turn += 1
            if self._turn < count:
                return
            self._turn = 0
        self.cc.bound_inflight(sum(r.window.out_bytes() for r in requestors))

    def settle(self) -> bool:
        """When nothing is outstanding nothing is in flight, even if the SACKs that would have
        said so were lost or never due. False when something is outstanding."""
        if self.busy:
            return False
        if self.cc.inflight:
            for requestor in self.requestors:
                requestor.settle()
            self.cc.inflight = 0
        return True


class Scheduler:
    """Ready requestors, served round-robin. Those that meet a closed window wait, parked, at their
    destination: a thousand of them cost nothing until it opens."""

    __slots__ = ("_ready", "any_ready")

    def __init__(self) -> None:
        self.any_ready = False
        self._ready: deque[Requestor] = deque()

    def wake(self, requestor: Requestor) -> bool:
        """Something changed for it; whether it is Ready."""
        if requestor.listed:
            return True
        if requestor.ready():
            self._list(requestor)
            return True
        if not requestor.parked and requestor.has_work():
            self._park(requestor)
        return False

    def release(self, destination: Destination) -> bool:
        """The window may have opened: as many as it has packets for become Ready."""
        parked = destination.parked
        if not parked:
            return False
        cc = destination.cc
        room = int((cc.cwnd - cc.inflight) // cc.mtu)
        if room < 1:
            if not destination.settle():
                return False
            room = 1
        released = False
        while parked and room:
            requestor = parked.popleft()
            if not requestor.parked:
                continue
            requestor.parked = False
            if requestor.has_work():
                self._list(requestor)
                released = True
                room -= 1
        return released

    def remove(self, requestor: Requestor) -> None:
        requestor.parked = False
        if requestor.listed:
            requestor.listed = False
            self._ready.remove(requestor)
            self.any_ready = bool(self._ready)

    def next_data(self, tx: TxPort, now: int) -> bytes | None:
        """The next data frame for a free port."""
        ready = self._ready
        port = tx.port
        tries = len(ready)
        while tries:
            tries -= 1
            requestor = ready[0]
            frame = requestor.next_frame(port, now)
            if frame is not None:
                if len(ready) > 1:
                    ready.rotate(-1)
                return frame
            if requestor.ready():
                ready.rotate(-1)  # not on this port
                continue
            requestor.listed = False
            ready.popleft()
            self.any_ready = bool(ready)
            if not requestor.parked and requestor.has_work():
                self._park(requestor)
            elif requestor.destination.parked:  # its turn goes to one that waits
                before = len(ready)
                self.release(requestor.destination)
                tries += len(ready) - before
        return None

    def _park(self, requestor: Requestor) -> None:
        requestor.parked = True
        requestor.destination.parked.append(requestor)

    def _list(self, requestor: Requestor) -> None:
        requestor.listed = True
        requestor.parked = False
        self._ready.append(requestor)
        self.any_ready = True
