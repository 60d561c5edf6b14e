"""Every header of reference sections 1 and 2 as a tuple with `pack` and `unpack`.

Fields carry the reference's names. Reserved fields exist (`res1`, `res2`, ... in wire order) so
that unpacking and packing gives the same bytes whatever arrived; they default to 0. `unpack`
takes any buffer and an offset, and raises `struct.error` when fewer than the header's bytes
(`constants.*_BYTES`) are left. `pack` raises `struct.error` when a field does not fit its
struct item; narrower bit fields are masked to their width.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

Buffer = bytes | bytearray | memoryview

_BTH: Final = struct.Struct("!BBHII")
_METH: Final = struct.Struct("!HH")
_RETH: Final = struct.Struct("!QII")
_WORD: Final = struct.Struct("!I")
_SETH: Final = struct.Struct("!HHIHHIHhQ")
_CC_STATE: Final = struct.Struct("!HHI")
_NETH: Final = struct.Struct("!HBBIHHIHH")
_PETH: Final = struct.Struct("!HBBHHHHHH")
_ERTH: Final = struct.Struct("!HBBIIHH")
_EETH: Final = struct.Struct("!H26sH6s")


class Bth(NamedTuple):
    """Base transport header, 12 bytes (section 1)."""

    opcode: int
    dqp: int
    psn: int
    a: int = 0
    rtx: int = 0
    ts: int = 0
    pad: int = 0
    p_key: int = 0xFFFF
    m: int = 0
    se: int = 0
    tver: int = 0
    var_res: int = 0
    r: int = 0
    inv_res: int = 0

    def pack(self) -> bytes:
        return _BTH.pack(
            self.opcode,
            (self.m & 1) << 7 | (self.se & 1) << 6 | (self.pad & 3) << 4 | self.tver & 15,
            self.p_key,
            (self.var_res & 0xFF) << 24 | self.dqp & 0xFFFFFF,
            (self.a & 1) << 31
            | (self.r & 1) << 30
            | (self.rtx & 1) << 29
            | (self.ts & 1) << 28
            | (self.inv_res & 15) << 24
            | self.psn & 0xFFFFFF,
        )

    @classmethod
    def unpack(cls, data: Buffer, offset: int = 0) -> Bth:
        opcode, flags, p_key, word1, word2 = _BTH.unpack_from(data, offset)
        return cls(
            opcode,
            word1 & 0xFFFFFF,
            word2 & 0xFFFFFF,
            word2 >> 31,
            word2 >> 29 & 1,
            word2 >> 28 & 1,
            flags >> 4 & 3,
            p_key,
            flags >> 7,
            flags >> 6 & 1,
            flags & 15,
            word1 >> 24,
            word2 >> 30 & 1,
            word2 >> 24 & 15,
        )


class Meth(NamedTuple):
    """Message header of data packets, 4 bytes (section 2.2)."""

    rqmsn: int
    msn: int

    def pack(self) -> bytes:
        return _METH.pack(self.rqmsn, self.msn)

    @classmethod
    def unpack(cls, data: Buffer, offset: int = 0) -> Meth:
        return cls(*_METH.unpack_from(data, offset))


class Tseth(NamedTuple):
    """Time stamp header, 4 bytes (section 2.2). tx_timestamp: 128 ns ticks when tsr is 0."""

    tx_timestamp: int
    tsr: int = 0
    ftype: int = 1
    res: int = 0

    def pack(self) -> bytes:
        return _METH.pack(
            self.tx_timestamp, (self.tsr & 1) << 15 | (self.res & 0x7FF) << 4 | self.ftype & 15
        )

    @classmethod
    def unpack(cls, data: Buffer, offset: int = 0) -> Tseth:
        stamp, tail = _METH.unpack_from(data, offset)
        return cls(stamp, tail >> 15, tail & 15, tail >> 4 & 0x7FF)


class Reth(NamedTuple):
    """RDMA header, 16 bytes (section 2.2). va: of this packet's first byte; dmalen: bytes of
    the whole message."""

    va: int
    r_key: int
    dmalen: int

    def pack(self) -> bytes:
        return _RETH.pack(self.va, self.r_key, self.dmalen)

    @classmethod
    def unpack(cls, data: Buffer, offset: int = 0) -> Reth:
        return cls(*_RETH.unpack_from(data, offset))


class ImmDt(NamedTuple):
    """Immediate data, 4 bytes (section 2.2)."""

    imm: int

    def pack(self) -> bytes:
        return _WORD.pack(self.imm)

    @classmethod
    def unpack(cls, data: Buffer, offset: int = 0) -> ImmDt:
        return cls(*_WORD.unpack_from(data, offset))


class Aeth(NamedTuple):
    """Transport ACK or NAK, 4 bytes (section 2.2). msn: completed messages, 24 bits."""

    syndrome: int
    msn: int

    def pack(self) -> bytes:
        return _WORD.pack(self.syndrome << 24 | self.msn & 0xFFFFFF)

    @classmethod
    def unpack(cls, data: Buffer, offset: int = 0) -> Aeth:
        (word,) = _WORD.unpack_from(data, offset)
        return cls(word >> 24, word & 0xFFFFFF)


class Seth(NamedTuple):
    """Selective acknowledgement, 28 bytes, always followed by CC_STATE (section 2.3).

    ack_psn_offset is signed; when pr is 1 the same 16 bits are the probe id: read `probe_id`,
    and give `ack_psn_offset=probe_id` when building. sack_offset is signed; bit i of
    sack_bitmap (bit 0 least significant) is PSN cack_psn + sack_offset + i.
    """

    m: int
    pr: int
    ack_psn_offset: int
    entropy: int
    cack_psn: int
    sack_offset: int
    sack_bitmap: int
    mpr: int = 0
    spdcid: int = 0
    dpdcid: int = 0
    cc_type: int = 0
    cc_flags: int = 0
    type: int = 0
    nxt: int = 0
    res1: int = 0
    res2: int = 0
    res3: int = 0

    @property
    def probe_id(self) -> int:
        return self.ack_psn_offset & 0xFFFF

    def pack(self) -> bytes:
        return _SETH.pack(
            (self.type & 15) << 12
            | (self.nxt & 31) << 7
            | (self.m & 3) << 5
            | (self.res1 & 7) << 2
            | (self.pr & 1) << 1
            | self.res2 & 1,
            self.ack_psn_offset & 0xFFFF,
            self.entropy,
            self.spdcid,
            self.dpdcid,
            (self.res3 & 0xFF) << 24 | self.cack_psn & 0xFFFFFF,
            (self.cc_type & 15) << 12 | (self.cc_flags & 15) << 8 | self.mpr & 0xFF,
            self.sack_offset,
            self.sack_bitmap,
        )

    @classmethod
    def unpack(cls, data: Buffer, offset: int = 0) -> Seth:
        word, ack, entropy, spdcid, dpdcid, cack, cc, sack_offset, bitmap = _SETH.unpack_from(
            data, offset
        )
        return cls(
            word >> 5 & 3,
            word >> 1 & 1,
            ack - ((ack & 0x8000) << 1),
            entropy,
            cack & 0xFFFFFF,
            sack_offset,
            bitmap,
            cc & 0xFF,
            spdcid,
            dpdcid,
            cc >> 12,
            cc >> 8 & 15,
            word >> 12,
            word >> 7 & 31,
            word >> 2 & 7,
            word & 1,
            cack >> 24,
        )


class CcState(NamedTuple):
    """Congestion state after SETH, 8 bytes (section 2.3). rcvd_bytes: units of 256 bytes."""

    tx_timestamp: int
    ooo_count: int = 0
    restore_cwnd: int = 0
    rcv_cwnd_pen: int = 0
    rcvd_bytes: int = 0
    res: int = 0

    def pack(self) -> bytes:
        return _CC_STATE.pack(
            self.tx_timestamp,
            (self.res & 1) << 15 | self.ooo_count & 0x7FFF,
            (self.restore_cwnd & 1) << 31
            | (self.rcv_cwnd_pen & 0x7F) << 24
            | self.rcvd_bytes & 0xFFFFFF,
        )

    @classmethod
    def unpack(cls, data: Buffer, offset: int = 0) -> CcState:
        stamp, ooo, word = _CC_STATE.unpack_from(data, offset)
        return cls(stamp, ooo & 0x7FFF, word >> 31, word >> 24 & 0x7F, word & 0xFFFFFF, ooo >> 15)


class Neth(NamedTuple):
    """Negative acknowledgement, 20 bytes (section 2.4)."""

    nack_reason: int
    entropy: int
    nack_psn: int
    tx_timestamp: int
    spdcid: int = 0
    dpdcid: int = 0
    vendor_info: int = 0
    cc_type: int = 2
    cc_flags: int = 0
    type: int = 0
    nxt: int = 0
    res1: int = 0
    res2: int = 0
    res3: int = 0

    def pack(self) -> bytes:
        return _NETH.pack(
            (self.type & 15) << 12 | (self.nxt & 31) << 7 | self.res1 & 0x7F,
            self.nack_reason,
            self.vendor_info,
            self.entropy,
            self.spdcid,
            self.dpdcid,
            (self.res2 & 0xFF) << 24 | self.nack_psn & 0xFFFFFF,
            (self.cc_type & 15) << 12 | (self.cc_flags & 15) << 8 | self.res3 & 0xFF,
            self.tx_timestamp,
        )

    @classmethod
    def unpack(cls, data: Buffer, offset: int = 0) -> Neth:
        word, reason, vendor, entropy, spdcid, dpdcid, psn, cc, stamp = _NETH.unpack_from(
            data, offset
        )
        return cls(
            reason,
            entropy,
            psn & 0xFFFFFF,
            stamp,
            spdcid,
            dpdcid,
            vendor,
            cc >> 12,
            cc >> 8 & 15,
            word >> 12,
            word >> 7 & 31,
            word & 0x7F,
            psn >> 24,
            cc & 0xFF,
        )


class Peth(NamedTuple):
    """Reliability probe, 16 bytes (section 2.5). ftype 0 means no time stamp is meant."""

    probe_id: int
    tx_timestamp: int
    tsr: int = 0
    ftype: int = 1
    spdcid: int = 0
    dpdcid: int = 0
    vendor_info: int = 0
    type: int = 0
    nh: int = 0
    res1: int = 0
    res2: int = 0
    res3: int = 0
    res4: int = 0

    def pack(self) -> bytes:
        return _PETH.pack(
            (self.type & 15) << 12 | (self.nh & 31) << 7 | self.res1 & 0x7F,
            self.res2,
            self.vendor_info,
            self.probe_id,
            self.res3,
            self.spdcid,
            self.dpdcid,
            self.tx_timestamp,
            (self.tsr & 1) << 15 | (self.res4 & 0x7FF) << 4 | self.ftype & 15,
        )

    @classmethod
    def unpack(cls, data: Buffer, offset: int = 0) -> Peth:
        word, res2, vendor, probe_id, res3, spdcid, dpdcid, stamp, tail = _PETH.unpack_from(
            data, offset
        )
        return cls(
            probe_id,
            stamp,
            tail >> 15,
            tail & 15,
            spdcid,
            dpdcid,
            vendor,
            word >> 12,
            word >> 7 & 31,
            word & 0x7F,
            res2,
            res3,
            tail >> 4 & 0x7FF,
        )


class Erth(NamedTuple):
    """Endpoint request, 16 bytes (section 2.5). port_status_mask: bit k-1 = port k usable."""

    op: int
    port_status_mask: int
    tx_timestamp: int
    tsr: int = 0
    ftype: int = 1
    vendor_info: int = 0
    type: int = 0
    nxt: int = 0
    res1: int = 0
    res2: int = 0
    res3: int = 0
    res4: int = 0

    def pack(self) -> bytes:
        return _ERTH.pack(
            (self.type & 15) << 12 | (self.nxt & 31) << 7 | (self.res1 & 31) << 2 | self.op & 3,
            self.res2,
            self.vendor_info,
            self.port_status_mask,
            self.res3,
            self.tx_timestamp,
            (self.tsr & 1) << 15 | (self.res4 & 0x7FF) << 4 | self.ftype & 15,
        )

    @classmethod
    def unpack(cls, data: Buffer, offset: int = 0) -> Erth:
        word, res2, vendor, mask, res3, stamp, tail = _ERTH.unpack_from(data, offset)
        return cls(
            word & 3,
            mask,
            stamp,
            tail >> 15,
            tail & 15,
            vendor,
            word >> 12,
            word >> 7 & 31,
            word >> 2 & 31,
            res2,
            res3,
            tail >> 4 & 0x7FF,
        )


class Eeth(NamedTuple):
    """Endpoint response, 36 bytes (section 2.6). `op` is advisory: responses are matched by the
    id in BTH.psn. Sent in bits 3:2 of byte 1; `op_as_5_4` reads the dissenting place."""

    op: int
    tx_timestamp: int
    type: int = 0
    nxt: int = 0
    res1: int = 0
    res2: int = 0  # the 210 reserved bits before the time stamp
    res3: int = 0  # the 48 after it

    @property
    def op_as_5_4(self) -> int:
        return self.res1 & 3

    def pack(self) -> bytes:
        return _EETH.pack(
            (self.type & 15) << 12
            | (self.nxt & 31) << 7
            | (self.res1 & 7) << 4
            | (self.op & 3) << 2
            | self.res2 >> 208 & 3,
            (self.res2 & (1 << 208) - 1).to_bytes(26, "big"),
            self.tx_timestamp,
            self.res3.to_bytes(6, "big"),
        )

    @classmethod
    def unpack(cls, data: Buffer, offset: int = 0) -> Eeth:
        word, res2, stamp, res3 = _EETH.unpack_from(data, offset)
        return cls(
            word >> 2 & 3,
            stamp,
            word >> 12,
            word >> 7 & 31,
            word >> 4 & 7,
            (word & 3) << 208 | int.from_bytes(res2, "big"),
            int.from_bytes(res3, "big"),
        )


Header = Bth | Meth | Tseth | Reth | ImmDt | Aeth | Seth | CcState | Neth | Peth | Erth | Eeth
