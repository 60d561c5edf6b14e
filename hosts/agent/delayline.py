"""The way's propagation delay, for fabrics whose switches have none (bmv2).

Frames are held for a fixed time between the socket and the endpoint, in order. Pure.
"""

from __future__ import annotations

from collections import deque


class DelayLine:
    """Holds frames for `delay_ns`."""

    def __init__(self, delay_ns: int) -> None:
        self._delay_ns = delay_ns
        self._held: deque[tuple[int, int, bytes]] = deque()

    def add(self, port: int, frame: bytes, now: int) -> None:
        """A frame arrived on a port."""
        self._held.append((now + self._delay_ns, port, frame))

    def deadline(self) -> int | None:
        """When the next frame is due."""
        return self._held[0][0] if self._held else None

    def due(self, now: int) -> list[tuple[int, bytes]]:
        """(port, frame) of everything whose time has come, in the order of arrival."""
        out: list[tuple[int, bytes]] = []
        held = self._held
        while held and held[0][0] <= now:
            _, port, frame = held.popleft()
            out.append((port, frame))
        return out
