"""Operations for an MRC controller, on two real endpoints over a perfect wire."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from hosts.agent.client import connect_pair
from hosts.agent.clock import Lateness
from hosts.agent.control import Later
from hosts.agent.fields import FieldError, Fields
from hosts.agent.forms import interop_to_json
from hosts.agent.ops import Operations
from hosts.agent.settings import parse, peer_from_json, peer_to_json
from hosts.core.endpoint import Endpoint
from hosts.core.interop import PROFILES

HOP_NS = 10_000
PORTS = (1, 2)


def config(host: int, **more: Any) -> dict[str, Any]:
    return {
        "pmtu": 1024,
        "ports": [
            {
                "port": port,
                "interface": f"h{host}-p{port - 1}",
                "mac": f"02:00:00:00:0{host}:0{port}",
                "gateway_mac": "02:00:00:00:00:ff",
                "ip": f"fd00::{port}:{host}",
                "rate_bps": 1_000_000_000,
            }
            for port in PORTS
        ],
        "qp": {"ev": {"active": 4, "backup": 2, "min_active": 0}, "cc": {"base_rtt_ns": 30_000}},
        **more,
    }


class Host:
    """A driver without NICs."""

    def __init__(self, host: int, **more: Any) -> None:
        self.settings = parse(config(host, **more), {})
        self.name = f"h{host}"
        self.now = 0
        self.endpoint = Endpoint(self.settings.endpoint, Random(host))
        self.nics: dict[int, Any] = {}
        self.lateness = Lateness()
        self.stopping = False
        self.errors = 0
        self.ops = Operations(self)  # type: ignore[arg-type]

    def clock(self) -> int:
        return self.now

    def report_error(self, where: str, error: Exception) -> None:
        raise error

    def ask(self, op: str, **fields: Any) -> dict[str, Any]:
        reply = self.ops.handle({"op": op, **fields})
        if isinstance(reply, Later):
            assert reply.reply is not None, "not answered yet"
            reply = reply.reply
        assert reply.get("ok"), reply
        return {k: v for k, v in reply.items() if k != "ok"}

    def wait(self, op: str, **fields: Any) -> Later:
        reply = self.ops.handle({"op": op, **fields})
        assert isinstance(reply, Later), reply
        return reply

    def refused(self, op: str, **fields: Any) -> str:
        reply = self.ops.handle({"op": op, **fields})
        assert isinstance(reply, dict)
        assert not reply["ok"]
        assert "\n" not in reply["error"]
        return str(reply["error"])


class Pair:
    def __init__(self, a: Host, b: Host, **qp: Any) -> None:
        self.hosts = (a, b)
        infos = [host.ask("create_qp", **qp) for host in self.hosts]
        self.qpns = [info["qpn"] for info in infos]
        for host, info, other in zip(self.hosts, infos, reversed(infos), strict=True):
            host.ask("connect_qp", qpn=info["qpn"], peer=other)
        self.silent: set[int] = set()

    def run(self, turns: int = 30) -> None:
        for _ in range(turns):
            for side, host in enumerate(self.hosts):
                other = self.hosts[1 - side]
                for port, frame in host.endpoint.frames_to_send(host.now):
                    if port not in self.silent:
                        other.endpoint.receive(port, frame, host.now + HOP_NS)
                for event in host.endpoint.events():
                    host.ops.on_event(event)
            for host in self.hosts:
                host.now += HOP_NS
                host.endpoint.on_deadline(host.now)

    def table(self, side: int = 0) -> dict[int, dict[str, Any]]:
        return {e["ev"]: e for e in self.hosts[side].ask("ev_table", qpn=self.qpns[side])["evs"]}


@pytest.fixture
def pair() -> Pair:
    return Pair(Host(0), Host(1))


def test_connect_pair_exists_for_scripts() -> None:
    assert callable(connect_pair)


def test_events_with_masks_say_which_way_an_ev_goes(pair: Pair) -> None:
    h0, qpn = pair.hosts[0], pair.qpns[0]
    every = h0.ask("subscribe")["id"]
    bad = h0.ask("subscribe", types=["ev_state"], states=["ASSUMED_BAD"], qpns=[qpn])["id"]
    nobody = h0.ask("subscribe", types=["ev_state"], qpns=[qpn + 1])["id"]
    ev = next(iter(pair.table()))
    port = pair.table()[ev]["port"]
    assert h0.ask("path_failure", port=port, ev=ev) == {"changed": 1}
    waiting = h0.wait("events", id=bad, min=1)
    pair.run(1)
    (event,) = waiting.reply["events"]  # type: ignore[index]
    assert event.pop("t") == 0
    assert event == {
        "type": "ev_state",
        "qpn": qpn,
        "plane": port - 1,
        "ev": ev,
        "from": "GOOD",
        "to": "ASSUMED_BAD",
        "reason": "path_failure",
        "drops": 0,
        "src_ip": f"fd00::{port}:0",
        "dst_ip": f"fd00::{port}:1",
    }
    assert h0.ask("events", id=nobody) == {"events": [], "lost": 0}
    assert {e["type"] for e in h0.ask("events", id=every)["events"]} == {"ev_state", "qp_state"}
    h0.ask("unsubscribe", id=bad)
    assert "no subscription" in h0.refused("events", id=bad)
    assert "states: 'BAD'" in h0.refused("subscribe", states=["BAD"])


def test_probes_on_demand(pair: Pair) -> None:
    h0, qpn = pair.hosts[0], pair.qpns[0]
    ev = next(iter(pair.table()))
    later = h0.wait("probe_ev", qpn=qpn, ev=ev, wait=True)
    loop = h0.wait("probe_path", port=1, timeout_ns=50_000)
    far = h0.wait("probe_path", port=2, dst="fd00::2:1", ev=0xC123)
    routed = h0.wait("probe_path", port=1, outer=["fcbb:0:1::", "fcbb:0:2::"], timeout_ns=50_000)
    pair.run()
    assert later.reply["rtt_ns"] == HOP_NS  # type: ignore[index]
    assert far.reply["rtt_ns"] == HOP_NS  # type: ignore[index]
    assert loop.reply["rtt_ns"] is None  # type: ignore[index]  # this wire does not turn round
    assert routed.reply["rtt_ns"] is None  # type: ignore[index]
    assert h0.ask("probe_ev", qpn=qpn, ev=ev) == {}
    assert "port: 9 is none of 1, 2" in h0.refused("probe_path", port=9)
    assert "IP version" in h0.refused("probe_path", port=1, dst="10.0.0.1")


def test_an_explicit_profile_from_birth_to_death() -> None:
    h0, h1 = Host(0), Host(1)
    for host in (h0, h1):
        host.ask("ev_profile_create", name="p", kind="structured", widths=[10, 8, 4],
                 mode="explicit", ev_count=4, backup=2)  # fmt: skip
        assert host.ask("ev_profile_state", name="p", do="load") == {
            "name": "p",
            "state": "OFFLINE",
        }
        assert "entry 0 is empty" in host.refused("ev_profile_state", name="p", do="enable")
        for port in PORTS:
            host.ask("ev_profile_write", name="p", port=port, values=[64 * port, hex(64 * port + 1),
                     64 * port + 2])  # fmt: skip
        host.ask("ev_profile_state", name="p", do="enable")
    pair = Pair(h0, h1, ev={"profile": "p"})
    assert set(pair.table()) == {64, 65, 66, 128, 129, 130}
    assert h0.ask("qp", qpn=pair.qpns[0])["ev_kind"] == "structured"
    assert h0.ask("ev_profile_set_state", name="p", evs=[64, 65], state="DENIED")["changed"] == 2
    assert h0.ask("ev_profile_replace", name="p", old=66, new=99)["qps"] == [pair.qpns[0]]
    (shown,) = h0.ask("ev_profile_query")["profiles"]
    assert shown["entries"]["1"] == [64, 65, 99]
    assert shown["denied"] == [64, 65]
    assert (shown["state"], shown["widths"], shown["qps"]) == (
        "ONLINE", [10, 8, 4], [pair.qpns[0]],
    )  # fmt: skip
    assert "uses it" in h0.refused("ev_profile_destroy", name="p")
    h0.ask("destroy_qp", qpn=pair.qpns[0])
    for step in ("disable", "unload"):
        h0.ask("ev_profile_state", name="p", do=step)
    h0.ask("ev_profile_modify", name="p", ev_count=8)
    h0.ask("ev_profile_destroy", name="p")
    assert "unknown; known: none" in h0.refused("ev_profile_query", name="p")


def test_a_generated_profile() -> None:
    h0 = Host(0)
    fields = [
        {"width": 10, "mask": 7},
        {"width": 8, "maximum": 3, "mask": 7},
        {"width": 4, "mask": 1},
    ]
    h0.ask("ev_profile_create", name="g", kind="structured", widths=[10, 8, 4], mode="generated",
           ev_count=16, backup=8, fields=fields, plane_field=2)  # fmt: skip
    h0.ask("ev_profile_state", name="g", do="load")
    (shown,) = h0.ask("ev_profile_query", name="g")["profiles"]
    assert [len(shown["entries"][p]) for p in ("1", "2")] == [32, 32]
    assert "widths" in h0.refused("ev_profile_create", name="x", mode="generated", fields=fields)
    assert "exists already" in h0.refused("ev_profile_create", name="g")


def test_single_evs_and_the_denylist(pair: Pair) -> None:
    h0, qpn = pair.hosts[0], pair.qpns[0]
    first, second, *_ = pair.table()
    assert h0.ask("ev_set_state", qpn=qpn, ev=first, state="DENIED") == {"changed": True}
    assert "SKIP" in h0.refused("ev_set_state", qpn=qpn, ev=first, state="SKIP")
    h0.ask("ev_replace", qpn=qpn, old=second, new=0xC777)
    assert 0xC777 in pair.table()
    evs = [first, 0xC777, 5]
    assert h0.ask("denylist", evs=evs, denied=False) == {"changed": 1}
    assert h0.ask("denylist", evs=evs, dst="fd00::9") == {"changed": 0}
    assert h0.ask("denylist", evs=evs, dst="fd00::1:1") == {"changed": 2}
    assert {pair.table()[ev]["state"] for ev in evs[:2]} == {"DENIED"}


def test_cc_profiles(pair: Pair) -> None:
    h0 = pair.hosts[0]
    assert h0.ask("cc_profile_set", name="wide", params={"max_wnd_bdps": 3.0}) == {"qps": []}
    assert h0.ask("cc_profile_query")["profiles"]["wide"] == {
        "cc": "nscc", "base_rtt_ns": 30_000, "params": {"max_wnd_bdps": 3.0},
    }  # fmt: skip
    assert "no such parameter" in h0.refused("cc_profile_set", name="wide", params={"x": 1})
    made = h0.ask("create_qp", cc_profile="wide")
    assert h0.ask("qp", qpn=made["qpn"])["cc_profile"] == "wide"


def test_windows_and_ports() -> None:
    pair = Pair(Host(0), Host(1), dynamic_mpr=True)
    h0, h1 = pair.hosts
    h1.ask("set_receive_window", qpn=pair.qpns[1], mpr=4)
    h1.ask("set_receiver_penalty", penalty=64)
    assert "0..127" in h1.refused("set_receiver_penalty", penalty=128)
    assert h0.ask("ports") == {"ports": {"1": True, "2": True}, "peers": []}
    h1.endpoint.set_port(2, False, h1.now)
    pair.run()
    assert h0.ask("ports")["peers"] == [{"ips": ["fd00::1:1", "fd00::2:1"], "mask": 1}]


def test_qp_states_by_request(pair: Pair) -> None:
    h0, qpn = pair.hosts[0], pair.qpns[0]
    assert [q["state"] for q in h0.ask("qps")["qps"]] == ["RTS"]
    assert "reset is not possible in RTS" in h0.refused("modify_qp", qpn=qpn, to="reset")
    h0.ask("modify_qp", qpn=qpn, to="error")
    h0.ask("modify_qp", qpn=qpn, to="reset")
    assert h0.ask("modify_qp", qpn=qpn, to="init", config={"first_psn": 9})["psn"] == 9
    assert h0.ask("qp", qpn=qpn)["state"] == "INIT"


def test_interop_is_told_and_refused_by_name() -> None:
    h0, h1 = Host(0), Host(1, interop="emulator-structured")
    found = h1.ask("interop")
    assert found["own"]["ev_packing"] == "sport-high"
    assert set(found["profiles"]) == set(PROFILES)
    assert found["selectors"] == ["rotation", "oblivious"]
    pair = Pair(h0, h1)
    shown = h0.ask("qp", qpn=pair.qpns[0])
    assert shown["peer"]["interop"] == "emulator-structured"
    assert any("SPORT_HIGH" in note for note in shown["notes"])
    mine = h0.ask("create_qp", ev={"kind": "structured"})
    theirs = h1.ask("create_qp")
    assert "EV packing" in h0.refused("connect_qp", qpn=mine["qpn"], peer=theirs)


def test_peers_survive_json() -> None:
    for name, profile in PROFILES.items():
        host = Host(0, interop=name)
        info = host.endpoint.create_qp()
        assert peer_from_json(Fields(peer_to_json(info))) == info
        again = parse(config(0, interop=interop_to_json(profile)), {}).endpoint.interop
        assert again == profile


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"interop": "ieee"}, "interop: interop 'ieee': unknown; known: reference"),
        ({"interop": {"name": "x", "dscp": {"trimmed": 4}}}, "both trimmable and trimmed"),
        ({"interop": {"sack": 1}}, "interop.sack: unknown field"),
        ({"receiver": {"drain_bps": 0}}, "receiver.drain_bps: 0 must be at least 1"),
        ({"encap": {"fd00::1": {"paths": {}}}}, "an empty table names no path"),
        ({"encap": {"fd00::1": {"base": "1.2.3.4"}}}, "usid base: 4 bytes"),
        ({"encap": {"fd00::1": {"base": "::", "inserts": [[1]]}}}, "[ev_shift, width, addr_shift]"),
        ({"qp": {"ev": {"kind": "ether"}}}, "ev.kind: 'ether' must be one of ecmp"),
    ],
)
def test_bad_settings(more: dict[str, Any], message: str) -> None:
    with pytest.raises((FieldError, ValueError)) as error:
        parse(config(0, **more), {})
    assert message in str(error.value)


def test_encap_by_peer_and_by_address() -> None:
    base = {"base": "fcbb:0:1000::", "inserts": [[0, 8, 80]]}
    h0 = Host(0, encap={"fd00::1:1": base, "fd00::2:1": {"paths": {"5": ["fcbb::1", "fcbb::2"]}}})
    pair = Pair(h0, Host(1))
    h0.ask("subscribe")
    row = next(e for e in pair.table().values() if e["port"] == 1)
    key = h0.ask("subscribe", types=["ev_state"])["id"]
    h0.ask("path_failure", port=1, ev=row["ev"])
    pair.run(1)
    (event,) = h0.ask("events", id=key)["events"]
    assert event["outer"] == [f"fcbb:0:10{row['ev'] & 0xFF:02x}::"]
