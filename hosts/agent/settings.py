"""The agent's configuration file (JSON) and the QP and peer objects of control requests.

    {"seed": 1, "pmtu": 4096, "time_scale": 1000, "udp_port": 4791, "ev_packing": "label-high",
     "dscp": {"control": 46, ...}, "interop": "reference", "hop_limit": 64, "realtime": true,
     "encap": {"fd00::2": {...}}, "receiver": {"drain_bps": 1000000000},
     "sample_interval_ns": 50000000, "rx_delay_ns": 0,
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
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hosts.agent import forms
from hosts.agent.fields import FieldError, Fields, address
from hosts.agent.forms import PACKING_NAMES, PACKINGS
from hosts.core import faults
from hosts.core.config import (
    CcConfig,
    ConfigError,
    EndpointConfig,
    EvConfig,
    PeerInfo,
    PortConfig,
    QpConfig,
    ReceiverConfig,
    RtoConfig,
)
from hosts.core.interop import REFERENCE, InteropError, InteropProfile, profile_named

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
    rx_delay_ns: int = 0
    """Propagation of the whole way, where the switches have none: frames are held this long."""
    visible: bool = False
    """Send through the kernel's taps, so that a capture at the NIC sees it; a little slower."""


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
    interop = _interop(top)
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
        interop=interop,
        hop_limit=top.integer("hop_limit", default.hop_limit, 1, 255),
        encap=forms.encaps_from_json(top.mapping("encap", {}), "encap") or None,
        receiver=_receiver(top.object("receiver", {})),
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
        top.integer("rx_delay_ns", 0, 0, 10_000_000_000),
        top.flag("visible", False),
    )
    top.text("name", "")
    top.done()
    return settings


def _interop(top: Fields) -> InteropProfile:
    """`interop`: a name or an object; single answers beside it go before it."""
    given = top.raw("interop") if top.has("interop") else REFERENCE.name
    try:
        if isinstance(given, str):
            base = profile_named(given)
        else:
            base = forms.interop_from_json(Fields(given, "interop"))
        return replace(
            base,
            udp_port=top.integer("udp_port", base.udp_port, 1, 65535),
            ev_packing=top.choice("ev_packing", PACKINGS, PACKING_NAMES[base.ev_packing]),
            dscp=forms.dscp_from_json(top.object("dscp", {}), base.dscp),
            sack_threshold=top.integer("sack_threshold", base.sack_threshold, 1),
        )
    except InteropError as error:
        raise FieldError(f"interop: {error}") from None


def _receiver(given: Fields) -> ReceiverConfig:
    base = ReceiverConfig()
    config = ReceiverConfig(
        given.integer("drain_bps", base.drain_bps, 1),
        given.integer("buffer_bytes", base.buffer_bytes, 1),
        given.integer("penalty_from_percent", round(base.penalty_from * 100), 0, 99) / 100,
        given.integer("ooo_packets", base.ooo_packets, 1),
        given.integer("open_messages", base.open_messages, 1),
    )
    given.done()
    return config


def qp_config(given: Fields, base: QpConfig) -> QpConfig:
    """A QP's attributes: what is given over what `base` says."""
    rto, ev, cc = given.object("rto", {}), given.object("ev", {}), given.object("cc", {})
    values = ev.mapping("values", {})
    config = replace(
        base,
        mpr=given.integer("mpr", base.mpr, 1, 255),
        svc_time=given.flag("svc_time", base.svc_time),
        cc_profile=given.text("cc_profile", base.cc_profile or "") or None,
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
        trial_probes=given.integer("trial_probes", base.trial_probes, 0),
        report_skip=given.flag("report_skip", base.report_skip),
        selector=given.text("selector", base.selector),
        kind=given.choice("kind", forms.KINDS, base.kind.value),
        profile=given.text("profile", base.profile or "") or None,
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
        "svc_time": peer.svc_time,
        "rate_bps": peer.rate_bps,
        "interop": forms.interop_to_json(peer.interop) if peer.interop is not None else None,
        "kind": peer.kind.value if peer.kind is not None else None,
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
        svc_time=given.flag("svc_time", False),
        rate_bps=given.integer("rate_bps", None, 1) if _given(given, "rate_bps") else None,
        interop=(
            forms.interop_from_json(given.object("interop")) if _given(given, "interop") else None
        ),
        kind=given.choice("kind", forms.KINDS) if _given(given, "kind") else None,
        encap={
            _port(key): forms.encap_from_json(Fields(item, f"encap.{key}"))
            for key, item in given.mapping("encap", {}).items()
        }
        or None,
    )
    given.done()
    return peer


def _given(given: Fields, key: str) -> bool:
    """There and not null."""
    return given.has(key) and given.raw(key) is not None
