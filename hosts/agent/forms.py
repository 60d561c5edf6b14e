"""JSON forms of what controllers and peers say: interop profiles, SRv6 paths, EV profiles, QPs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from ipaddress import ip_address
from typing import Any

from hosts.agent.fields import FieldError, Fields, address
from hosts.core.ev.format import EvFormat, EvKind
from hosts.core.ev.generate import GeneratedField
from hosts.core.ev.profile import EvMode, ProfileSpec
from hosts.core.events import EvState
from hosts.core.interop import (
    PROFILES,
    REFERENCE,
    EethOpBits,
    InteropError,
    InteropProfile,
    TrimLengths,
)
from hosts.core.qp import Qp
from hosts.wire.constants import Dscp, EvPacking
from hosts.wire.encap import (
    Encap,
    Insert,
    SrPath,
    TableEncap,
    UsidEncap,
    UsidTemplate,
)

Json = dict[str, Any]
PACKINGS = {
    "label-high": EvPacking.LABEL_HIGH,
    "sport-high": EvPacking.SPORT_HIGH,
    "label20": EvPacking.LABEL20,
}
PACKING_NAMES = {value: name for name, value in PACKINGS.items()}
KINDS = {kind.value: kind for kind in EvKind}
MODES = {mode.value: mode for mode in EvMode}
STATES = {state.name: state for state in EvState}


def number(value: Any, where: str) -> int:
    """An integer, or a text of one ("0x..." or decimal), or an IPv6 address as its 128 bits."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, str):
        try:
            return int(value, 0)
        except ValueError:
            return int.from_bytes(address(value, where), "big")
    raise FieldError(f"{where}: {value!r} is not a number")


# --- interop -----------------------------------------------------------------------------------


def interop_to_json(profile: InteropProfile) -> Json:
    """Every answer of a profile."""
    return {
        "name": profile.name,
        "udp_port": profile.udp_port,
        "ev_packing": PACKING_NAMES[profile.ev_packing],
        "eeth_op_bits": profile.eeth_op_bits.value,
        "dscp": {f.name: getattr(profile.dscp, f.name) for f in fields(Dscp)},
        "send_inclusive": profile.send_inclusive,
        "accept_inclusive": profile.accept_inclusive,
        "oor_nack": profile.oor_nack,
        "sack_threshold": profile.sack_threshold,
        "sack_min_add": profile.sack_min_add,
        "trim_lengths": profile.trim_lengths.value,
        "neth_cc_type": profile.neth_cc_type,
        "p_key": profile.p_key,
        "probe_id_in_psn": profile.probe_id_in_psn,
    }


def interop_from_json(given: Fields) -> InteropProfile:
    """What is left out is the named profile's, or the reference's. Raises FieldError."""
    base = PROFILES.get(given.text("name", REFERENCE.name), REFERENCE)
    dscp = dscp_from_json(given.object("dscp", {}), base.dscp)
    try:
        profile = InteropProfile(
            name=given.text("name", base.name),
            udp_port=given.integer("udp_port", base.udp_port, 1, 65535),
            ev_packing=given.choice("ev_packing", PACKINGS, PACKING_NAMES[base.ev_packing]),
            eeth_op_bits=given.choice(
                "eeth_op_bits", {b.value: b for b in EethOpBits}, base.eeth_op_bits.value
            ),
            dscp=dscp,
            send_inclusive=given.flag("send_inclusive", base.send_inclusive),
            accept_inclusive=given.flag("accept_inclusive", base.accept_inclusive),
            oor_nack=given.flag("oor_nack", base.oor_nack),
            sack_threshold=given.integer("sack_threshold", base.sack_threshold, 1),
            sack_min_add=given.integer("sack_min_add", base.sack_min_add, 1),
            trim_lengths=given.choice(
                "trim_lengths", {t.value: t for t in TrimLengths}, base.trim_lengths.value
            ),
            neth_cc_type=given.integer("neth_cc_type", base.neth_cc_type, 0, 15),
            p_key=given.integer("p_key", base.p_key, 0, 0xFFFF),
            probe_id_in_psn=given.flag("probe_id_in_psn", base.probe_id_in_psn),
        )
    except InteropError as error:
        raise FieldError(f"{given.name('interop')}: {error}") from None
    given.done()
    return profile


def dscp_from_json(given: Fields, base: Dscp) -> Dscp:
    codes = Dscp(
        **{f.name: given.integer(f.name, getattr(base, f.name), 0, 63) for f in fields(Dscp)}
    )
    given.done()
    return codes


# --- SRv6 --------------------------------------------------------------------------------------


def path_from_json(items: Any, where: str) -> SrPath:
    """["outer destination", "segment", ...]."""
    if isinstance(items, str):
        items = [items]
    if not isinstance(items, list) or not items:
        raise FieldError(f"{where}: must be a list: outer destination, then segments")
    raw = [address(str(item), where) for item in items]
    if any(len(a) != 16 for a in raw):
        raise FieldError(f"{where}: outer addresses are IPv6")
    return SrPath(raw[0], tuple(raw[1:]))


