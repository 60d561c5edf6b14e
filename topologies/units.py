"""Quantities with units, as people write them in specs and as whole numbers inside.

| type       | written                     | inside                 |
| ---------- | --------------------------- | ---------------------- |
| `Rate`     | ``100 Mb/s``                | bits per second        |
| `Duration` | ``1 ms``, ``250 us``        | nanoseconds            |
| `Size`     | ``4096 B``, ``64 KiB``      | bytes                  |
| `Packets`  | ``30 packets``              | packets                |
| `Bits`     | ``4 bits``                  | bits                   |
| `Share`    | ``0.5 %`` or ``0.005``      | float between 0 and 1  |
| `Rtts`     | ``5 RTT``                   | float, round-trip times|

The annotated types are for pydantic models; the ``parse_*`` functions raise ValueError with a
sentence that says what to write instead; the ``format_*`` functions are their inverse. A plain
number without a unit is refused (0 included), so that nobody has to guess it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Annotated

from pydantic import BeforeValidator, PlainSerializer

from topologies.yamlspec import shown, suggest

NS_PER_S = 1_000_000_000

RATE_UNITS: Mapping[str, int] = {"b/s": 1, "kb/s": 10**3, "Mb/s": 10**6, "Gb/s": 10**9}
TIME_UNITS: Mapping[str, int] = {
    "ns": 1,
    "us": 10**3,
    "ms": 10**6,
    "s": NS_PER_S,
    "min": 60 * NS_PER_S,
}
SIZE_UNITS: Mapping[str, int] = {
    "B": 1,
    "kB": 10**3,
    "KiB": 1 << 10,
    "MB": 10**6,
    "MiB": 1 << 20,
    "GB": 10**9,
    "GiB": 1 << 30,
}
PACKET_UNITS: Mapping[str, int] = {"packets": 1}
BIT_UNITS: Mapping[str, int] = {"bits": 1}
BDP_UNITS: Mapping[str, int] = {"BDP": 1}
RTT_UNITS: Mapping[str, int] = {"RTT": 1}

# Other spellings that mean exactly one thing.
_SPELLINGS: Mapping[str, str] = {
    "bps": "b/s",
    "kbps": "kb/s",
    "Mbps": "Mb/s",
    "Gbps": "Gb/s",
    "bit/s": "b/s",
    "kbit/s": "kb/s",
    "Mbit/s": "Mb/s",
    "Gbit/s": "Gb/s",
    "µs": "us",  # micro sign
    "μs": "us",  # Greek mu
    "packet": "packets",
    "bit": "bits",
    "RTTs": "RTT",
}

_QUANTITY = re.compile(r"\s*(-?[0-9]{1,15}(?:\.[0-9]{1,12})?)\s*(\D\S*)?\s*", re.ASCII)
_LIMIT = 1 << 62


def _number(value: object, what: str, units: Mapping[str, int], example: str) -> Decimal:
    """A quantity in its base unit. ValueError with what to write instead."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        raise ValueError(f"{shown(value)} has no unit; write for example {example!r}")
    if not isinstance(value, str):
        raise ValueError(f"expected {what} such as {example!r}, found {shown(value)}")
    match = _QUANTITY.fullmatch(value)
    if match is None:
        raise ValueError(f"{shown(value)} is not {what}; write for example {example!r}")
    number, unit = match.groups()
    if unit is None:
        raise ValueError(f"{shown(value)} has no unit; write for example {example!r}")
    factor = units.get(_SPELLINGS.get(unit, unit))
    if factor is None:
        listed = ", ".join(units)
        hint = suggest(unit, units)
        ending = f"{hint} ({what} is in {listed})" if hint.startswith("did") else f"use {listed}"
        raise ValueError(f"{shown(value)}: {shown(unit)} is not a unit of {what}; {ending}")
    result = Decimal(number) * factor
    if result < 0:
        raise ValueError(f"{shown(value)} is negative")
    if result > _LIMIT:
        raise ValueError(f"{shown(value)} is too large")
    return result


def _whole(value: object, what: str, units: Mapping[str, int], example: str) -> int:
    number = _number(value, what, units, example)
    if number != int(number):
        base = next(iter(units))
        raise ValueError(f"{shown(value)} is not a whole number of {base}")
    return int(number)


