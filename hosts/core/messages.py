"""Messages on both sides (section 4.4): how a write is cut, and how a responder puts it together.

The responder's part is fed in PSN order, as `cack` moves; payload was placed long before, in
whatever order it came.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from hosts.wire.constants import (
    BTH_BYTES,
    ICRC_BYTES,
    IMMDT_BYTES,
    METH_BYTES,
    NOMINAL_OVERHEAD,
    RETH_BYTES,
    TSETH_BYTES,
    UDP_BYTES,
    Opcode,
)

_HEADERS: Final = UDP_BYTES + BTH_BYTES + METH_BYTES + TSETH_BYTES + RETH_BYTES + ICRC_BYTES
_MSN_MASK: Final = 0xFFFF

FIRST: Final = int(Opcode.WRITE_FIRST)
MIDDLE: Final = int(Opcode.WRITE_MIDDLE)
LAST: Final = int(Opcode.WRITE_LAST)
LAST_IMM: Final = int(Opcode.WRITE_LAST_IMM)
ONLY: Final = int(Opcode.WRITE_ONLY)
ONLY_IMM: Final = int(Opcode.WRITE_ONLY_IMM)
STARTS: Final = frozenset((FIRST, ONLY, ONLY_IMM))
ENDS: Final = frozenset((LAST, LAST_IMM, ONLY, ONLY_IMM))


def nominal_size(payload: int, imm: bool = False) -> int:
    """Nominal size (section 5.1) of a data packet with TSETH."""
    udp = _HEADERS + payload + (-payload & 3) + (IMMDT_BYTES if imm else 0)
    return udp + NOMINAL_OVERHEAD


class SendMessage:
    """A posted write: sequence numbers first_seq .. last_seq."""

    __slots__ = (
        "first_seq",
        "imm",
        "last_opcode",
        "last_seq",
        "last_size",
        "length",
        "msn",
        "only_opcode",
        "rkey",
        "rqmsn",
        "source",
        "va",
        "wr_id",
    )

    def __init__(
        self,
        wr_id: int,
        source: memoryview,
        va: int,
        rkey: int,
        imm: int | None,
        *,
        msn: int,
        rqmsn: int,
        first_seq: int,
        pmtu: int,
    ) -> None:
        self.wr_id = wr_id
        self.source = source
        self.length = length = len(source)
        self.va = va
        self.rkey = rkey
        self.imm = imm
        self.msn = msn & _MSN_MASK
        self.rqmsn = rqmsn & _MSN_MASK
        self.first_seq = first_seq
        self.last_seq = first_seq + (length + pmtu - 1) // pmtu - 1
        self.last_size = nominal_size((length - 1) % pmtu + 1, imm is not None)
        self.last_opcode = LAST if imm is None else LAST_IMM
        self.only_opcode = ONLY if imm is None else ONLY_IMM

    def opcode(self, seq: int) -> int:
        if seq == self.last_seq:
            return self.only_opcode if seq == self.first_seq else self.last_opcode
        return FIRST if seq == self.first_seq else MIDDLE


Arrival = tuple[int, int, int, int, int, int, int, "int | None"]
"""What the in-order half needs of an accepted packet:
(opcode, msn, rqmsn, payload bytes, va, r_key, dmalen, imm)."""


class Verdict(Enum):
    """What an in-order packet did to its message."""

    OPEN = 0  # more to come
    COMPLETE = 1
    COMPLETE_IMM = 2
    MALFORMED = 3  # sequence or length wrong: AETH 0x61


class Reassembly:
    """The in-order half of a responder: checks the sequence of messages.

    completed: messages so far; imm, length: of the message completed last.
    """

    __slots__ = ("_arrived", "_dmalen", "_open", "_pmtu", "_rkey", "_rqmsn", "_va", "completed",
                 "imm", "imms", "length")  # fmt: skip

    def __init__(self, pmtu: int) -> None:
        self._pmtu = pmtu
        self._open = False
        self._va = 0
        self._rkey = 0
        self._dmalen = 0
        self._arrived = 0
        self._rqmsn = 0
        self.completed = 0
        self.imms = 0
        self.imm = 0
        self.length = 0

    def feed(self, packet: Arrival) -> Verdict:
        opcode, msn, rqmsn, length, va, rkey, dmalen, imm = packet
        if msn != self.completed & _MSN_MASK:
            return Verdict.MALFORMED
        if opcode == MIDDLE:  # the common case
            arrived = self._arrived
            if (
                not self._open
                or length != self._pmtu
                or va != self._va + arrived
                or dmalen != self._dmalen
                or rkey != self._rkey
                or rqmsn != self._rqmsn
            ):
                return Verdict.MALFORMED
            self._arrived = arrived + length
            return Verdict.OPEN
        if (opcode in STARTS) == self._open:
            return Verdict.MALFORMED
        if not self._open:
            self._va, self._rkey, self._dmalen, self._rqmsn = va, rkey, dmalen, rqmsn
            self._arrived = 0
        elif (
            va != self._va + self._arrived
            or dmalen != self._dmalen
            or rkey != self._rkey
            or rqmsn != self._rqmsn
        ):
            return Verdict.MALFORMED
        self._arrived += length
        if opcode == FIRST:
            self._open = True
            return Verdict.OPEN if length == self._pmtu else Verdict.MALFORMED
        self._open = False
        if self._arrived != dmalen or not 1 <= length <= self._pmtu:
            return Verdict.MALFORMED
        with_imm = opcode in (LAST_IMM, ONLY_IMM)
        if rqmsn != (self.imms & _MSN_MASK if with_imm else 0):
            return Verdict.MALFORMED
        self.completed += 1
        self.length = dmalen
        if not with_imm:
            return Verdict.COMPLETE
        self.imms += 1
        self.imm = imm or 0
        return Verdict.COMPLETE_IMM
