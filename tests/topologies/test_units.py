"""Quantities: parse, refuse with a remedy, format back."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topologies.units import (
    format_duration,
    format_packets,
    format_rate,
    format_size,
    parse_depth,
    parse_duration,
    parse_packets,
    parse_rate,
    parse_rtts,
    parse_share,
    parse_size,
)


@pytest.mark.parametrize(
    ("parse", "text", "value"),
    [
        (parse_rate, "100 Mb/s", 100_000_000),
        (parse_rate, "2.5Gb/s", 2_500_000_000),
        (parse_rate, "10 Mbps", 10_000_000),
        (parse_duration, "1 ms", 1_000_000),
        (parse_duration, "0 s", 0),
        (parse_duration, "1.5 us", 1_500),
        (parse_duration, "3 µs", 3_000),
        (parse_duration, "2 min", 120_000_000_000),
        (parse_size, "4096 B", 4096),
        (parse_size, "64 KiB", 65_536),
        (parse_size, "1.5 kB", 1_500),
        (parse_packets, "1 packet", 1),
        (parse_rtts, "0.5 RTT", 0.5),
        (parse_share, "0.5 %", 0.005),
        (parse_share, 0.25, 0.25),
        (parse_depth, "0.2 BDP", (0.2, "BDP")),
        (parse_depth, "30 packets", (30.0, "packets")),
    ],
)
def test_parse(parse, text, value) -> None:
    assert parse(text) == value


@pytest.mark.parametrize(
    ("parse", "text", "expected"),
    [
        (parse_rate, "100 Mbt/s", "did you mean 'Mb/s'"),
        (parse_rate, "100 MB/s", "did you mean 'Mb/s'"),
        (parse_rate, "100 xyz", "use b/s, kb/s, Mb/s, Gb/s"),
        (parse_rate, "100", "has no unit; write for example '100 Mb/s'"),
        (parse_rate, 100, "100 has no unit"),
        (parse_rate, None, "expected a rate"),
        (parse_rate, True, "expected a rate"),
        (parse_rate, "0.5 b/s", "not a whole number of b/s"),
        (parse_rate, "-1 b/s", "is negative"),
        (parse_rate, "999999999999999 Gb/s", "too large"),
        (parse_rate, "1e9 b/s", "is not a rate; write for example"),
        (parse_rate, "9" * 99 + " b/s", "is not a rate"),
        (parse_duration, "1 MS", "did you mean 'ms'"),
        (parse_duration, "1 sec", "did you mean 's'"),
        (parse_packets, "3 pakets", "did you mean 'packets'"),
        (parse_packets, "1.5 packets", "not a whole number of packets"),
        (parse_share, "101 %", "outside 0 % to 100 %"),
        (parse_share, float("nan"), "outside"),
        (parse_share, 1, "1 % or 100 %"),
        (parse_share, 1.0, "1 % or 100 %"),
        (parse_depth, "30", "has no unit"),
    ],
)
def test_refuse(parse, text, expected) -> None:
    with pytest.raises(ValueError) as caught:
        parse(text)
    assert expected in str(caught.value)
    assert "\n" not in str(caught.value)


amounts = st.integers(0, 10**14)


@given(amounts)
def test_formats_are_inverse(value: int) -> None:
    assert parse_rate(format_rate(value)) == value
    assert parse_duration(format_duration(value)) == value
    assert parse_size(format_size(value)) == value
    assert parse_packets(format_packets(value)) == value


@given(st.text(max_size=20))
def test_any_text_parses_or_raises_value_error(text: str) -> None:
    for parse in (parse_rate, parse_duration, parse_size, parse_share, parse_rtts, parse_depth):
        with contextlib.suppress(ValueError):
            parse(text)


def test_format_chooses_readable_units() -> None:
    assert format_rate(100_000_000) == "100 Mb/s"
    assert format_duration(262_144_000) == "262.144 ms"
    assert format_duration(1_500) == "1.5 us"
    assert format_size(4096) == "4 KiB"
    assert format_size(1500) == "1500 B"
    assert format_packets(1) == "1 packet"
