"""The agent's configuration file (JSON) and the QP and peer objects of control requests.

    {"seed": 1, "pmtu": 4096, "time_scale": 1000, "udp_port": 4791, "ev_packing": "label-high",
     "dscp": {"control": 46, ...}, "hop_limit": 64, "realtime": true,
     "sample_interval_ns": 50000000,
     "ports": [{"port": 1, "interface": "h0-p0", "mac": "02:...", "gateway_mac": "02:...",
                "ip": "fd00::1", "rate_bps": 100000000}],
     "qp": {"rto": {"t": 8, "linear": 7, "exp": 5}, "ev": {"active": 128, "backup": 64},
            "cc": {"name": "nscc", "base_rtt_ns": 10000000, "params": {}}}}

`qp` holds the defaults of `create_qp`, which takes the same object. Everything but `ports` may be
left out.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from hosts.agent.fields import FieldError, Fields, address
from hosts.core import faults
from hosts.core.config import (
    CcConfig,
    ConfigError,
    EndpointConfig,
    EvConfig,
    PeerInfo,
    PortConfig,
    QpConfig,
    RtoConfig,
)
from hosts.wire.constants import Dscp, EvPacking

PACKINGS = {
    "label-high": EvPacking.LABEL_HIGH,
    "sport-high": EvPacking.SPORT_HIGH,
    "label20": EvPacking.LABEL20,
}
SAMPLE_INTERVAL_NS = 50_000_000
CATCH_UP_NS = 2_000_000
"""A loop that was scheduled late sends what the line would have carried meanwhile, this much."""


@dataclass(frozen=True)
class Settings:
    """All the agent needs to start."""

    endpoint: EndpointConfig
    qp: QpConfig
    interfaces: Mapping[int, str]
    seed: int
    sample_interval_ns: int
    realtime: bool
    """Ask for real-time scheduling; without the permission the agent runs as usual."""


def load(path: Path, interfaces: Mapping[int, str]) -> Settings:
    """Read a configuration file; `interfaces` (port -> name) go before the file's own. Raises
    FieldError naming the file and the field."""
    try:
        data = json.loads(path.read_text())
    except OSError as error:
        raise FieldError(f"{path}: {error.strerror}") from None
    except ValueError as error:
        raise FieldError(f"{path}: not JSON: {error}") from None
    try:
        return parse(data, interfaces)
    except (FieldError, ConfigError) as error:
        raise FieldError(f"{path}: {error}") from None


def parse(data: Any, interfaces: Mapping[int, str]) -> Settings:
    """The same from a JSON value. Raises FieldError or ConfigError."""
    top = Fields(data)
    names: dict[int, str] = {}
    ports = []
    for item in top.objects("ports"):
        port = item.integer("port", low=1, high=32)
        name = interfaces.get(port, "") or item.text("interface")
        item.text("interface", "")
        names[port] = name
        ports.append(
            PortConfig(
                port,
                item.mac("mac"),
                item.mac("gateway_mac"),
                item.ip("ip"),
                item.integer("rate_bps", low=1),
                up=item.flag("up", True),
            )
        )
        item.done()
    unknown = set(interfaces) - set(names)
    if unknown:
        raise FieldError(f"--nic: port {min(unknown)} is not in ports")
    dscp = top.object("dscp", {})
    codes = Dscp(
        **{f.name: dscp.integer(f.name, getattr(Dscp(), f.name), 0, 63) for f in fields(Dscp)}
    )
    dscp.done()
    broken = [str(name) for name in top.items("faults", [])]
    try:
        wrong = faults.named(broken) if broken else None
    except ValueError as error:
        raise FieldError(f"faults: {error}") from None
    default = EndpointConfig(tuple(ports))
    endpoint = EndpointConfig(
        ports=tuple(ports),
        pmtu=top.integer("pmtu", default.pmtu),
        time_scale=top.integer("time_scale", default.time_scale),
        udp_port=top.integer("udp_port", default.udp_port, 1, 65535),
        ev_packing=top.choice("ev_packing", PACKINGS, "label-high"),
        dscp=codes,
        hop_limit=top.integer("hop_limit", default.hop_limit, 1, 255),
        sack_threshold=top.integer("sack_threshold", default.sack_threshold, 1),
        catch_up_ns=top.integer("catch_up_ns", CATCH_UP_NS, 0),
        ahead_ns=top.integer("ahead_ns", 0, 0),
        check_icrc=top.flag("check_icrc", True),
        faults=wrong,
    )
    qp = qp_config(top.object("qp", {}), QpConfig())
    settings = Settings(
        endpoint,
        qp,
        names,
        top.integer("seed", 0),
        top.integer("sample_interval_ns", SAMPLE_INTERVAL_NS, 1_000),
        top.flag("realtime", True),
    )
    top.text("name", "")
    top.done()
    return settings


def qp_config(given: Fields, base: QpConfig) -> QpConfig:
    """A QP's attributes: what is given over what `base` says."""
    rto, ev, cc = given.object("rto", {}), given.object("ev", {}), given.object("cc", {})
    values = ev.mapping("values", {})
    config = replace(
        base,
        mpr=given.integer("mpr", base.mpr, 1, 255),
        dynamic_mpr=given.flag("dynamic_mpr", base.dynamic_mpr),
        write_imm_limit=given.integer("write_imm_limit", base.write_imm_limit, 1),
        first_psn=given.integer("first_psn", base.first_psn, 0, 0xFFFFFF),
        trim_nack=given.flag("trim_nack", base.trim_nack),
        rto=RtoConfig(
            rto.integer("t", base.rto.t, 0, 24),
            rto.integer("linear", base.rto.linear, 0, 7),
            rto.integer("exp", base.rto.exp, 0, 25),
        ),
        ev=_ev_config(ev, base.ev, values),
        cc=CcConfig(
            cc.text("name", base.cc.name),
            cc.integer("base_rtt_ns", base.cc.base_rtt_ns, 1),
            dict(cc.mapping("params", base.cc.params)),
        ),
    )
    for part in (rto, ev, cc, given):
        part.done()
    return config