def path_to_json(path: SrPath) -> list[str]:
    return [str(ip_address(a)) for a in (path.da, *path.segments)]


def _usid(given: Fields) -> UsidTemplate:
    inserts = []
    for i, item in enumerate(given.items("inserts", [])):
        if not isinstance(item, list) or len(item) != 3:
            raise FieldError(f"{given.name('inserts')}[{i}]: [ev_shift, width, addr_shift]")
        inserts.append(Insert(*(number(part, given.name("inserts")) for part in item)))
    return UsidTemplate(given.ip("base"), tuple(inserts))


def encap_from_json(given: Fields) -> Encap:
    """`paths` by EV, or `base`, `inserts` and `segments`; `src`. Raises FieldError."""
    src = given.ip("src") if given.has("src") else None
    try:
        encap: Encap
        if given.has("paths"):
            paths = given.mapping("paths")
            encap = TableEncap(
                {
                    number(ev, given.name("paths")): path_from_json(p, given.name(f"paths.{ev}"))
                    for ev, p in paths.items()
                },
                src,
            )
        else:
            segments = []
            for item in given.objects("segments") if given.has("segments") else []:
                segments.append(_usid(item))
                item.done()
            encap = UsidEncap(_usid(given), tuple(segments), src)
    except FieldError:
        raise
    except ValueError as error:
        raise FieldError(f"{given.name('encap')}: {error}") from None
    given.done()
    return encap


def encaps_from_json(given: Mapping[str, Any], where: str) -> dict[bytes, Encap]:
    """By destination address."""
    return {
        address(str(dst), where): encap_from_json(Fields(item, f"{where}.{dst}"))
        for dst, item in given.items()
    }


# --- EV profiles and QPs -----------------------------------------------------------------------


def spec_from_json(given: Fields) -> ProfileSpec:
    """What makes an EV profile. Raises FieldError or ConfigError."""
    kind: EvKind = given.choice("kind", KINDS, "ecmp")
    default = {EvKind.ECMP: [16], EvKind.STRUCTURED: [32], EvKind.USID: [128]}.get(kind, [256])
    widths = tuple(given.integers("widths", 1, 256, default))
    name = given.text("name")
    states = {key: state for key, state in STATES.items() if key != "SKIP"}
    events = frozenset(
        states[str(item)] if str(item) in states else _bad_state(item, states)
        for item in given.items("events", ["GOOD", "ASSUMED_BAD"])
    )
    parts = []
    for item in given.objects("fields") if given.has("fields") else []:
        width = item.integer("width", low=1, high=256)
        top = (1 << width) - 1
        parts.append(
            GeneratedField(
                width,
                item.integer("initial", 0, 0, top),
                item.integer("minimum", 0, 0, top),
                item.integer("maximum", None, 0, top),
                item.integer("mask", 0, 0, top),
            )
        )
        item.done()
    spec = ProfileSpec(
        name=name,
        format=EvFormat(given.text("format", name), kind, widths),
        mode=given.choice("mode", MODES, "auto"),
        ev_count=given.integer("ev_count", 128, 1),
        backup=given.integer("backup", 64, 0),
        alignment=given.integer("alignment", 1, 1),
        ev_min_active=given.integer("ev_min_active", None, 0),
        events=events,
        fields=tuple(parts),
        plane_field=given.integer("plane_field", None, 0),
    )
    given.done()
    return spec


def _bad_state(item: Any, states: Mapping[str, EvState]) -> EvState:
    raise FieldError(f"events: {item!r} must be one of {', '.join(states)}")


def qp_to_json(qp: Qp) -> Json:
    """The attributes of a QP."""
    config, agreement = qp.config, qp.agreement
    shown: Json = {
        "qpn": qp.qpn,
        "state": qp.state.name,
        "first_psn": qp.first_psn,
        "mpr": config.mpr,
        "dynamic_mpr": config.dynamic_mpr,
        "write_imm_limit": config.write_imm_limit,
        "trim_nack": config.trim_nack,
        "svc_time": config.svc_time,
        "ev_kind": qp.kind.value,
        "ev_profile": config.ev.profile,
        "selector": config.ev.selector,
        "cc": config.cc.name,
        "cc_profile": config.cc_profile,
        "peer": None,
    }
    if qp.peer is not None and agreement is not None:
        theirs = qp.peer.interop
        shown["peer"] = {
            "qpn": qp.peer.qpn,
            "ips": {str(port): str(ip_address(ip)) for port, ip in qp.peer.ips.items()},
            "interop": theirs.name if theirs is not None else None,
        }
        shown["udp_port"] = agreement.dport
        shown["notes"] = list(agreement.notes)
    if qp.parts is not None:
        shown["cc"] = qp.parts.destination.config.name
    return shown
