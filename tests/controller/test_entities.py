from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.entities import (
    Action,
    Codec,
    DefaultEntry,
    Group,
    GroupMember,
    GroupRef,
    Member,
    MemberRef,
    TableEntry,
    from_bytes,
    to_bytes,
)
from controller.errors import EntityError
from controller.p4names import P4Names
from tests.controller.info import Builder

WIDTHS = (1, 7, 8, 9, 16, 19, 32, 48, 64, 127, 128)


def make_codec() -> Codec:
    builder = Builder()
    builder.action("C.go", port=9, mac=48).action("C.stop").action("C.wide", v=128)
    builder.action("C.other")
    builder.table("C.route", {"h.dst": ("lpm", 128)}, ["C.go", "C.stop"])
    builder.table("C.pick", {"m.group": ("exact", 16)}, ["C.go"])
    builder.selector("C.sel", "C.pick", max_group_size=3)
    builder.table(
        "C.acl",
        {"a": ("ternary", 8), "b": ("range", 8), "c": ("optional", 8)},
        ["C.stop"],
    )
    builder.table("C.none", {}, ["C.wide", "C.stop"])
    return Codec(P4Names(builder.message))


CODEC = make_codec()
GO = Action("C.go", {"port": 3, "mac": 0x0200_0000_0001})


@given(st.integers(min_value=0, max_value=(1 << 128) - 1))
def test_bytes_are_canonical_and_come_back(value):
    data = to_bytes(value)
    assert data
    assert data[0] or len(data) == 1
    assert from_bytes(data) == value
    assert from_bytes(b"\0\0" + data) == value


@pytest.mark.parametrize("width", WIDTHS)
def test_values_at_the_edge_of_every_width(width):
    builder = Builder().action("A", v=width).table("T", {"k": ("exact", width)}, ["A"])
    codec = Codec(P4Names(builder.message))
    largest = (1 << width) - 1
    for value in (0, largest):
        entry = TableEntry("T", {"k": value}, Action("A", {"v": value}))
        assert codec.decode(codec.encode(entry)) == entry
    for key, param in ((largest + 1, 0), (0, largest + 1), (-1, 0)):
        with pytest.raises(EntityError, match="does not fit in"):
            codec.encode(TableEntry("T", {"k": key}, Action("A", {"v": param})))


@pytest.mark.parametrize(
    "entity",
    [
        TableEntry("C.route", {"h.dst": (0xFD << 120, 8)}, GO),
        TableEntry("C.route", {}, Action("C.stop")),
        TableEntry("C.pick", {"m.group": 1}, GroupRef(1)),
        TableEntry("C.pick", {"m.group": 1}, MemberRef(7)),
        TableEntry("C.acl", {"a": (0x10, 0xF0), "b": (1, 9), "c": 0}, Action("C.stop"), 5),
        DefaultEntry("C.none", Action("C.wide", {"v": 1 << 127})),
        Member("C.sel", 7, GO),
        Group("C.sel", 1, (GroupMember(7, watch_port=0), GroupMember(8), GroupMember(9, 510))),
    ],
)
def test_what_is_encoded_decodes_to_the_same(entity):
    assert CODEC.decode(CODEC.encode(entity)) == entity


def test_padding_by_a_switch_does_not_matter():
    message = CODEC.encode(TableEntry("C.pick", {"m.group": 1}, GroupRef(1)))
    message.table_entry.match[0].exact.value = b"\0\1"
    assert CODEC.decode(message) == TableEntry("C.pick", {"m.group": 1}, GroupRef(1))


def test_dont_care_fields_are_left_out():
    stop = Action("C.stop")
    entry = TableEntry("C.acl", {"a": (0, 0), "b": (0, 255)}, stop, 1)
    assert not CODEC.encode(entry).table_entry.match
    assert not CODEC.encode(TableEntry("C.route", {"h.dst": (0, 0)}, stop)).table_entry.match


def test_aliases_are_accepted():
    by_alias = CODEC.encode(TableEntry("route", {"h.dst": (0, 0)}, Action("stop")))
    assert CODEC.decode(by_alias) == TableEntry("C.route", {}, Action("C.stop"))


@pytest.mark.parametrize(
    ("entity", "text"),
    [
        (TableEntry("C.rout", {}, GO), "no table 'C.rout'; did you mean 'C.route'"),
        (TableEntry("C.pick", {"m.grp": 1}, GroupRef(1)), "did you mean 'm.group'"),
        (TableEntry("C.pick", {}, GroupRef(1)), "m.group: exact match field is missing"),
        (TableEntry("C.pick", {"m.group": (1, 2)}, GroupRef(1)), "takes one value"),
        (TableEntry("C.pick", {"m.group": 1}, GO), "name a member or group, not an action"),
        (TableEntry("C.route", {}, GroupRef(1)), "has no action profile"),
        (TableEntry("C.route", {"h.dst": 5}, GO), "lpm match takes a pair"),
        (TableEntry("C.route", {"h.dst": (1, 64)}, GO), "bits set beyond prefix length 64"),
        (TableEntry("C.route", {"h.dst": (0, 129)}, GO), "prefix length 129 of 128"),
        (TableEntry("C.route", {}, GO, 3), "takes no priority"),
        (TableEntry("C.acl", {}, Action("C.stop")), "needs a priority above 0"),
        (TableEntry("C.acl", {"a": (0xFF, 0xF0)}, Action("C.stop"), 1), "outside the mask"),
        (TableEntry("C.acl", {"b": (9, 1)}, Action("C.stop"), 1), "is empty"),
        (TableEntry("C.route", {}, Action("C.og")), "no action 'C.og'; did you mean 'C.go'"),
        (TableEntry("C.route", {}, Action("C.other")), "has no action 'C.other'"),
        (TableEntry("C.route", {}, Action("C.go", {"port": 1})), "C.go.mac: parameter is missing"),
        (TableEntry("C.route", {}, Action("C.stop", {"x": 1})), "no parameter 'x'"),
        (TableEntry("C.route", {}, Action("C.go", {"port": 512, "mac": 0})), "9 bits"),
        (TableEntry("C.route", {}, Action("C.go", {"port": True, "mac": 0})), "not an integer"),
        (DefaultEntry("C.pick", GO), "no default"),
        (Member("C.sel", 0, GO), "member id 0"),
        (Member("C.sel", 1, Action("C.stop")), "C.pick has no action 'C.stop'"),
        (Group("C.sel", 0, ()), "group id 0"),
        (Group("C.sel", 1, (GroupMember(1, weight=4),)), "at most 3 fit"),
        (Group("C.sel", 1, (GroupMember(1), GroupMember(1))), "member 1 twice"),
        (Group("C.sel", 1, (GroupMember(1, weight=0),)), "weight 0"),
    ],
)
def test_what_does_not_fit_is_refused_in_words(entity, text):
    with pytest.raises(EntityError) as error:
        CODEC.encode(entity)
    assert text in str(error.value)
    assert "\n" not in str(error.value)
