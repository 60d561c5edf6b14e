"""The configuration of a host's agent, computed from the fabric's plan."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from topologies.paths import planned_evs
from topologies.srv6 import encapsulation

if TYPE_CHECKING:
    from topologies.plan import Plan


CC_PARAMS: dict[str, dict[str, float]] = {"nscc": {"max_wnd_bdps": 2.0}}
"""MaxWnd is 1.5 BDP by default (reference 5.2). The base RTT is seeded by small probes, and in a
slowed network the serialisation of a full packet on four links is a sixth of the RTT on top; a
host that is scheduled late needs some more."""


@dataclass(frozen=True, slots=True)
class Transport:
    """What a drill may choose of the endpoints. Names are those of `hosts.core.cc.registry`,
    `hosts.core.ev.selector` and `hosts.core.interop`. What the fabric settles (UDP port, EV
    packing, DSCPs) goes before the interop profile's."""

    cc: str = "nscc"
    cc_params: Mapping[str, float] = field(default_factory=dict)
    selector: str = "rotation"
    interop: str = "reference"
    dynamic_mpr: bool = False
    svc_time: bool = False


def ev_values(plan: Plan) -> dict[str, list[int]]:
    """The EVs of every plane's port, active ones first, in modes in which an EV names its way;
    empty in ecmp mode, where endpoints draw their own."""
    if plan.spec.mode == "ecmp":
        return {}
    return {str(plane + 1): list(planned_evs(plan, plane)) for plane in range(plan.spec.planes)}


def encaps(plan: Plan, host: str, peers: Iterable[str] | None = None) -> dict[str, dict[str, Any]]:
    """In srv6 mode: destination address -> how an EV becomes outer addresses (`encap` objects of
    hosts/wire), for every NIC of every other host, or of `peers`. Empty in the other modes."""
    if plan.spec.mode != "srv6":
        return {}
    return {
        nic.ipv6: encapsulation(plan, host, name, nic.plane)
        for name in (plan.hosts if peers is None else peers)
        if name != host
        for nic in plan.host(name).nics
    }


def agent_config(
    plan: Plan,
    host: str,
    *,
    seed: int = 0,
    cc: str = "nscc",
    faults: Sequence[str] = (),
    peers: Iterable[str] | None = None,
    rx_delay_ns: int = 0,
    transport: Transport | None = None,
    late_hosts: bool = True,
) -> dict[str, Any]:
    """What `hosts.agent.settings` reads, for one host of a fabric. `seed` is the run's: every
    host draws its own numbers from it. `faults` break the endpoint on purpose. `peers`: the only
    hosts it will speak to (of a large fabric in srv6 mode the table of all would be large).
    `rx_delay_ns`: the way's propagation, where the switches have none. `transport`: choices of a
    drill (see `Transport`); `cc` is the one of them that everybody makes. `late_hosts`: with
    CC_PARAMS, which make up for hosts that are scheduled late."""
    chosen = transport if transport is not None else Transport(cc=cc)
    spec, nics = plan.spec, plan.host(host).nics
    ev: dict[str, Any] = {
        "active": spec.ev.active,
        "backup": spec.ev.backup,
        "min_active": spec.ev.min_active,
        "selector": chosen.selector,
    }
    values, outer = ev_values(plan), encaps(plan, host, peers)
    if values:
        ev["values"] = values
        ev["kind"] = "srv6-srh" if outer and spec.srv6.srh else spec.mode
    config: dict[str, Any] = {
        "name": host,
        "seed": seed * 65_537 + plan.host(host).index,
        "pmtu": spec.pmtu,
        "time_scale": spec.time_scale,
        "udp_port": spec.udp_port,
        "ev_packing": spec.ev.order,
        "dscp": {
            "no_trim": spec.dscp.no_trim,
            "trimmable": spec.dscp.trimmable,
            "trimmable_retx": spec.dscp.trimmable_retx,
            "trimmed": spec.dscp.trimmed,
            "trimmed_lasthop": spec.dscp.trimmed_lasthop,
            "control": spec.dscp.control,
        },
        "ports": [
            {
                "port": nic.port,
                "interface": nic.ifname,
                "mac": nic.mac,
                "gateway_mac": nic.gateway_mac,
                "ip": nic.ipv6,
                "rate_bps": spec.link.rate,
            }
            for nic in nics
        ],
        "qp": {
            "rto": {
                "t": spec.rto.exponent,
                "linear": spec.rto.linear,
                "exp": spec.rto.exponential,
            },
            "ev": ev,
            "cc": {
                "name": chosen.cc,
                "base_rtt_ns": spec.base_rtt_ns(),
                "params": {
                    **(CC_PARAMS.get(chosen.cc, {}) if late_hosts else {}),
                    **chosen.cc_params,
                },
            },
            "dynamic_mpr": chosen.dynamic_mpr,
            "svc_time": chosen.svc_time,
        },
        "interop": chosen.interop,
        "faults": list(faults),
    }
    if outer:
        config["encap"] = outer
    if rx_delay_ns:
        config["rx_delay_ns"] = rx_delay_ns
    return config
