from __future__ import annotations

import struct

from hypothesis import given
from hypothesis import strategies as st

from controller.ports import LinkState, PortEvent, PortWatch, interfaces, parse_link_messages
from topologies.plan import Plan
from topologies.spec import load_spec

PLAN = Plan.from_spec(load_spec("two-plane"))
NEW, DELETED = 16, 17


def attribute(kind: int, value: bytes) -> bytes:
    data = struct.pack("=HH", 4 + len(value), kind) + value
    return data + b"\0" * (-len(data) % 4)


def message(kind: int, name: str, flags: int) -> bytes:
    body = struct.pack("=BxHiII", 0, 1, 7, flags, 0)
    body += attribute(13, b"\0\0\0\0") + attribute(3, name.encode() + b"\0")
    return struct.pack("=IHHII", 16 + len(body), kind, 0, 1, 0) + body


def test_flags_make_the_state():
    data = message(NEW, "p0t0-0-3", 0x1 | 0x40) + message(NEW, "p0t0-0-4", 0x1)
    data += message(NEW, "p0t0-1-3", 0x40) + message(DELETED, "p0t0-1-4", 0x41)
    data += message(20, "x", 0x41)
    assert list(parse_link_messages(data)) == [
        LinkState("p0t0-0-3", True),
        LinkState("p0t0-0-4", False),
        LinkState("p0t0-1-3", False),
        LinkState("p0t0-1-4", False),
    ]


@given(st.binary(max_size=200), st.integers(0, 120))
def test_malformed_messages_are_skipped(noise, cut):
    list(parse_link_messages(noise))
    list(parse_link_messages(message(NEW, "p0t0-0-3", 0x41)[:cut] + noise))


def test_changes_are_reported_once_each():
    events: list[PortEvent] = []
    watch = PortWatch(PLAN, events.append)
    watch._take(message(NEW, "p0t0-0-3", 0x41))
    watch._take(struct.pack("=IHHII", 20, 3, 2, 1, 0) + b"\0\0\0\0")
    assert events == []
    assert watch.state["p0t0-0", 3] is True
    watch._take(message(NEW, "p0t0-0-3", 0x1) + message(NEW, "eth0", 0x41))
    watch._take(message(NEW, "p0t0-0-3", 0x1))
    watch._take(message(NEW, "p0t0-0-3", 0x41))
    watch.close()
    assert [(e.switch, e.port, e.link, e.up) for e in events] == [
        ("p0t0-0", 3, "p0t0-0:p0t1-0", False),
        ("p0t0-0", 3, "p0t0-0:p0t1-0", True),
    ]


def test_every_switch_interface_is_known():
    assert len(interfaces(PLAN)) == sum(len(s.ports) for s in PLAN.switches.values())
