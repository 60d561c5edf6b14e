"""What fits a machine, and the advice when it does not."""

from __future__ import annotations

import re

from tests.topologies.fabrics import spec
from topologies.machine import cost, fits
from topologies.spec import load_spec

GIB = 1 << 30


def test_two_plane_fits_two_cores() -> None:
    assert fits(load_spec("two-plane"), 2, 2 * GIB) is None


def test_memory() -> None:
    reason = fits(load_spec("two-plane"), 2, 600 << 20)
    assert reason is not None
    assert re.search(r"needs \d+ MiB of memory and has 600 MiB; planes: ", reason)


def test_advice_fits() -> None:
    big = spec(t0_per_plane="32", t1_per_plane="16", hosts_per_t0="16")
    reason = fits(big, 1000, 4 * GIB)
    assert reason is not None
    values = dict(re.findall(r"(\w+): (\d+)", reason))
    assert fits(spec(**values, ev="{active: 64, backup: 0}"), 1000, 4 * GIB) is None


def test_processor() -> None:
    fast = spec(link="{rate: 1 Gb/s, delay: 100 us}")
    reason = fits(fast, 2, 16 * GIB)
    assert reason is not None
    found = re.search(r"set link.rate to (\d+ Mb/s)", reason)
    assert found is not None
    assert cost(spec(link=f"{{rate: {found[1]}, delay: 1 ms}}")).cpus <= 2


def test_too_small_for_anything() -> None:
    reason = fits(load_spec("two-plane"), 2, 50 << 20)
    assert reason is not None
    assert "no fabric fits" in reason
