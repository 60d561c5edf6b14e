"""Capacity, goodput, events, kernel counters, fidelity: the small pure parts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drills.capacity import goodput_capacity, max_flow, wire_capacity
from drills.events import Event, Tail, merge, parse_line, read_events, write_atomic, write_events
from drills.fidelity import percentile
from drills.goodput import Series, series, total
from drills.kernel import Load, parse_stat
from drills.phases import IncompleteRun, Window, phases_of
from drills.view import view_of
from mrclab.errors import UserError
from tests.drills.synthetic import LINK, SyntheticRun, plan

VIEW = view_of(plan())
PAIR = [("h0", "h2")]

# -- capacity


def test_capacity_is_the_maximum_flow() -> None:
    assert wire_capacity(VIEW, PAIR) == 200_000_000
    # The other uplink of the plane is enough for one host.
    assert wire_capacity(VIEW, PAIR, {LINK}) == 200_000_000
    assert wire_capacity(VIEW, PAIR, {LINK, "p0t0-0:p0t1-1"}) == 100_000_000
    assert wire_capacity(VIEW, PAIR, {"h0:p0t0-0"}) == 100_000_000
    assert wire_capacity(VIEW, PAIR, {"h0:p0t0-0", "h2:p1t0-1"}) == 0


def test_two_hosts_share_what_is_left_of_the_uplinks() -> None:
    pairs = [("h0", "h2"), ("h1", "h3")]
    assert wire_capacity(VIEW, pairs) == 400_000_000
    assert wire_capacity(VIEW, pairs, {LINK}) == 300_000_000


def test_a_host_that_sends_and_receives_passes_nothing_on() -> None:
    assert wire_capacity(VIEW, [("h0", "h2"), ("h2", "h0")]) == 400_000_000


def test_headers_are_taken_off() -> None:
    assert goodput_capacity(VIEW, PAIR) == pytest.approx(200e6 * 4096 / 4198)


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5), st.integers(0, 9)), max_size=20))
def test_max_flow_is_at_most_any_cut(edges: list[tuple[int, int, int]]) -> None:
    named = [(str(a), str(b), c) for a, b, c in edges if a != b]
    flow = max_flow(named, "0", "5")
    for mask in range(1 << 4):  # every cut that separates 0 from 5
        left = {"0"} | {str(i + 1) for i in range(4) if mask >> i & 1}
        assert flow <= sum(c for a, b, c in named if a in left and b not in left)


# -- goodput


def test_rate_interpolates_at_the_edges() -> None:
    line = Series((0, 100, 200), (0.0, 10.0, 20.0))
    assert line.rate(Window(50, 150)) == pytest.approx(10 * 1e9 / 100)
    assert line.rate(Window(150, 150)) == 0
    assert line.at(-5) == 0
    assert line.at(500) == 20


def sample(t: int, src: str, **data: int) -> Event:
    return Event(t, src, "sample", data)


def test_sources_are_added_up() -> None:
    events = [
        sample(0, "a", n=0),
        sample(5, "b", n=100),
        sample(10, "a", n=10),
        sample(15, "b", n=120),
        sample(20, "c", n=999),
    ]
    both = series(events, {"a", "b"}, "n")
    assert both.values[-1] == 130
    assert both.at(10) == 120
    assert total(events, {"a"}, "n") == 10
    assert total(events, {"z"}, "n") == 0


# -- events

events_strategy = st.builds(
    Event,
    st.integers(0, 2**62),
    st.text(max_size=8),
    st.text(max_size=8),
    st.dictionaries(
        st.text(max_size=5).filter(lambda key: key not in ("t", "src", "type")),
        st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=5),
        max_size=4,
    ),
)


@given(events_strategy)
def test_event_lines_read_back(event: Event) -> None:
    assert parse_line(event.to_json(), "x:1") == event


@given(st.lists(st.lists(events_strategy, max_size=6), max_size=4))
def test_merge_sorts_and_keeps_everything(streams: list[list[Event]]) -> None:
    merged = merge(*streams)
    assert [e.t for e in merged] == sorted(e.t for stream in streams for e in stream)
    key = Event.to_json
    assert sorted(map(key, merged)) == sorted(key(e) for stream in streams for e in stream)


def test_a_torn_last_line_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "e.jsonl"
    write_events(path, [Event(1, "a", "x", {}), Event(2, "a", "y", {})])
    path.write_bytes(path.read_bytes() + b'{"t":3,"src"')
    assert [e.t for e in read_events(path)] == [1, 2]


@pytest.mark.parametrize(
    ("line", "word"),
    [
        ("nonsense", "not a JSON event"),
        ("[1]", "must be a JSON object"),
        ('{"t":"1","src":"a","type":"b"}', "'t' must be"),
        ('{"t":1,"type":"b"}', "'src' and 'type'"),
    ],
)
def test_damaged_lines_name_their_place(tmp_path: Path, line: str, word: str) -> None:
    path = tmp_path / "events.jsonl"
    path.write_text(f'{{"t":1,"src":"a","type":"b"}}\n{line}\n')
    with pytest.raises(UserError, match=rf"events\.jsonl:2: .*{word}"):
        read_events(path)


def test_tail_reads_whole_lines_once(tmp_path: Path) -> None:
    path = tmp_path / "h0.jsonl"
    tail = Tail(path)
    assert tail.read() == []
    lines = [Event(i, "h0", "sample", {}).to_json() + "\n" for i in range(3)]
    path.write_text(lines[0] + lines[1][:7])
    assert [e.t for e in tail.read()] == [0]
    path.write_text(lines[0] + lines[1] + lines[2])
    assert [e.t for e in tail.read()] == [1, 2]
    assert tail.read() == []


def test_atomic_write_leaves_no_half_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "summary.json"

    def fail(_self: Path, _target: Path) -> Path:
        raise OSError("killed here")

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(OSError, match="killed here"):
        write_atomic(target, "{}")
    assert list(tmp_path.iterdir()) == []


# -- kernel


def test_load_from_proc_stat() -> None:
    earlier = parse_stat("cpu  100 0 50 800 50 0 0 0 0 0\ncpu0 1 2 3 4\n")
    assert earlier == Load(idle=850, total=1000)
    later = parse_stat("cpu  190 0 50 810 50 0 0 0 0 0\n")
    assert later.idle_share(earlier) == pytest.approx(0.1)
    assert earlier.idle_share(earlier) == 1.0
    with pytest.raises(ValueError, match="cpu"):
        parse_stat("intr 1\n")


@given(st.lists(st.floats(0, 100), min_size=1, max_size=50))
def test_percentile_is_one_of_the_values(values: list[float]) -> None:
    assert percentile(values, 0.95) in values
    assert percentile(values, 1.0) == max(values)
    assert percentile(values, 0.0) == min(values)


# -- phases


def test_windows_touch_each_other() -> None:
    run = SyntheticRun()
    phases = phases_of(run.events())
    assert phases.before == Window(run.steady, run.cut)
    assert phases.during.start == run.cut
    assert phases.after.start == phases.during.end > run.repair
    assert phases.after.end == run.stop


def test_an_unhealed_fault_lasts_until_the_stop() -> None:
    run = SyntheticRun()
    events = [e for e in run.events() if e.type != "fault" or e["action"] == "invoke"]
    assert phases_of(events).outages[0].end == run.stop


def test_a_run_that_did_not_finish_is_told() -> None:
    events = [e for e in SyntheticRun().events() if e.type != "phase" or e["name"] != "end"]
    with pytest.raises(IncompleteRun, match="'end'"):
        phases_of(events)


def test_events_of_a_run_are_plain_json() -> None:
    for event in SyntheticRun().events():
        assert json.loads(event.to_json())["type"] == event.type
