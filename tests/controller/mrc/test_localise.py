"""Every single fault of a fabric is named from what hosts and loops can see."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.mrc.evidence import Counts, Evidence
from controller.mrc.localise import localise
from topologies.paths import path_of
from topologies.plan import Plan
from topologies.spec import load_spec

SECOND = 10**9
PLAN = Plan.from_spec(load_spec("two-plane"))
COMPONENTS = [*PLAN.links, *PLAN.switches]


def loops(plan: Plan) -> list[tuple[str, ...]]:
    """host > T0 > host, and host > T0 > T1 > T0 > host, for every NIC port and T1."""
    out: list[tuple[str, ...]] = []
    for host in plan.hosts.values():
        for nic in host.nics:
            t0 = plan.switch(nic.switch)
            out.append((nic.link, t0.name))
            for port in t0.uplinks:
                up = t0.ports[port]
                out.append((nic.link, t0.name, up.link, up.peer))
    return out


def observe(
    evidence: Evidence,
    broken: str,
    share: float,
    rng: random.Random,
    *,
    use_loops: bool,
    count: int,
) -> None:
    """Flows between all pairs of hosts (and loops) over a fabric with one fault."""
    ways = [tuple(way) for way in loops(PLAN)] if use_loops else []
    for src in PLAN.hosts:
        for dst in PLAN.hosts:
            if src == dst:
                continue
            for _ in range(40):
                plane, ev = rng.randrange(PLAN.spec.planes), rng.getrandbits(32)
                path = path_of(PLAN, src, dst, plane, ev)
                ways.append((*path.links, *path.switches))
    for way in ways:
        lost = sum(rng.random() < share for _ in range(count)) if broken in way else 0
        evidence.add(way, count, lost, SECOND)


@pytest.mark.parametrize("share", [1.0, 0.3, 0.02])
@pytest.mark.parametrize("broken", COMPONENTS)
def test_each_single_fault(broken: str, share: float) -> None:
    evidence = Evidence(10 * SECOND)
    observe(evidence, broken, share, random.Random(7), use_loops=True, count=100)
    verdict = localise(evidence.summary(SECOND))
    assert verdict.is_fault()
    assert [s.component for s in verdict.best] == [broken], verdict
    assert verdict.best[0].confidence > 0.9
    assert verdict.best[0].loss == pytest.approx(share, rel=0.5)


def test_what_flows_alone_cannot_tell_apart() -> None:
    """With two T0s every way over a T1 crosses both of its links; loops part them."""
    evidence = Evidence(10 * SECOND)
    observe(evidence, "p0t0-0:p0t1-0", 1.0, random.Random(1), use_loops=False, count=20)
    best = {s.component for s in localise(evidence.summary(SECOND)).best}
    assert best == {"p0t0-0:p0t1-0", "p0t0-1:p0t1-0", "p0t1-0"}


def test_a_quiet_fabric_is_healthy() -> None:
    evidence = Evidence(10 * SECOND)
    observe(evidence, "none", 1.0, random.Random(1), use_loops=True, count=50)
    assert localise(evidence.summary(SECOND)).healthy == 1.0
    evidence.add(("p0t0-0", "h0:p0t0-0"), 1000, 1, SECOND)  # one stray loss
    assert not localise(evidence.summary(SECOND)).is_fault()


def test_losses_everywhere_accuse_nobody() -> None:
    """A machine that hiccups loses a probe on many ways at once."""
    evidence = Evidence(10 * SECOND)
    for number, way in enumerate(loops(PLAN) * 4):
        evidence.add(way, 100, number % 2, SECOND)
    assert not localise(evidence.summary(SECOND)).is_fault()


def test_a_second_fault_beside_a_known_one() -> None:
    evidence = Evidence(10 * SECOND)
    rng = random.Random(3)
    observe(evidence, "p0t1-0", 1.0, rng, use_loops=True, count=50)
    assert localise(evidence.summary(SECOND)).best[0].component == "p0t1-0"
    assert localise(evidence.summary(SECOND, {"p0t1-0"})).healthy == 1.0
    observe(evidence, "h3:p1t0-1", 0.1, rng, use_loops=True, count=50)
    verdict = localise(evidence.summary(SECOND, {"p0t1-0"}))
    assert [s.component for s in verdict.best] == ["h3:p1t0-1"]
    assert localise(evidence.summary(SECOND)).best[0].component == "p0t1-0"  # nothing was lost


def test_one_that_is_known_to_work_is_not_accused() -> None:
    evidence = Evidence(SECOND)
    evidence.add(("a", "b"), 10, 10, 0)
    evidence.add(("c",), 90, 0, 0)
    assert {s.component for s in localise(evidence.summary(0)).best} == {"a", "b"}
    (best,) = localise(evidence.summary(0), innocent={"a"}).best
    assert best.component == "b"


def test_what_fails_loses_more_than_what_works() -> None:
    """Else the few losses of a busy link were "its fault, and all others lose more besides"."""
    evidence = Evidence(60 * SECOND)
    evidence.add(("cut", "switch"), 3000, 66, 0)
    evidence.add(("cut", "switch", "busy"), 16000, 16, 0)
    evidence.add(("busy",), 6000, 0, 0)
    verdict = localise(evidence.summary(0))
    assert {s.component for s in verdict.best} == {"cut", "switch"}


def test_the_window_forgets() -> None:
    evidence = Evidence(SECOND, buckets=10)
    evidence.add(("a",), 10, 10, 0)
    evidence.add(("a",), 10, 0, SECOND // 2)
    assert evidence.summary(SECOND // 2).by_component["a"].lost == 10
    assert evidence.lost(SECOND // 2) == 10
    assert evidence.summary(SECOND + 1).by_component["a"].lost == 0
    assert evidence.lost(SECOND + 1) == 0
    assert evidence.summary(3 * SECOND).by_component == {}
    assert not evidence


def test_a_repair_takes_its_ways_out_of_the_window() -> None:
    evidence = Evidence(SECOND)
    evidence.add(("a", "b"), 10, 7, 0)
    evidence.add(("b",), 20, 1, 0)
    evidence.drop({"a"})
    summary = evidence.summary(0)
    assert summary.by_component == {"b": Counts(20, 1)}
    assert evidence.lost(0) == 1
    assert evidence.summary(2 * SECOND).total == Counts(0, 0)


def test_a_way_delivers_when_it_did_so_from_the_beginning() -> None:
    evidence = Evidence(SECOND, buckets=10)
    for tenth in range(12):
        evidence.add(("h", "s"), 2, 0, tenth * SECOND // 10)
        evidence.add(("h", "s", "dead"), 2, 1, tenth * SECOND // 10)
        if tenth > 8:
            evidence.add(("new", "t"), 50, 0, tenth * SECOND // 10)
    now = 11 * SECOND // 10
    assert evidence.delivers("s", 20, now)
    assert not evidence.delivers("s", 21, now)
    assert not evidence.delivers("dead", 1, now)
    assert not evidence.delivers("t", 20, now)  # only lately


def test_nonsense_is_refused() -> None:
    with pytest.raises(ValueError, match="6 lost of 5"):
        Evidence(SECOND).add(("a",), 5, 6, 0)
    with pytest.raises(ValueError, match="window"):
        Evidence(3)


@given(
    st.lists(
        st.tuples(
            st.sets(st.sampled_from("abcdef"), min_size=1), st.integers(0, 50), st.integers(0, 50)
        ),
        max_size=30,
    )
)
def test_probabilities_whatever_the_evidence(rows: list[tuple[set[str], int, int]]) -> None:
    evidence = Evidence(SECOND)
    for names, sent, lost in rows:
        evidence.add(names, max(sent, lost), lost, 5)
    verdict = localise(evidence.summary(5), floor=0, limit=100)
    total = verdict.healthy + sum(s.confidence for s in verdict.suspects)
    assert total == pytest.approx(1.0)
    assert all(0 <= s.confidence <= 1 and 0 < s.loss <= 1 for s in verdict.suspects)
