"""The bit fields of an EV in the structured and srv6 modes (reference 3.1).

An EV has 32 bits. The fields are packed from the most significant bit, hop 0 first::

    31                                                              0
    +-----------------+-----------------+---------------------------+
    | uplink (hop 0)  | plane           | tag                       |
    +-----------------+-----------------+---------------------------+

*uplink* is the number of the uplink the first T0 takes, from 0 in the order of its ports; that
is also the index of the T1. A T1 has one port to each T0 and nothing to choose, so there is no
field for hop 1. *plane* is the NIC port (plane, from 0) the EV belongs to: switches do not read
it, it makes an EV name its links all by itself. *tag* is whatever is left; EVs that differ only
there take the same way.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from topologies.ecmp import EvOrder

EV_BITS = 32
HALF = 16
"""Bits of an EV in the flow label, and in the UDP source port."""


@dataclass(frozen=True)
class EvField:
    """Some bits of an EV: ``width`` of them from ``shift`` (0 is the least significant)."""

    name: str
    shift: int
    width: int

    @property
    def mask(self) -> int:
        """The field's bits, at the least significant end."""
        return (1 << self.width) - 1

    def get(self, ev: int) -> int:
        """The field's value in an EV."""
        return ev >> self.shift & self.mask

    def put(self, value: int) -> int:
        """An EV that is zero elsewhere. Raises ValueError when the value does not fit."""
        if not 0 <= value <= self.mask:
            raise ValueError(f"{self.name} {value} does not fit {self.width} bits")
        return value << self.shift

    def __str__(self) -> str:
        top = self.shift + self.width - 1
        return f"{self.name} [{top}:{self.shift}]" if self.width else f"{self.name} (no bits)"


@dataclass(frozen=True)
class EvLayout:
    """Where the fields of an EV are, and where the EV is in a packet."""

    uplink_bits: int
    plane_bits: int
    order: EvOrder = "label-high"

    @cached_property
    def uplink(self) -> EvField:
        """Hop 0: the uplink of the first T0."""
        return EvField("uplink", EV_BITS - self.uplink_bits, self.uplink_bits)

    @cached_property
    def plane(self) -> EvField:
        """The plane the EV belongs to."""
        return EvField("plane", self.uplink.shift - self.plane_bits, self.plane_bits)

    @cached_property
    def tag(self) -> EvField:
        """The rest."""
        return EvField("tag", 0, self.plane.shift)

    @property
    def fields(self) -> tuple[EvField, EvField, EvField]:
        """All fields, most significant first."""
        return (self.uplink, self.plane, self.tag)

    @property
    def wire_shift(self) -> int:
        """Where the uplink field starts in ``flow_label[15:0] ++ UDP source port``."""
        shift = self.uplink.shift
        return shift if self.order == "label-high" else (shift + HALF) % EV_BITS

    def make(self, plane: int, uplink: int, tag: int = 0) -> int:
        """The EV of a way. Raises ValueError when a number does not fit its field."""
        return self.uplink.put(uplink) | self.plane.put(plane) | self.tag.put(tag)

    def room(self, uplinks: int) -> int:
        """How many EVs a plane can have that lead somewhere."""
        return uplinks << self.tag.width

    def values(self, plane: int, uplinks: int, count: int) -> Iterator[int]:
        """The first ``count`` EVs of a plane, going round the uplinks: any stretch of them uses
        all uplinks equally, up to one."""
        for number in range(count):
            tag, uplink = divmod(number, uplinks)
            yield self.make(plane, uplink, tag)


def bits_for(count: int) -> int:
    """Bits that tell ``count`` things apart, at least one."""
    return max(1, (count - 1).bit_length())
