"""Set-up of a connection: what two ends agree on, or why they cannot, and the parts of a QP."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hosts.core.cc.base import PathFigures
from hosts.core.config import CcConfig, EndpointConfig, PeerInfo, QpConfig
from hosts.core.errors import EndpointError
from hosts.core.ev.format import EvKind
from hosts.core.interop import Agreement, InteropError, agree
from hosts.core.link import Flows, make_flows
from hosts.core.messages import nominal_size
from hosts.wire.encap import Encap, TableEncap

if TYPE_CHECKING:
    from hosts.core.qp import Qp


def own_info(config: EndpointConfig, qp: QpConfig, qpn: int, psn: int, kind: EvKind) -> PeerInfo:
    """What our peer must be told about a QP of ours."""
    return PeerInfo(
        qpn=qpn,
        psn=psn,
        ips={p.port: p.ip for p in config.ports},
        pmtu=config.pmtu,
        mpr=qp.mpr,
        write_imm_limit=qp.write_imm_limit,
        dynamic_mpr=qp.dynamic_mpr,
        trim_nack=qp.trim_nack,
        svc_time=qp.svc_time,
        rate_bps=sum(p.rate_bps for p in config.ports),
        interop=config.interop,
        kind=kind,
    )


def negotiate(config: EndpointConfig, qp: Qp, peer: PeerInfo) -> Agreement:
    """How we talk to the peer. Raises EndpointError with the reason when we cannot."""
    where = f"qp {qp.qpn}: cannot connect"
    shared = {p.port: p.ip for p in config.ports if p.port in peer.ips}
    if not shared:
        raise EndpointError(f"{where}: the peer has no port in our planes")
    for port, ip in shared.items():
        if len(ip) != len(peer.ips[port]):
            raise EndpointError(f"{where}: port {port}: one end has IPv4, the other IPv6")
    if not 256 <= peer.pmtu <= 8192:
        raise EndpointError(f"{where}: the peer's PMTU {peer.pmtu} is not in 256..8192")
    theirs = peer.interop if peer.interop is not None else config.interop
    structured = EvKind.STRUCTURED in (qp.kind, peer.kind)
    try:
        return agree(config.interop, theirs, structured)
    except InteropError as error:
        raise EndpointError(f"{where}: {error}") from None


def flows_to(config: EndpointConfig, qp: Qp, peer: PeerInfo, agreement: Agreement) -> Flows:
    """Templates to the peer. SRv6 by what the peer's info says, then the EV profile, then the
    endpoint."""
    encaps: dict[int, Encap] = dict(peer.encap or {})
    if qp.paths:
        table = TableEncap(qp.paths)
        for port in peer.ips:
            encaps.setdefault(port, table)
    return make_flows(config, peer.ips, agreement.dport, encaps)


def destination_key(peer: PeerInfo, profile: str | None, cc: CcConfig) -> object:
    """QPs with the same key share a congestion control (section 5.5)."""
    if profile is not None:
        return tuple(sorted(peer.ips.items())), profile
    return (
        tuple(sorted(peer.ips.items())),
        cc.name,
        cc.base_rtt_ns,
        tuple(sorted(cc.params.items())),
    )


def path_figures(config: EndpointConfig, cc: CcConfig, peer: PeerInfo) -> PathFigures:
    """What the congestion control must know: the slower end's rate counts."""
    rate = sum(p.rate_bps for p in config.ports if p.port in peer.ips)
    if peer.rate_bps is not None:
        rate = min(rate, peer.rate_bps)
    return PathFigures(
        mtu=nominal_size(min(config.pmtu, peer.pmtu)),
        rate_bps=rate,
        base_rtt_ns=cc.base_rtt_ns,
        time_scale=config.time_scale,
        trimming=peer.trim_nack,
    )
