"""What is wrong with a decoded packet: values that sections 1 and 2 of the reference exclude.

`judge` looks at fields only; what the bytes themselves show (lengths of the layers, the iCRC) is
found where they are read. A receiver ignores most of this; who builds or captures packets
wants to know.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from hosts.wire.constants import (
    OPCODE_MRC,
    P_KEY,
    QPN_ENDPOINT,
    EndpointOp,
    NackReason,
    Opcode,
    Syndrome,
)

RESERVED = ("res", "res1", "res2", "res3", "res4")
"""Names of reserved fields; decode shows them when they are not zero."""

_ZERO = {
    "bth": ("m", "se", "tver", "var_res", "r", "inv_res"),
    "seth": ("type", "nxt", "cc_type", "cc_flags"),
    "neth": ("type", "nxt", "cc_flags"),
    "peth": ("type", "nh"),
    "erth": ("type", "nxt"),
    "eeth": ("type", "nxt"),
}
_KNOWN: dict[tuple[str, str], Callable[[int], bool]] = {
    ("aeth", "syndrome"): lambda v: v in set(Syndrome),
    ("neth", "nack_reason"): lambda v: v in set(NackReason),
    ("neth", "cc_type"): lambda v: v in (0, 2),  # implementations differ: section 9 #20
    ("seth", "m"): lambda v: v != 3,
    ("erth", "op"): lambda v: v in set(EndpointOp),
    ("eeth", "op"): lambda v: v in set(EndpointOp),
    ("tseth", "ftype"): lambda v: v == 1,
    ("peth", "ftype"): lambda v: v in (0, 1),  # 0: no time stamp is meant
    ("erth", "ftype"): lambda v: v in (0, 1),
}
_EXTENSIONS = ("tseth", "aeth", "seth", "cc_state", "neth", "peth", "erth", "eeth")
_ENDPOINT = (Opcode.ENDPOINT_REQUEST, Opcode.ENDPOINT_RESPONSE)


def judge(packet: dict[str, Any], *, whole: bool) -> Iterator[str]:
    """One line for each wrong value. `whole`: the payload is all there (not trimmed or cut)."""
    bth = packet["bth"]
    if bth["opcode"] >> 5 != OPCODE_MRC:
        return
    yield from _header("bth", bth)
    if bth["p_key"] != P_KEY:
        yield f"bth: p_key {bth['p_key']:#06x} is not the default {P_KEY:#06x}"
    for key in _EXTENSIONS:
        if key in packet:
            yield from _header(key, packet[key])
    yield from _bth(bth, packet)
    if whole and "reth" in packet and "payload" in packet:
        yield from _message(bth["opcode"], len(packet["payload"]) // 2, packet["reth"]["dmalen"])


def _header(key: str, fields: dict[str, int]) -> Iterator[str]:
    for name in RESERVED:
        if fields.get(name):
            yield f"{key}: reserved bits {name} = {fields[name]:#x}"
    for name in _ZERO.get(key, ()):
        if fields[name]:
            yield f"{key}: {name} is {fields[name]}, not 0"
    for (where, name), known in _KNOWN.items():
        if where == key and not known(fields[name]):
            yield f"{key}: {name} {fields[name]:#x} is not defined"


def _bth(bth: dict[str, int], packet: dict[str, Any]) -> Iterator[str]:
    """What BTH says twice, or must say for its opcode (section 1, `psn` by opcode)."""
    opcode, psn, dqp = bth["opcode"], bth["psn"], bth["dqp"]
    if (dqp == QPN_ENDPOINT) != (opcode in _ENDPOINT):
        if opcode in _ENDPOINT:
            yield f"bth: dqp {dqp:#08x} in an endpoint operation, not {QPN_ENDPOINT:#08x}"
        else:
            yield f"bth: dqp {dqp:#08x} is for endpoint operations"
    for key, name in (("seth", "cack_psn"), ("neth", "nack_psn")):
        if key in packet and psn != packet[key][name]:
            yield f"bth: psn {psn} is not {key}.{name} {packet[key][name]}"
    if opcode == Opcode.PROBE and psn:
        yield f"bth: psn is {psn} in a reliability probe, not 0"
    if opcode in _ENDPOINT and psn >> 16:
        yield f"bth: psn {psn:#08x}: the id of an endpoint operation has 16 bits"
    if bth["ts"] and opcode > Opcode.WRITE_ONLY_IMM:
        yield f"bth: ts is 1, but opcode {opcode:#04x} has no TSETH"


def _message(opcode: int, size: int, whole: int) -> Iterator[str]:
    """Payload bytes against the message's length (section 2.2)."""
    if opcode in (Opcode.WRITE_ONLY, Opcode.WRITE_ONLY_IMM):
        wrong = size != whole
    else:
        wrong = size >= whole or not size
    if not whole:
        yield "reth: dmalen is 0: a message has 1 byte or more"
    elif wrong:
        name = Opcode(opcode).name
        yield f"reth: dmalen {whole} does not fit {size} payload bytes in a {name}"
