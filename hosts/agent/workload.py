"""Steady writes into a peer's region, such that a lost or stale byte shows in the end.

The source region is as long as the target region and is written slot by slot, over and over. A
slot is written again only when its last write has completed, and before that every PMTU of it is
stamped with the message's number: when all is complete, target and source are equal exactly when
every packet of every last message was placed.
"""

from __future__ import annotations

import struct
from random import Random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hosts.core.endpoint import Endpoint
    from hosts.core.memory import MemoryRegion

_STAMP = struct.Struct("!Q")
WR_ID_BASE = 1 << 32
"""Work request ids of workloads start here; users' own ids stay below."""


class Workload:
    """One stream of writes on a QP. `posted`, `completed` count messages."""

    def __init__(
        self,
        endpoint: Endpoint,
        source: MemoryRegion,
        *,
        qpn: int,
        remote_va: int,
        rkey: int,
        message_bytes: int,
        window: int,
        limit: int | None,
        stamp_bytes: int,
    ) -> None:
        self.endpoint = endpoint
        self.source = source
        self.qpn = qpn
        self.remote_va = remote_va
        self.rkey = rkey
        self.message_bytes = message_bytes
        self.slots = source.length // message_bytes
        self.window = min(window, self.slots)
        self.limit = limit
        self.stamp_bytes = stamp_bytes
        self.posted = 0
        self.completed = 0
        self.failed = 0
        self.stopping = False

    @property
    def drained(self) -> bool:
        """Stopped (or at its limit) and nothing outstanding."""
        return not self._may_post() and self.posted == self.completed + self.failed

    def _may_post(self) -> bool:
        return (
            not self.stopping
            and not self.failed
            and (self.limit is None or self.posted < self.limit)
        )

    def fill(self) -> None:
        """Post until the window is full."""
        while self._may_post() and self.posted - self.completed < self.window:
            number = self.posted
            at = number % self.slots * self.message_bytes
            message = self.source.memory[at : at + self.message_bytes]
            for offset in range(0, self.message_bytes - 7, self.stamp_bytes):
                _STAMP.pack_into(message, offset, number)
            self.endpoint.post_write(
                self.qpn, WR_ID_BASE + number, message, self.remote_va + at, self.rkey
            )
            self.posted = number + 1

    def on_completion(self, wr_id: int, ok: bool) -> bool:
        """Take a completion of this QP; False when it is not one of ours."""
        if wr_id < WR_ID_BASE:
            return False
        if ok:
            self.completed += 1
        else:
            self.failed += 1
        return True

    def report(self) -> dict[str, object]:
        return {
            "qpn": self.qpn,
            "posted": self.posted,
            "completed": self.completed,
            "failed": self.failed,
            "completed_bytes": self.completed * self.message_bytes,
            "source": {
                "va": self.source.va,
                "rkey": self.source.rkey,
                "length": self.source.length,
            },
            "written_bytes": min(self.posted, self.slots) * self.message_bytes,
        }


def fill_random(memory: memoryview, seed: int) -> None:
    """Reproducible content, 1 MiB at a time."""
    rng = Random(seed)
    for at in range(0, len(memory), 1 << 20):
        part = memory[at : at + (1 << 20)]
        part[:] = rng.randbytes(len(part))
