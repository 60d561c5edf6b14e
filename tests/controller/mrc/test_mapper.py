"""Loops of the plan, and the table of link health."""

from __future__ import annotations

from controller.mrc.mapper import Mapper, plan_loops
from topologies.plan import Plan
from topologies.spec import load_spec

PLAN = Plan.from_spec(load_spec("two-plane"))


def test_every_link_is_tested_by_some_loop() -> None:
    loops = list(plan_loops(PLAN))
    assert len({loop.number for loop in loops}) == len(loops)
    assert {loop.far_link for loop in loops} == set(PLAN.links)
    # 4 hosts x 2 planes x (T0 and two T1s)
    assert len(loops) == 24
    only = list(plan_loops(PLAN, ["h2"]))
    assert only == [loop for loop in loops if loop.host == "h2"]


def test_the_way_is_what_the_list_names() -> None:
    loop = next(loop for loop in plan_loops(PLAN) if len(loop.way) == 4)
    assert loop.way == ("h0:p0t0-0", "p0t0-0", "p0t0-0:p0t1-0", "p0t1-0")
    as_json = loop.to_json(PLAN)
    assert as_json["port"] == 1
    assert as_json["destination"] == loop.destination


def test_health_of_a_silent_and_a_lossy_link() -> None:
    mapper = Mapper(PLAN, silent_ns=100)
    for loop in plan_loops(PLAN):
        for now in range(0, 1000, 50):
            dead = loop.far_link == "p0t0-0:p0t1-1"
            lossy = loop.far_link == "h1:p1t0-0" and now == 0
            mapper.update(loop.number, 10, 10 if dead else int(lossy), 5000, now)
    assert mapper.update(10_000, 1, 1, None, 0) is None
    table = mapper.health(now=1000)
    assert list(table) == list(PLAN.links)
    assert (table["p0t0-0:p0t1-1"].silent, table["p0t0-0:p0t1-1"].loss) == (2, 1.0)
    assert (table["h1:p1t0-0"].silent, table["h1:p1t0-0"].lost) == (0, 1)
    healthy = table["p1t0-0:p1t1-0"]
    assert (healthy.loss, healthy.rtt_ns, healthy.silent, healthy.loops) == (0.0, 5000, 0, 2)