def _ev_config(given: Fields, base: EvConfig, values: Mapping[str, Any]) -> EvConfig:
    return replace(
        base,
        active=given.integer("active", base.active, 1),
        backup=given.integer("backup", base.backup, 0),
        min_active=given.integer("min_active", base.min_active, 0),
        recovery_successes=given.integer("recovery_successes", base.recovery_successes, 1),
        recovery_cap_ns=given.integer("recovery_cap_ns", base.recovery_cap_ns, 1),
        recovery_first_ns=given.integer("recovery_first_ns", base.recovery_first_ns, 1),
        report_skip=given.flag("report_skip", base.report_skip),
        values=_ev_values(values) if values else base.values,
    )


def _ev_values(values: Mapping[str, Any]) -> dict[int, list[int]]:
    by_port = Fields(values, "ev.values")
    return {_port(key): by_port.integers(key, 0, 0xFFFFFFFF) for key in values}


def _port(key: str) -> int:
    if not key.isdigit() or not 1 <= int(key) <= 32:
        raise FieldError(f"{key!r} is not a port number (1..32)")
    return int(key)


def peer_to_json(peer: PeerInfo) -> dict[str, Any]:
    """What the other side's `connect_qp` needs, as JSON."""
    from ipaddress import ip_address

    return {
        "qpn": peer.qpn,
        "psn": peer.psn,
        "ips": {str(port): str(ip_address(ip)) for port, ip in peer.ips.items()},
        "pmtu": peer.pmtu,
        "mpr": peer.mpr,
        "write_imm_limit": peer.write_imm_limit,
        "dynamic_mpr": peer.dynamic_mpr,
        "trim_nack": peer.trim_nack,
    }


def peer_from_json(given: Fields) -> PeerInfo:
    """The inverse. Raises FieldError or ConfigError."""
    ips = {
        _port(key): address(str(text), given.name(f"ips.{key}"))
        for key, text in given.mapping("ips").items()
    }
    peer = PeerInfo(
        qpn=given.integer("qpn", low=0, high=0xFFFFFF),
        psn=given.integer("psn", low=0, high=0xFFFFFF),
        ips=ips,
        pmtu=given.integer("pmtu", 4096, 1),
        mpr=given.integer("mpr", 32, 1, 255),
        write_imm_limit=given.integer("write_imm_limit", 32, 1),
        dynamic_mpr=given.flag("dynamic_mpr", False),
        trim_nack=given.flag("trim_nack", True),
    )
    given.done()
    return peer
