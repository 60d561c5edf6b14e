"""EV profile, state table, rotation, floor, planes (section 3)."""

from __future__ import annotations

from collections import Counter
from itertools import product
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hosts.core.config import ConfigError, EvConfig
from hosts.core.ev.evset import PLANE_LEAD_PACKETS, EvSet
from hosts.core.ev.profile import choose_evs
from hosts.core.ev.state import EvInput, EvTable
from hosts.core.events import EvState, EvStateChange
from hosts.core.faults import named
from hosts.wire.constants import EvPacking

GOOD, SKIP, BAD, DENIED = EvState.GOOD, EvState.SKIP, EvState.ASSUMED_BAD, EvState.DENIED

# Section 3.4, row by row.
REFERENCE = {
    **dict.fromkeys(product([GOOD], ["skip_once", "nack_trimmed"]), SKIP),
    **dict.fromkeys(
        product([GOOD, SKIP], ["always_skip", "loss", "rto", "path_failure", "probe_failed"]),
        BAD,
    ),
    **dict.fromkeys(product([GOOD, SKIP, BAD], ["deny"]), DENIED),
    (DENIED, "allow"): GOOD,
    (SKIP, "rotation"): GOOD,
    (BAD, "probe_ok"): GOOD,
    (BAD, "probe_ok_marked"): SKIP,
}


@pytest.mark.parametrize(("state", "what"), product(EvState, EvInput))
def test_state_table_is_the_references(state, what):
    assert EvTable().next(state, what) == REFERENCE.get((state, what.value), state)


def test_never_demote_fault_keeps_everything_else():
    faults = named(["never_demote"])
    assert faults is not None
    assert faults.ev_table is not None
    assert faults.ev_table.next(GOOD, EvInput.LOSS) == GOOD
    assert faults.ev_table.next(GOOD, EvInput.SACK_SKIP_ONCE) == SKIP


def test_unknown_fault_is_named():
    with pytest.raises(ValueError, match="unknown fault 'drop_all'; known: never_demote"):
        named(["drop_all"])


# --- profile -------------------------------------------------------------------------------------


@pytest.mark.parametrize("packing", EvPacking)
def test_auto_profile_is_equal_per_plane_and_unique(packing):
    chosen = choose_evs(EvConfig(), (1, 2), Random(1), packing)
    assert {p: (len(a), len(b)) for p, (a, b) in chosen.items()} == {1: (64, 32), 2: (64, 32)}
    every = [ev for a, b in chosen.values() for ev in (*a, *b)]
    assert len(set(every)) == 192


def test_explicit_profile_is_taken_as_it_is():
    config = EvConfig(active=2, backup=2, values={1: [10, 11], 2: [20, 21]})
    assert choose_evs(config, (1, 2), Random(1), EvPacking.LABEL_HIGH) == {
        1: ([10], [11]),
        2: ([20], [21]),
    }


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (EvConfig(active=127), "ev.active 127: must divide by the 2 planes"),
        (EvConfig(active=2, backup=0, values={1: [1], 2: []}), "ev.values of port 2: 0 values"),
        (EvConfig(active=2, backup=0, values={1: [1], 2: [1]}), "only once"),
    ],
)
def test_profile_errors(config, message):
    with pytest.raises(ConfigError, match=message):
        choose_evs(config, (1, 2), Random(1), EvPacking.LABEL_HIGH)


# --- the set -------------------------------------------------------------------------------------


def make(active: int = 8, backup: int = 4, min_active: int = 2, **more) -> EvSet:
    chosen = choose_evs(
        EvConfig(active=active, backup=backup), (1, 2), Random(1), EvPacking.LABEL_HIGH
    )
    return EvSet(chosen, Random(2), qpn=1, min_active=min_active, **more)


def test_rotation_visits_every_ev_once_per_turn():
    evs = make()
    picked = Counter(evs.pick(1, 0).ev for _ in range(8))
    assert set(picked.values()) == {2}
    assert len(picked) == 4


def test_skip_is_passed_once_and_restored():
    evs = make()
    order = [evs.pick(1, 0) for _ in range(4)]
    evs.feed(order[0], EvInput.SACK_SKIP_ONCE, 0)
    assert order[0].state == SKIP
    assert evs.pick(1, 0) is order[1]  # restored, but not used for this packet
    assert order[0].state == GOOD
    assert [evs.pick(1, 0) for _ in range(3)] == [order[2], order[3], order[0]]


