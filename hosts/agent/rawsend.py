"""Self-test packets: WRITE Middle to a QPN that nobody has, straight to the NIC.

The receiver drops and counts them (unknown_qp); on the way they are ordinary data packets of any
EV, DSCP and size. They bypass the endpoint's port serialiser.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hosts.agent.driver import NicPort
from hosts.wire.constants import QPN_NOBODY, Opcode
from hosts.wire.frame import FlowTemplate

BURST = 64
"""Frames sent in one turn of the loop, so that a long burst does not starve it."""


class RawSend:
    """`count` packets for each EV, in rounds over the EVs, `interval_ns` apart (0: at once)."""

    def __init__(
        self,
        nic: NicPort,
        template: FlowTemplate,
        *,
        evs: Sequence[int],
        size: int,
        ecn: int,
        dscp: int,
        count: int,
        interval_ns: int,
        now: int,
        done: Callable[[dict[str, object]], None],
    ) -> None:
        self._nic = nic
        self._template = template
        self._evs = evs
        self._payload = bytes(size)
        self._ecn = ecn
        self._dscp = dscp
        self._total = count * len(evs)
        self._interval = interval_ns
        self._next = now
        self._at = 0
        self._sent = 0
        self._done = done

    def deadline(self) -> int:
        """When the next packet is due."""
        return self._next

    def serve(self, now: int) -> bool:
        """Send what is due; True when all is sent (and the caller was answered)."""
        for _ in range(BURST):
            if self._at == self._total:
                self._done({"sent": self._sent, "errors": self._total - self._sent})
                return True
            if self._next > now:
                return False
            frame = self._template.data(
                Opcode.WRITE_MIDDLE,
                self._dscp,
                self._ecn,
                self._evs[self._at % len(self._evs)],
                QPN_NOBODY,
                self._at & 0xFFFFFF,
                0,
                0,
                0,
                0,
                0,
                0,
                0,
                len(self._payload),
                self._payload,
            )
            self._sent += self._nic.send(frame)
            self._at += 1
            self._next += self._interval
        return False
