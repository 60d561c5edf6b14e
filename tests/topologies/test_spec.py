"""The fabric spec: the catalogue loads; what does not fit together is refused with its place."""

from __future__ import annotations

import pytest

from tests.topologies.fabrics import spec, text
from topologies.spec import CATALOG, Depth, FabricSpec, Thresholds, catalog_names, load_spec
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


def test_survives_json() -> None:
    two = load_spec("two-plane")
    assert FabricSpec.model_validate_json(two.model_dump_json()) == two
    assert FabricSpec.model_validate_json(spec().model_dump_json()) == spec()


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
        ({"mode": "srv6"}, "t.yaml:7: mode: 'srv6' is not supported yet; use 'ecmp'"),
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