def test_at_most_one_is_restored_per_packet():
    evs = make()
    order = [evs.pick(1, 0) for _ in range(4)]
    for entry in order[:3]:
        evs.feed(entry, EvInput.SACK_SKIP_ONCE, 0)
    assert evs.pick(1, 0) is order[3]
    assert [e.state for e in order] == [GOOD, SKIP, SKIP, GOOD]


def test_all_skip_uses_the_one_just_restored():
    evs = make()
    order = [evs.pick(1, 0) for _ in range(4)]
    for entry in order:
        evs.feed(entry, EvInput.SACK_SKIP_ONCE, 0)
    assert evs.pick(1, 0) is order[0]
    assert [e.state for e in order] == [GOOD, SKIP, SKIP, SKIP]


def test_feedback_while_skipped_does_not_accumulate():
    evs = make()
    entry = evs.pick(1, 0)
    assert evs.feed(entry, EvInput.SACK_SKIP_ONCE, 0)
    assert not evs.feed(entry, EvInput.SACK_SKIP_ONCE, 0)
    for _ in range(4):
        evs.pick(1, 0)
    assert entry.state == GOOD


def test_the_ev_that_lost_a_copy_is_used_only_when_alone():
    evs = make(active=4, min_active=0)
    a, b = evs.pick(1, 0), evs.pick(1, 0)
    assert evs.pick(1, 0, a) is b
    evs.feed(b, EvInput.LOSS, 0)
    assert evs.pick(1, 0, a) is a


def test_suspects_are_avoided_while_others_are_good():
    evs = make()
    order = [evs.pick(1, 0) for _ in range(4)]
    order[0].suspect = True
    assert [evs.pick(1, 0) for _ in range(3)] == order[1:]
    for entry in order:
        entry.suspect = True
    assert evs.pick(1, 0) is not None  # a plane is never starved by suspicion
    assert all(e.state == GOOD for e in order)


def test_retransmissions_prefer_proven_evs():
    evs = make()
    order = [evs.pick(1, 0) for _ in range(4)]
    order[2].proven = 50
    assert evs.pick_again(1, 0, order[0], lost_at=40) is order[2]
    assert evs.pick_again(1, 0, order[0], lost_at=60) is not order[0]
    assert evs.pick_again(2, 0, order[0], lost_at=40) is None  # the other plane has a proven one


def test_a_retransmission_always_finds_some_plane():
    """The only proven EV is the one that lost the packet: another must do."""
    evs = make(active=2, backup=0)
    (a,), (b,) = evs.planes[1].active, evs.planes[2].active
    b.proven = 50
    assert evs.pick_again(1, 0, b, lost_at=40) is a


def test_demotion_reports_and_asks_for_a_replacement():
    reported: list[EvStateChange] = []
    demoted = []
    evs = make(report=reported.append)
    evs.on_demoted.append(lambda entry, now: demoted.append((entry, now)))
    entry = evs.pick(2, 0)
    evs.feed(entry, EvInput.LOSS, 77)
    assert demoted == [(entry, 77)]
    assert (entry.role, entry.drops) == ("out", 1)
    (event,) = reported
    assert (event.plane, event.ev, event.old, event.new, event.reason) == (
        1, entry.ev, GOOD, BAD, "loss",
    )  # fmt: skip
    replacement = evs.next_backup(2)
    assert replacement.plane == 1
    assert evs.promote(replacement)
    assert evs.planes[2].vacancies() == 0


def test_recovered_ev_goes_to_the_backups_when_its_place_is_taken():
    evs = make()
    entry = evs.pick(1, 0)
    evs.feed(entry, EvInput.LOSS, 0)
    evs.promote(evs.next_backup(1))
    evs.feed(entry, EvInput.PROBE_OK, 0)
    assert (entry.state, entry.role) == (GOOD, "backup")


def test_floor_stops_demotion():
    evs = make(active=8, min_active=3)
    for entry in list(evs.by_ev.values()):
        evs.feed(entry, EvInput.LOSS, 0)
    assert evs.active_count() == 3
    assert evs.counts()["ASSUMED_BAD"] == 5 + 4  # backups have no floor


