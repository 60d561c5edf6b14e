"""Registered memory: R_Keys, bounds, and the placement of payload (sections 4.3, 4.9)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator
    from random import Random

VA_START: Final = 0x1000_0000
VA_GAP: Final = (
    0x1_0000  # unmapped space between regions, so that an overrun never hits a neighbour
)


class MemoryRegion:
    """Memory that peers may write to: [va, va + length) with `rkey`."""

    __slots__ = ("end", "length", "memory", "remote_write", "rkey", "va")

    def __init__(self, va: int, rkey: int, memory: memoryview, remote_write: bool) -> None:
        self.va = va
        self.rkey = rkey
        self.memory = memory
        self.length = len(memory)
        self.end = va + self.length
        self.remote_write = remote_write


class PlacementError(Exception):
    """The payload could not be placed: AETH 0x63, remote operation error (section 4.9)."""


class TrackingError(Exception):
    """The responder lost track of what it received: NACK UNEXP_EVENT (section 4.9)."""


class Placement(Protocol):
    """How an accepted payload gets into memory. The caller checked the bounds. May raise
    PlacementError: the QP is over then. A method `track()`, if there is one, is called before a
    packet is noted as received, and may raise TrackingError."""

    def place(self, region: MemoryRegion, va: int, payload: memoryview) -> None: ...


class DirectPlacement:
    """Straight to its address, before anything is acknowledged."""

    def place(self, region: MemoryRegion, va: int, payload: memoryview) -> None:
        start = va - region.va
        region.memory[start : start + len(payload)] = payload


class MemoryTable:
    """Regions by R_Key. Virtual addresses and keys are unique within the endpoint."""

    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self._regions: dict[int, MemoryRegion] = {}
        self._next_va = VA_START

    def register(
        self, memory: int | bytearray | memoryview, remote_write: bool = True
    ) -> MemoryRegion:
        """Register zeroed memory of a length, or a writable buffer. Raises ValueError."""
        buffer = bytearray(memory) if isinstance(memory, int) else memory
        view = memoryview(buffer).cast("B")
        if view.readonly or not len(view):
            raise ValueError("memory to register must be writable and not empty")
        rkey = self._rng.getrandbits(32)
        while rkey in self._regions or rkey == 0:
            rkey = self._rng.getrandbits(32)
        region = MemoryRegion(self._next_va, rkey, view, remote_write)
        self._next_va += (len(view) + 2 * VA_GAP - 1) // VA_GAP * VA_GAP
        self._regions[rkey] = region
        return region

    def deregister(self, rkey: int) -> None:
        """Raises KeyError."""
        del self._regions[rkey]

    def find(self, rkey: int, va: int, length: int) -> MemoryRegion | None:
        """The region that allows a remote write of [va, va + length), or None."""
        region = self._regions.get(rkey)
        if (
            region is not None
            and region.va <= va
            and va + length <= region.end
            and region.remote_write
        ):
            return region
        return None

    def __iter__(self) -> Iterator[MemoryRegion]:
        return iter(self._regions.values())