def parse_rate(value: object) -> int:
    """``100 Mb/s`` -> 100_000_000 (bits per second)."""
    return _whole(value, "a rate", RATE_UNITS, "100 Mb/s")


def parse_duration(value: object) -> int:
    """``1 ms`` -> 1_000_000 (nanoseconds)."""
    return _whole(value, "a time", TIME_UNITS, "1 ms")


def parse_size(value: object) -> int:
    """``64 KiB`` -> 65_536 (bytes)."""
    return _whole(value, "a size", SIZE_UNITS, "4096 B")


def parse_packets(value: object) -> int:
    """``30 packets`` -> 30."""
    return _whole(value, "a number of packets", PACKET_UNITS, "30 packets")


def parse_bits(value: object) -> int:
    """``4 bits`` -> 4."""
    return _whole(value, "a number of bits", BIT_UNITS, "4 bits")


def parse_depth(value: object) -> tuple[float, str]:
    """``30 packets`` -> (30.0, "packets"); ``0.2 BDP`` -> (0.2, "BDP")."""
    if isinstance(value, str) and value.rstrip().upper().endswith("BDP"):
        return float(_number(value, "a queue depth", BDP_UNITS, "0.2 BDP")), "BDP"
    return float(_whole(value, "a queue depth", PACKET_UNITS, "30 packets")), "packets"


def parse_rtts(value: object) -> float:
    """``5 RTT`` -> 5.0."""
    return float(_number(value, "a number of round-trip times", RTT_UNITS, "5 RTT"))


def parse_share(value: object) -> float:
    """``0.5 %`` or ``0.005`` -> 0.005; between 0 and 1."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        share = float(value)
        if share == 1:
            raise ValueError(f"{shown(value)} may mean 1 % or 100 %: write it with the sign")
    else:
        share = float(_number(value, "a share", {"%": 1}, "0.5 %") / 100)
    if not 0 <= share <= 1:
        raise ValueError(f"{shown(value)} is outside 0 % to 100 % (0 to 1)")
    return share


def _scaled(value: int, units: Mapping[str, int]) -> str:
    """The largest unit that leaves a number of at least 1 and at most three decimals."""
    best = f"{value} {next(iter(units))}"
    for unit, factor in sorted(units.items(), key=lambda item: item[1]):
        if value >= factor and (value * 1000) % factor == 0:
            best = f"{Decimal(value) / factor:f} {unit}"
    return best


def format_rate(bits_per_second: int) -> str:
    """100_000_000 -> ``100 Mb/s``."""
    return _scaled(bits_per_second, RATE_UNITS)


def format_duration(nanoseconds: int) -> str:
    """1_500_000 -> ``1.5 ms``."""
    return _scaled(nanoseconds, {k: v for k, v in TIME_UNITS.items() if k != "min"})


def format_size(size: int) -> str:
    """65_536 -> ``64 KiB``; sizes that are no multiple of 1 KiB stay in bytes."""
    binary = {k: v for k, v in SIZE_UNITS.items() if k == "B" or "i" in k}
    return _scaled(size, {k: v for k, v in binary.items() if size % v == 0})


def format_packets(count: int) -> str:
    """30 -> ``30 packets``."""
    return f"{count} packets" if count != 1 else "1 packet"


def format_bits(count: int) -> str:
    """4 -> ``4 bits``."""
    return f"{count} bits" if count != 1 else "1 bit"


def _show_share(share: float) -> str:
    return f"{Decimal(str(share)) * 100:f} %"


def _show_rtts(rtts: float) -> str:
    return f"{rtts:g} RTT"


Rate = Annotated[int, BeforeValidator(parse_rate), PlainSerializer(format_rate, when_used="json")]
Duration = Annotated[
    int, BeforeValidator(parse_duration), PlainSerializer(format_duration, when_used="json")
]
Size = Annotated[int, BeforeValidator(parse_size), PlainSerializer(format_size, when_used="json")]
Packets = Annotated[
    int, BeforeValidator(parse_packets), PlainSerializer(format_packets, when_used="json")
]
Bits = Annotated[int, BeforeValidator(parse_bits), PlainSerializer(format_bits, when_used="json")]
Share = Annotated[
    float, BeforeValidator(parse_share), PlainSerializer(_show_share, when_used="json")
]
Rtts = Annotated[float, BeforeValidator(parse_rtts), PlainSerializer(_show_rtts, when_used="json")]