def test_denied_only_comes_back_by_the_controller():
    evs = make()
    entry = evs.pick(1, 0)
    evs.feed(entry, EvInput.DENY, 0)
    assert not evs.feed(entry, EvInput.PROBE_OK, 0)
    assert not evs.feed(entry, EvInput.LOSS, 0)
    assert evs.feed(entry, EvInput.ALLOW, 0)
    assert entry.state == GOOD


def test_no_plane_gets_ahead():
    evs = make()
    sent = 0
    while evs.may_send(1):
        evs.pick(1, 0)
        sent += 1
    assert sent == PLANE_LEAD_PACKETS
    evs.pick(2, 0)
    assert evs.may_send(1)


def test_a_masked_plane_holds_nobody_back_and_does_not_catch_up():
    evs = make()
    evs.set_masked(2, True)
    for _ in range(100):
        assert evs.may_send(1)
        evs.pick(1, 0)
    assert not evs.may_send(2)
    evs.set_masked(2, False)
    taken = 0
    while evs.may_send(2):
        evs.pick(2, 0)
        taken += 1
    assert taken == PLANE_LEAD_PACKETS


def test_oblivious_spray_knows_nothing():
    """Any active EV, about equally often, whatever is known of it; DENIED counts."""
    evs = make(selector="oblivious")
    entry = evs.pick(1, 0)
    for what in (EvInput.LOSS, EvInput.SACK_SKIP_ONCE, EvInput.RTO, EvInput.PROBE_FAILED):
        assert not evs.feed(entry, what, 0)
    assert (entry.state, entry.drops) == (GOOD, 2)
    picked = Counter(evs.pick(1, 0).ev for _ in range(4000))
    assert len(picked) == 4
    assert min(picked.values()) > 800
    assert all(evs.pick_again(1, 0, entry, 0) is not entry for _ in range(50))
    assert evs.feed(entry, EvInput.DENY, 0)
    assert entry.ev not in {evs.pick(1, 0).ev for _ in range(50)}


@given(st.lists(st.integers(0, 11), max_size=20), st.data())
def test_replacing_keeps_the_sets(steps, data):
    """A replaced EV is gone for good: feedback for it changes nothing."""
    evs = make(min_active=0)
    gone = []
    fresh = 0x100
    for index in steps:
        entry = sorted(evs.by_ev.values(), key=lambda e: e.ev)[index % len(evs.by_ev)]
        what = data.draw(st.sampled_from([None, *INPUTS]))
        if what is not None:
            evs.feed(entry, what, 0)
            continue
        fresh += 1
        new = evs.replace(entry, fresh, 0)
        assert (new.port, new.state, evs.by_ev[fresh]) == (entry.port, GOOD, new)
        gone.append(entry)
    assert not any(evs.feed(e, what, 0) for e in gone for what in INPUTS)
    for plane in evs.planes.values():
        every = [*plane.active, *plane.backup, *plane.out]
        assert len(every) == 6
        assert not set(map(id, every)) & set(map(id, gone))


INPUTS = [i for i in EvInput if i is not EvInput.ROTATION]


@given(st.lists(st.tuples(st.integers(0, 11), st.sampled_from(INPUTS)), max_size=60), st.data())
def test_the_set_stays_consistent(steps, data):
    evs = make(min_active=2)
    entries = list(evs.by_ev.values())
    for index, what in steps:
        entry = entries[index]
        evs.feed(entry, what, 0)
        if data.draw(st.booleans()):
            backup = evs.next_backup(entry.port)
            if backup is not None:
                evs.promote(backup)
        for port in (1, 2):
            picked = evs.pick(port, 0)
            assert picked is None or picked.state == GOOD
            plane = evs.planes[port]
            assert len(plane.active) <= plane.target
            assert {e.port for e in (*plane.active, *plane.backup, *plane.out)} == {port}
            assert all(e.state in (GOOD, SKIP) and e.role == "active" for e in plane.active)
            assert all(e.state in (GOOD, SKIP) and e.role == "backup" for e in plane.backup)
            assert all(e.state in (BAD, DENIED) and e.role == "out" for e in plane.out)
            assert len(plane.active) + len(plane.backup) + len(plane.out) == 6
