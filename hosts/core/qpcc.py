"""One congestion control per destination and its QPs (section 5.5), and the round-robin of Ready
ones.

E and U agree on the states; see the table. Only Ready QPs are on the scheduler's list.
"""

from __future__ import annotations

from collections import deque
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hosts.core.cc.base import CongestionControl
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


class Destination:
    """What is shared by the QPs towards one peer."""

    __slots__ = ("cc", "requestors", "seeded")

    def __init__(self, cc: CongestionControl) -> None:
        self.cc = cc
        self.requestors: list[Requestor] = []
        self.seeded = False  # base RTT: an unloaded probe was sent

    def bound_inflight(self) -> None:
        """After a SACK that brought rcvd_bytes up to date: whatever reports were lost before, the
        count of bytes in flight is right again."""
        requestors = self.requestors
        if len(requestors) == 1:
            self.cc.bound_inflight(requestors[0].window.out_bytes())
        else:
            self.cc.bound_inflight(sum(r.window.out_bytes() for r in requestors))

    def settle(self) -> bool:
        """When nothing is outstanding nothing is in flight, even if the SACKs that would have
        said so were lost or never due. False when something is outstanding."""
        if any(r.window.una != r.window.next for r in self.requestors):
            return False
        for requestor in self.requestors:
            requestor.settle()
        self.cc.inflight = 0
        return True


class Scheduler:
    """Ready requestors, served round-robin."""

    __slots__ = ("_ready", "any_ready")

    def __init__(self) -> None:
        self.any_ready = False
        self._ready: deque[Requestor] = deque()

    def wake(self, requestor: Requestor) -> bool:
        """Something changed for it; whether it is Ready."""
        if requestor.listed:
            return True
        if requestor.ready():
            requestor.listed = True
            self._ready.append(requestor)
            self.any_ready = True
            return True
        return False

    def remove(self, requestor: Requestor) -> None:
        if requestor.listed:
            requestor.listed = False
            self._ready.remove(requestor)
            self.any_ready = bool(self._ready)

    def next_data(self, tx: TxPort, now: int) -> bytes | None:
        """The next data frame for a free port."""
        ready = self._ready
        port = tx.port
        for _ in range(len(ready)):
            requestor = ready[0]
            frame = requestor.next_frame(port, now)
            if frame is not None:
                if len(ready) > 1:
                    ready.rotate(-1)
                return frame
            if requestor.ready():
                ready.rotate(-1)  # not on this port
            else:
                requestor.listed = False
                ready.popleft()
                self.any_ready = bool(ready)
        return None
