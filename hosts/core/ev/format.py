"""EV formats (section 3.1): how wide a value is, where it goes, and the fields it is cut into."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

from hosts.core.errors import ConfigError


class EvKind(Enum):
    """Where an EV goes."""

    ECMP = "ecmp"  # 16 bits: UDP source port; the flow label may be filled too
    STRUCTURED = "structured"  # 32 bits: flow label and source port, read field by field
    USID = "srv6"  # 128 bits: outer destination address
    USID_SRH = "srv6-srh"  # 256 bits: outer destination, then one SRH segment


VALUE_BITS: Final = {
    EvKind.ECMP: 16,
    EvKind.STRUCTURED: 32,
    EvKind.USID: 128,
    EvKind.USID_SRH: 256,
}
"""Width of a value in the API."""


@dataclass(frozen=True, slots=True)
class EvFormat:
    """Ordered field widths, the first in the most significant bits (hop 0 first); what is left
    over is zero."""

    name: str
    kind: EvKind
    widths: tuple[int, ...]

    def __post_init__(self) -> None:
        if not self.widths or any(w < 1 for w in self.widths):
            raise ConfigError(f"EV format {self.name}: every field needs at least one bit")
        if sum(self.widths) > self.bits:
            raise ConfigError(
                f"EV format {self.name}: fields have {sum(self.widths)} bits, "
                f"{self.kind.value} has {self.bits}"
            )

    @property
    def bits(self) -> int:
        return VALUE_BITS[self.kind]

    def join(self, fields: Sequence[int]) -> int:
        """The value of these fields. Raises ConfigError."""
        if len(fields) != len(self.widths):
            raise ConfigError(
                f"EV format {self.name}: {len(fields)} fields, need {len(self.widths)}"
            )
        value = 0
        for field, width in zip(fields, self.widths, strict=True):
            if not 0 <= field < 1 << width:
                raise ConfigError(
                    f"EV format {self.name}: field value {field} needs more than {width} bits"
                )
            value = value << width | field
        return value << self.bits - sum(self.widths)

    def split(self, value: int) -> tuple[int, ...]:
        """The fields of a value."""
        at = self.bits
        fields = []
        for width in self.widths:
            at -= width
            fields.append(value >> at & (1 << width) - 1)
        return tuple(fields)
