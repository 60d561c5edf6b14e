"""The fabric spec: the catalogue loads; what does not fit together is refused with its place."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.topologies.fabrics import spec, text
from topologies.spec import CATALOG, Depth, FabricSpec, Thresholds, catalog_names, load_spec
from topologies.steerspec import MODES
from topologies.yamlspec import SpecError, parse_model


@pytest.mark.parametrize("name", catalog_names())
def test_catalogue_loads(name: str) -> None:
    assert load_spec(name).name == name
    assert load_spec(CATALOG / f"{name}.yaml") == load_spec(name)


def test_two_plane_figures() -> None:
    two = load_spec("two-plane")
    assert (two.hosts, two.switches) == (4, 8)
    assert two.thresholds == Thresholds(6, 24, 30, 45, 90, 1000)
    assert two.data_frame_bytes == 14 + 40 + 8 + 12 + 4 + 4 + 16 + 4 + 4096
    assert two.mtu == 4096 + 40 + 24 + 40 + 8 + 12 + 4 + 4 + 16 + 4 + 4
    assert two.rto_ns == 524_288_000
    # 16 ms of propagation; four hops of 4198 + 128 bytes at 50 Mb/s.
    assert two.base_rtt_ns() == 4 * (4_000_000 + (4198 + 128) * 160)
    assert two.base_rtt_ns(2) == two.base_rtt_ns() // 2
    assert two.bdp_bytes == 117_304


def test_thresholds_follow_the_bdp_when_not_given() -> None:
    assert spec().thresholds == Thresholds(6, 22, 28, 42, 84, 1000)
    fast = spec(link="{rate: 1 Gb/s, delay: 1 ms}").thresholds
    assert fast.trim > 200
    assert str(Depth(bdp=0.2)) == "0.2 BDP"


def test_the_mode_can_be_replaced() -> None:
    for mode in MODES:
        two = load_spec("two-plane", mode)
        assert two.mode == mode
        assert two == load_spec("two-plane").model_copy(update={"mode": mode})
    assert load_spec("two-plane", "srv6").data_frame_bytes == 4198 + 40


def test_what_a_replaced_mode_makes_impossible_has_its_line(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(text(ev="{active: 512, fields: {uplink: 16 bits, plane: 16 bits}}"))
    assert load_spec(file).mode == "ecmp"
    with pytest.raises(SpecError, match=r"mine.yaml:7: ev.active: 576 EVs are wanted"):
        load_spec(file, "srv6")


def test_ev_fields_are_just_enough_unless_given() -> None:
    layout = spec(t1_per_plane="5", planes="8").ev_layout
    assert [str(field) for field in layout.fields] == [
        "uplink [31:29]",
        "plane [28:26]",
        "tag [25:0]",
    ]
    given = spec(ev="{fields: {uplink: 10 bits, plane: 8 bits}, order: sport-high}").ev_layout
    assert (given.uplink.shift, given.plane.shift, given.wire_shift) == (22, 14, 6)


def test_survives_json() -> None:
    two = load_spec("two-plane")
    assert FabricSpec.model_validate_json(two.model_dump_json()) == two
    for given in (spec(), spec(mode="srv6", ev="{fields: {uplink: 4 bits}}")):
        assert FabricSpec.model_validate_json(given.model_dump_json()) == given


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"link": "{rat: 3}"}, "t.yaml:6: link.rat: unknown key; did you mean 'rate'?"),
        ({"link": "{rate: 100}"}, "t.yaml:6: link.rate: 100 has no unit"),
        ({"link": "{rate: 1 kb/s}"}, "t.yaml:6: link.rate: must be between 1 Mb/s and 1600 Gb/s"),
        ({"link": "{rate: 1 Gb/s, delay: 11 s}"}, "t.yaml:6: link.delay: must be at most 10 s"),
        ({"link": ""}, "t.yaml:1: link: required key is missing"),
        ({"planes": "0"}, "t.yaml:2: planes: must be at least 1, found 0"),
        ({"planes": "33"}, "t.yaml:2: planes: must be at most 32"),
        ({"t0_per_plane": "511"}, "t.yaml:3: t0_per_plane: must be at most 510"),
        (
            {"hosts_per_t0": "509"},
            "t.yaml:5: hosts_per_t0: a T0 would need 511 ports (hosts_per_t0 + t1_per_plane) "
            "and has 510; at most 508 hosts fit with 2 T1",
        ),
        (
            {"ecn": "{kmin: 24 packets, kmax: 24 packets}"},
            "t.yaml:7: ecn.kmin: 24 packets must be below ecn.kmax, which is 24 packets",
        ),
        (
            {"ecn": "{kmax: 30 packets}", "trim": "{threshold: 30 packets}"},
            "t.yaml:7: ecn.kmax: 30 packets must be below trim.threshold, which is 30 packets",
        ),
        (
            {"ecn": "{kmax: 1 BDP}"},
            "t.yaml:7: ecn.kmax: 1 BDP (28 packets) must be below trim.threshold, "
            "which is 1 BDP (28 packets)",
        ),
        (
            {"trim": "{threshold: 50 packets}"},
            "t.yaml:7: trim.threshold: 50 packets must be at most trim.last_hop, "
            "which is 1.5 BDP (42 packets)",
        ),
        (
            {"queues": "{data: 42 packets}"},
            "t.yaml:7: trim.last_hop: 1.5 BDP (42 packets) must be below queues.data, "
            "which is 42 packets",
        ),
        ({"ecn": "{kmin: 0 packets}"}, "t.yaml:7: ecn.kmin: must be at least 1 packet"),
        ({"queues": "{data: 70000 packets}"}, "t.yaml:7: queues.data: 70000 packets is more"),
        ({"queues": "{data: 30}"}, "t.yaml:7: queues.data: 30 has no unit"),
        ({"pmtu": "4000 B"}, "t.yaml:7: pmtu: 4000 B is not a PMTU; the nearest is '4096 B'"),
        ({"mode": "srv7"}, "t.yaml:7: mode: 'srv7' is not known; did you mean 'srv6'?"),
        (
            {"t1_per_plane": "5", "ev": "{fields: {uplink: 2 bits}}"},
            "t.yaml:7: ev.fields.uplink: 2 bits tell 4 apart and t1_per_plane is 5; use 3 bits",
        ),
        (
            {"ev": "{fields: {uplink: 17 bits}}"},
            "t.yaml:7: ev.fields.uplink: must be at most 16 bits",
        ),
        ({"ev": "{fields: {plane: 1}}"}, "t.yaml:7: ev.fields.plane: 1 has no unit"),
        ({"ev": "{fields: {hop1: 1 bit}}"}, "t.yaml:7: ev.fields.hop1: unknown key"),
        (
            {"mode": "structured", "ev": "{fields: {uplink: 16 bits, plane: 16 bits}}"},
            "t.yaml:8: ev.active: 192 EVs are wanted and the fields leave room for 4 "
            "(2 uplinks x 1 tags x 2 planes)",
        ),
        ({"srv6": "{block: 10.0.0.0/8}"}, "t.yaml:7: srv6.block: '10.0.0.0/8' is not an IPv6"),
        ({"srv6": "{block: 'fd53::/16'}"}, "t.yaml:7: srv6.block: must be a /32 (F3216)"),
        ({"srv6": "{block: 'fd4d:5243::/32'}"}, "t.yaml:7: srv6.block: fd4d:5243::/32 is not"),
        ({"srv6": "{usid: {t1: 0x4000}}"}, "t.yaml:7: srv6.usid.t1: 0x4000 is already where t0"),
        ({"srv6": "{usid: {t1: 0x9000}}"}, "t.yaml:7: srv6.usid.t1: 0x9000 is not a multiple"),
        ({"srv6": "{usid: {port: 0}}"}, "t.yaml:7: srv6.usid.port: 0 ends a uSID list"),
        (
            {"srv6": "{usid: {number_bits: 2 bits}}"},
            "t.yaml:7: srv6.usid.number_bits: 2 bits are not enough for 5 numbers; use 3 bits",
        ),
        (
            {"srv6": "{usid: {plane_bits: 6 bits}}"},
            "t.yaml:7: srv6.usid.number_bits: plane_bits + number_bits must be at most 14",
        ),
        ({"mode": "emcp"}, "t.yaml:7: mode: 'emcp' is not known; did you mean 'ecmp'?"),
        ({"dscp": "{trimmed: 4}"}, "t.yaml:7: dscp.trimmed: 4 is already the DSCP of trimmable"),
        ({"dscp": "{control: 64}"}, "t.yaml:7: dscp.control: must be at most 63"),
        ({"udp_port": "0"}, "t.yaml:7: udp_port: must be at least 1"),
        (
            {"ev": "{active: 127}"},
            "t.yaml:7: ev.active: 127 is not the same number for each of 2 planes; "
            "the nearest is 128",
        ),
        ({"ev": "{min_active: 129}"}, "t.yaml:7: ev.min_active: must be at most active"),
        ({"name": "Two Plane"}, "t.yaml:1: name: "),
        ({"rto": "{exponent: 25}"}, "t.yaml:7: rto.exponent: must be at most 24"),
    ],
)
def test_refused(changes: dict[str, str], expected: str) -> None:
    with pytest.raises(SpecError) as caught:
        parse_model(text(**changes), FabricSpec, "t.yaml")
    place, _, rest = expected.partition(": ")
    assert str(caught.value).startswith(place)
    assert rest in str(caught.value)


def test_trim_off_relates_ecn_to_the_queue() -> None:
    relaxed = spec(trim="{enabled: false}", ecn="{kmax: 60 packets}", queues="{data: 61 packets}")
    assert not relaxed.trim.enabled
    with pytest.raises(SpecError, match=r"ecn\.kmax: 61 packets must be below queues\.data"):
        spec(trim="{enabled: false}", ecn="{kmax: 61 packets}", queues="{data: 61 packets}")


def test_unknown_catalogue_name() -> None:
    with pytest.raises(SpecError, match="two-plan: no such fabric; did you mean 'two-plane'"):
        load_spec("two-plan")


def test_interface_names_fit() -> None:
    # The longest name of the largest fabric the port limits allow is p31t0-509-510.
    big = spec(planes="32", t0_per_plane="510", t1_per_plane="255", hosts_per_t0="255")
    assert big.hosts == 510 * 255
