"""A fabric on bmv2 inside namespaces of its own: ``python -m tests.bmv2.live FOLDER``."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pytest

from controller.fabric import FabricController
from mrclab.program import compiled
from tests.topologies.fabrics import two_plane
from tests.topologies.scenarios import _links_seen, _predicted, _taps
from tests.waiting import wait_for
from topologies.bmv2 import Bmv2Backend
from topologies.builder import Fabric, build
from topologies.links import LinkError

CUT = "p0t0-0:p0t1-1"
LIMIT = 60.0


def balanced(fabric: Fabric) -> bool:
    """Nothing waits, every switch accounts for what it received, and every frame that left one
    interface arrived at the other."""
    stats = {name: ctl.stats() for name, ctl in fabric.ctl.items()}
    if any(s["totals"]["held"] for s in stats.values()):
        return False
    for name, s in stats.items():
        totals = s["totals"]
        assert totals["received"] == totals["sent"] + totals["dropped"], (name, totals)
    for link, ends in fabric.links.stats().items():
        for sender, receiver in ((ends.a, ends.b), (ends.b, ends.a)):
            assert sender.tx_packets == receiver.rx_packets + receiver.rx_dropped, link
    return True


def main(folder: Path) -> None:
    # /sys as inherited shows the interfaces of the machine, and bmv2 reads link state there.
    subprocess.run(["mount", "-t", "sysfs", "sysfs", "/sys"], check=True)
    program, p4info = compiled()
    plan = two_plane()
    rng = random.Random(7)
    evs = [(i % 2, rng.getrandbits(32)) for i in range(80)]
    with (
        build(plan, Bmv2Backend(folder)) as fabric,
        FabricController(
            plan, fabric.grpc, program, p4info, failover_groups=False, on_failure=print
        ) as controller,
    ):
        controller.connect()
        controller.program()
        taps = _taps(fabric)
        assert _links_seen(fabric, taps, "h0", "h2", evs) == _predicted("h0", "h2", evs)
        wait_for("all frames are accounted for", lambda: balanced(fabric), LIMIT)
        received = {
            name: sum(port["rx_packets"] for port in ctl.stats()["ports"].values())
            for name, ctl in fabric.ctl.items()
        }
        assert received["p0t0-0"] == received["p1t0-0"] == 40

        state = fabric.links.cut(CUT)
        assert state.down
        assert state.b.switch_up is False
        assert _links_seen(fabric, taps, "h0", "h2", evs) == _predicted("h0", "h2", evs, down={CUT})
        wait_for("the losses of the cut have a name", lambda: balanced(fabric), LIMIT)
        port = next(n for n, p in plan.switch("p0t0-0").ports.items() if p.link == CUT)
        lost = fabric.ctl["p0t0-0"].stats()["ports"][port]["drops"]["tx_error"]
        crossing = sum(1 for plane, ev in evs if (plane, ev) in _crossing(evs))
        assert lost == crossing > 0
        assert fabric.links.repair(CUT).up
        assert _links_seen(fabric, taps, "h0", "h2", evs) == _predicted("h0", "h2", evs)

        with pytest.raises(LinkError, match="is bmv2, which can't impair a link"):
            fabric.links.impair(CUT, loss=0.5)

        # A switch that crashes and comes again has its queues set and its counters at zero.
        fabric.stop_switch("p0t1-0")
        handle = fabric.start_switch("p0t1-0")
        assert handle.name == "p0t1-0"
        assert set(fabric.ctl) == set(plan.switches)


def _crossing(evs: list[tuple[int, int]]) -> set[tuple[int, int]]:
    """EVs whose way goes over the link that is cut."""
    return _predicted("h0", "h2", evs)[CUT]


if __name__ == "__main__":
    main(Path(sys.argv[1]))
