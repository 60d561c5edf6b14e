"""The hash: the published vectors, and that tiers and switches choose independently."""

from __future__ import annotations

import random
import re
import zlib
from ipaddress import IPv6Address
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topologies import ecmp
from topologies.plan import salt_of

README = Path(__file__).parents[2] / "p4src" / "README.md"


def vectors() -> list[list[str]]:
    rows = re.findall(r"^\| (0x[0-9a-f]{8} \|.*) \|$", README.read_text(), re.MULTILINE)
    return [[cell.strip(" `") for cell in row.split("|")] for row in rows]


def test_there_are_vectors() -> None:
    assert len(vectors()) >= 4


@pytest.mark.parametrize("row", vectors())
def test_published_vectors(row: list[str]) -> None:
    salt, src, dst, label, sport, expected, crc, mod2, mod3 = row
    h = ecmp.flow_hash(
        int(salt, 16),
        int(IPv6Address(src)),
        int(IPv6Address(dst)),
        int(label, 16),
        int(sport, 16),
    )
    assert h == int(expected, 16)
    assert zlib.crc32(h.to_bytes(4, "big")) == int(crc, 16)
    assert ecmp.pick(h, [0, 1]) == int(mod2)
    assert ecmp.pick(h, [0, 1, 2]) == int(mod3)


@given(st.integers(0, 2**32 - 1), st.sampled_from(["label-high", "sport-high"]))
def test_ev_splits_and_joins(ev: int, order: ecmp.EvOrder) -> None:
    label, sport = ecmp.split_ev(ev, order)
    assert 0 <= label < 1 << 16
    assert ecmp.join_ev(label, sport, order) == ev


def test_ev_order() -> None:
    assert ecmp.split_ev(0x1234ABCD) == (0x1234, 0xABCD)
    assert ecmp.split_ev(0x1234ABCD, "sport-high") == (0xABCD, 0x1234)
    with pytest.raises(ValueError, match="32 bits"):
        ecmp.split_ev(1 << 32)


def test_nothing_live_picks_nothing() -> None:
    assert ecmp.pick(5, []) is None


@pytest.mark.parametrize("members", [2, 3, 4, 8])
def test_switches_choose_evenly_and_independently(members: int) -> None:
    rng = random.Random(1)
    n = 8000
    pairs = [(salt_of(1), salt_of(2)), (salt_of(1), salt_of(3)), (1, 2)]
    src, dst = int(IPv6Address("fd4d:5243::1")), int(IPv6Address("fd4d:5243:0:1::1"))
    for first, second in pairs:
        table = [[0] * members for _ in range(members)]
        for _ in range(n):
            label, sport = ecmp.split_ev(rng.getrandbits(32))
            a = ecmp.pick(ecmp.flow_hash(first, src, dst, label, sport), range(members))
            b = ecmp.pick(ecmp.flow_hash(second, src, dst, label, sport), range(members))
            assert a is not None
            assert b is not None
            table[a][b] += 1
        expected = n / members**2
        chi = sum((cell - expected) ** 2 / expected for row in table for cell in row)
        assert chi < members**2 + 6 * (2 * members**2) ** 0.5
