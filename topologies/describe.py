"""A fabric, an EV and a link in words and as JSON: what ``./lab fabric`` prints."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from topologies.ecmp import split_ev
from topologies.evlayout import EvLayout
from topologies.paths import (
    Path,
    evs_of_link,
    flows_over,
    path_of,
    planes_of_ev,
    planned_evs,
)
from topologies.plan import Plan
from topologies.srv6 import SidList, sid_list, sid_of

ECMP_EVS = 256
"""In ecmp mode EVs are drawn by the endpoints; a link is shown with those of 0 to 255."""

MODES_IN_WORDS = {
    "ecmp": "a hash of addresses and EV picks the uplink",
    "structured": "bits of the EV name the uplink",
    "srv6": "the host writes the EV's uplink into a list of uSIDs",
}


def bit_drawing(layout: EvLayout) -> list[str]:
    """The fields of an EV as lines of text, and where they are in a packet."""
    cells = []
    for field in layout.fields:
        top = field.shift + field.width - 1
        bits = f"{top}" if field.width == 1 else f"{top}..{field.shift}"
        cells.append((bits if field.width else "-", field.name))
    widths = [max(len(bits), len(name)) for bits, name in cells]
    lines = []
    for row in zip(*cells, strict=True):
        lines.append(
            " | ".join(f"{text:^{width}}" for text, width in zip(row, widths, strict=True))
        )
    high, low = ("flow label", "UDP source port")
    if layout.order == "sport-high":
        high, low = low, high
    return [*(line.rstrip() for line in lines), f"bits 31..16: {high}; bits 15..0: {low}"]


def usid_rows(plan: Plan) -> list[tuple[str, str, str]]:
    """(switch, uSID, /48 it matches), and how ports are numbered, for every switch."""
    blocks = plan.spec.usids
    rows = []
    for switch in plan.switches.values():
        usid = blocks.usid(sid_of(switch))
        rows.append((switch.name, f"{usid:04x}", str(blocks.prefix(usid))))
    return rows


def modes_json(plan: Plan) -> dict[str, Any]:
    """Mode, EV fields and uSIDs, for scripts."""
    spec = plan.spec
    return {
        "mode": spec.mode,
        "ev_fields": {f.name: {"shift": f.shift, "width": f.width} for f in spec.ev_layout.fields},
        "usid_block": str(spec.usids),
        "usids": {name: {"usid": usid, "prefix": net} for name, usid, net in usid_rows(plan)},
        "planned_evs": {str(p): list(planned_evs(plan, p)) for p in range(spec.planes)},
    }


# -- one EV


def uplink_number(plan: Plan, path: Path) -> int | None:
    """Which uplink of its first T0 a path takes; None when it crosses no T1."""
    return plan.switch(path.switches[1]).index if len(path.switches) > 1 else None


def ev_json(plan: Plan, ev: int, src: str, dst: str, plane: int | None) -> dict[str, Any]:
    """What an EV means between two hosts, both ways, in its plane or (ecmp) in every plane.

    Raises UnknownNameError for hosts, ValueError for an EV or plane that is none of this fabric.
    """
    planes = planes_of_ev(plan, ev) if plane is None else (plane,)
    if not planes:
        named = plan.ev_layout.plane.get(ev)
        raise ValueError(f"EV {ev:#010x} is of plane {named}, and planes are 0 to {_last(plan)}")
    label, sport = split_ev(ev, plan.spec.ev.order)
    found: dict[str, Any] = {
        "ev": ev,
        "mode": plan.spec.mode,
        "flow_label": label,
        "source_port": sport,
    }
    if plan.spec.mode != "ecmp":
        found["fields"] = {f.name: f.get(ev) for f in plan.ev_layout.fields}
    found["paths"] = [
        _way_json(plan, a, b, p, ev) for p in planes for a, b in ((src, dst), (dst, src))
    ]
    return found


def _last(plan: Plan) -> int:
    return plan.spec.planes - 1


def _way_json(plan: Plan, src: str, dst: str, plane: int, ev: int) -> dict[str, Any]:
    path = path_of(plan, src, dst, plane, ev)
    way: dict[str, Any] = {
        "from": src,
        "to": dst,
        "plane": plane,
        "links": list(path.links),
        "switches": list(path.switches),
        "lost_at": path.lost_at,
    }
    if plan.spec.mode == "srv6" and path.lost_at is None:
        sids = sid_list(plan, src, dst, plane, uplink_number(plan, path))
        way["sids"] = _sids_json(plan, sids)
    return way


def _sids_json(plan: Plan, sids: SidList) -> dict[str, Any]:
    blocks = plan.spec.usids
    return {
        "list": [{"name": str(sid), "usid": f"{blocks.usid(sid):04x}"} for sid in sids.sids],
        "destination": str(sids.destination),
        "segment": None if sids.segment is None else str(sids.segment),
    }


def ev_lines(found: dict[str, Any]) -> list[str]:
    """ev_json for people."""
    head = f"EV {found['ev']:#010x} ({found['mode']})"
    if "fields" in found:
        head += ": " + ", ".join(f"{name} {value}" for name, value in found["fields"].items())
    lines = [head, f"flow label {found['flow_label']:#07x}, UDP source port {found['source_port']}"]
    for way in found["paths"]:
        lines.append("")
        lost = f"; lost at {way['lost_at']}" if way["lost_at"] else ""
        lines.append(f"{way['from']} to {way['to']}, plane {way['plane']}{lost}")
        lines += [f"  {link}" for link in way["links"]]
        if "sids" in way:
            sids = way["sids"]
            names = " > ".join(f"{sid['usid']} {sid['name']}" for sid in sids["list"])
            lines += [f"  uSIDs        {names}", f"  destination  {sids['destination']}"]
            if sids["segment"]:
                lines.append(f"  SRH segment  {sids['segment']}")
    return lines


# -- one link


def candidates(plan: Plan) -> list[tuple[int, int]]:
    """(plane, EV) that a link is looked up among."""
    planes = range(plan.spec.planes)
    if plan.spec.mode == "ecmp":
        return [(plane, ev) for plane in planes for ev in range(ECMP_EVS)]
    return [(plane, ev) for plane in planes for ev in planned_evs(plan, plane)]


def link_json(plan: Plan, link: str, src: str | None, dst: str | None) -> dict[str, Any]:
    """The EVs that cross a link, for the flow given or for one flow of each pair of T0s.

    Raises UnknownNameError.
    """
    flows: Iterable[tuple[str, str]] = flows_over(plan, link)
    if src is not None and dst is not None:
        plan.link(link)
        flows = [(src, dst), (dst, src)]
    among = candidates(plan)
    return {
        "link": link,
        "mode": plan.spec.mode,
        "plane": plan.link(link).plane,
        "among": len({ev for plane, ev in among if plane == plan.link(link).plane}),
        "flows": [
            {
                "from": a,
                "to": b,
                "evs": sorted(ev for _p, ev in evs_of_link(plan, a, b, link, among)),
            }
            for a, b in flows
        ],
    }


def link_lines(found: dict[str, Any], most: int = 8) -> list[str]:
    """link_json for people; at most so many EVs per flow."""
    what = f"EVs 0 to {ECMP_EVS - 1}" if found["mode"] == "ecmp" else "EVs hosts have in this plane"
    lines = [f"{found['link']} ({found['mode']}), plane {found['plane']}: {what} that cross it"]
    for flow in found["flows"]:
        evs: Sequence[int] = flow["evs"]
        lines.append(f"  {flow['from']} to {flow['to']}: {len(evs)} of {found['among']}")
        if evs:
            shown = [f"{ev:#010x}" for ev in evs[:most]]
            rows = [" ".join(shown[i : i + 6]) for i in range(0, len(shown), 6)]
            lines += [f"    {row}" for row in rows]
            if len(evs) > most:
                lines[-1] += " ..."
    return lines
