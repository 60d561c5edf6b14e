"""GENERATED profiles (section 3.2): values derived from five numbers per field."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from hosts.core.errors import ConfigError

MASK_BITS_MAX: Final = 20
"""Mask bits over all fields: a million EVs is more than anyone asks for."""


@dataclass(frozen=True, slots=True)
class GeneratedField:
    """One field: `mask` bits of it take bits of the EV's number, the others keep `initial`'s;
    results outside minimum..maximum are discarded. maximum None: all ones."""

    width: int
    initial: int = 0
    minimum: int = 0
    maximum: int | None = None
    mask: int = 0

    def __post_init__(self) -> None:
        top = (1 << self.width) - 1
        for name in ("initial", "minimum", "mask"):
            if not 0 <= getattr(self, name) <= top:
                raise ConfigError(f"EV field {name} {getattr(self, name)}: must fit its width")
        if self.maximum is not None and not self.minimum <= self.maximum <= top:
            raise ConfigError(
                f"EV field maximum {self.maximum}: must be {self.minimum}..{top} (width)"
            )


def expand(fields: Sequence[GeneratedField]) -> Iterator[tuple[int, ...]]:
    """All field tuples in the order of their number. Raises ConfigError when there are too many.

    The number has as many bits as the masks together. Both are walked from the most significant
    bit, the first field first.
    """
    total = sum(f.mask.bit_count() for f in fields)
    if total > MASK_BITS_MAX:
        raise ConfigError(f"EV masks have {total} bits together, at most {MASK_BITS_MAX}")
    for number in range(1 << total):
        left = total
        values = []
        for field in fields:
            value = field.initial
            for at in range(field.width - 1, -1, -1):
                if field.mask >> at & 1:
                    left -= 1
                    value = value & ~(1 << at) | (number >> left & 1) << at
            top = (1 << field.width) - 1 if field.maximum is None else field.maximum
            if not field.minimum <= value <= top:
                break
            values.append(value)
        else:
            yield tuple(values)
