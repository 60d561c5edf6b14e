"""A decoded packet as text: every field by the reference's name, 80 columns wide."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from typing import Any

from hosts.wire.constants import Dscp, EndpointOp, NackReason, Opcode, PathFeedback, Syndrome

WIDTH = 80
_KEY_COLUMN = 12

# Values that people read in hexadecimal, with the digits of their width.
_HEX = {
    "opcode": 2,
    "p_key": 4,
    "dqp": 6,
    "va": 16,
    "r_key": 8,
    "imm": 8,
    "syndrome": 2,
    "entropy": 8,
    "nack_reason": 2,
    "sack_bitmap": 16,
    "port_status_mask": 8,
    "flow_label": 5,
    "type": 4,
    "checksum": 4,
    "vendor_info": 2,
    "probe_id": 4,
}
_ECN = {0: "not-ECT", 1: "ECT(1)", 2: "ECT(0)", 3: "CE"}


def name_of_opcode(opcode: int) -> str | None:
    """`WRITE_MIDDLE` for 0xC7, None for an opcode that MRC does not have."""
    return Opcode(opcode).name if opcode in set(Opcode) else None


def _meaning(key: str, field: str, value: int, codes: Dscp) -> str | None:
    if (key, field) == ("bth", "opcode"):
        return name_of_opcode(value)
    if field == "dscp":
        return next(
            (n.upper() for n in codes.__dataclass_fields__ if getattr(codes, n) == value), None
        )
    if field == "ecn":
        return _ECN.get(value)
    known: Any = {
        ("neth", "nack_reason"): NackReason,
        ("aeth", "syndrome"): Syndrome,
        ("seth", "m"): PathFeedback,
        ("erth", "op"): EndpointOp,
        ("eeth", "op"): EndpointOp,
    }.get((key, field))
    return known(value).name if known is not None and value in set(known) else None


def _field(key: str, name: str, value: Any, codes: Dscp) -> str:
    if isinstance(value, list):
        return f"{name}={','.join(map(str, value)) or '-'}"
    if not isinstance(value, int):
        return f"{name}={value}"
    digits = _HEX.get(name)
    if key not in ("eth", "vlan") and name == "type":
        digits = None  # the MRC headers' own small `type`
    shown = f"{value:#0{digits + 2}x}" if digits else str(value)
    meaning = _meaning(key, name, value, codes)
    return f"{name}={shown}({meaning})" if meaning else f"{name}={shown}"


def _wrap(key: str, words: str) -> str:
    return textwrap.fill(
        words,
        WIDTH,
        initial_indent=f"  {key:<{_KEY_COLUMN - 2}}",
        subsequent_indent=" " * _KEY_COLUMN,
        break_long_words=False,
        break_on_hyphens=False,
    )


def summary(packet: dict[str, Any]) -> str:
    """What the packet is, in a few words: `WRITE_MIDDLE psn 17, 4096 B`."""
    bth = packet.get("bth")
    if bth is None:
        return "no MRC headers"
    words = [name_of_opcode(bth["opcode"]) or f"opcode {bth['opcode']:#04x}", f"psn {bth['psn']}"]
    if bth["rtx"]:
        words.append("retransmitted")
    if "payload" in packet:
        words.append(f"{len(packet['payload']) // 2} B")
    return " ".join(words)


def lines(
    packet: dict[str, Any], *, payload: bool = False, dscp: Dscp | None = None
) -> Iterator[str]:
    """Lines of text for a packet as decode() gives it; on demand all of its payload. `dscp`: whose
    names code points have."""
    codes = dscp if dscp is not None else Dscp()
    for key, value in packet.items():
        if key in ("problems", "icrc_ok", "capture"):
            continue
        if key == "vlan":
            for tag in value:
                yield _wrap(key, " ".join(_field(key, name, v, codes) for name, v in tag.items()))
        elif isinstance(value, dict):
            yield _wrap(key, " ".join(_field(key, name, v, codes) for name, v in value.items()))
        elif key == "ev":
            yield _wrap(key, f"{value:#010x}")
        elif key == "icrc":
            good = {True: "right", False: "WRONG", None: "not judged"}[packet.get("icrc_ok")]
            yield _wrap(key, "absent" if value is None else f"{value:#010x} ({good})")
        elif isinstance(value, str):
            size = len(value) // 2
            shown = value if payload or size <= 16 else value[:32] + "..."
            grouped = " ".join(shown[i : i + 8] for i in range(0, len(shown), 8))
            yield _wrap(key, f"{size} B {grouped}")
    for problem in packet.get("problems", ()):
        yield _wrap("PROBLEM", problem)
