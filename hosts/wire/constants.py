"""Numbers of the wire under the reference's names (reference sections 1, 2, 3.1, 7, 9)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Final

# Ports, section 1. 4971 is what the specification text prints; parsers accept both.
UDP_PORT: Final = 4791
UDP_PORT_AS_PRINTED: Final = 4971
UDP_PORTS: Final = frozenset((UDP_PORT, UDP_PORT_AS_PRINTED))

ETHERTYPE_IPV4: Final = 0x0800
ETHERTYPE_IPV6: Final = 0x86DD
ETHERTYPE_VLAN: Final = 0x8100
ETHERTYPES_VLAN: Final = frozenset((ETHERTYPE_VLAN, 0x88A8))  # 802.1Q, and the outer tag of 802.1ad
NEXT_HEADER_UDP: Final = 17
NEXT_HEADER_IPV6: Final = 41
NEXT_HEADER_ROUTING: Final = 43
ROUTING_TYPE_SRH: Final = 4

P_KEY: Final = 0xFFFF  # section 9 #21
QPN_ENDPOINT: Final = 0x000002  # dqp of endpoint operations
QPN_FIRST: Final = 0x000010  # our first ordinary QPN; 0, 1, 2 are reserved
QPN_NOBODY: Final = 0x000003  # self-test packets: valid on the wire, no such QP anywhere

PSN_BITS: Final = 24
PSN_MASK: Final = (1 << PSN_BITS) - 1

ETHERNET_BYTES: Final = 14
IPV6_BYTES: Final = 40
IPV4_BYTES: Final = 20
UDP_BYTES: Final = 8
BTH_BYTES: Final = 12
METH_BYTES: Final = 4
TSETH_BYTES: Final = 4
RETH_BYTES: Final = 16
IMMDT_BYTES: Final = 4
AETH_BYTES: Final = 4
SETH_BYTES: Final = 28
CC_STATE_BYTES: Final = 8
NETH_BYTES: Final = 20
PETH_BYTES: Final = 16
ERTH_BYTES: Final = 16
EETH_BYTES: Final = 36
ICRC_BYTES: Final = 4
NOMINAL_OVERHEAD: Final = 40  # nominal_pktsize = UDP length + 40 (section 5.1)

PDCID_MASK: Final = 0xFFFF  # section 9 #19: low QPN bits in spdcid and dpdcid; ignored on receipt
PORT_MASK_FIRST_PORT: Final = 1  # #28: bit 0 of a port mask is port 1

TICK_NS: Final = 128  # TSETH.tsr = 0
TSR_SENT: Final = 0  # #25: 1 is local to who sends it, and echoed as it came
TIMESTAMP_BITS: Final = 16
TSETH_FTYPE: Final = 1
NETH_CC_TYPE: Final = 2  # section 9 #20
RCVD_BYTES_UNIT: Final = 256  # CC_STATE.rcvd_bytes
MPR_UNIT: Final = 128  # SETH.mpr, PSNs

OPCODE_MRC: Final = 0b110  # top three bits of BTH.opcode


class Opcode(IntEnum):
    """BTH.opcode (section 2.1)."""

    WRITE_FIRST = 0xC6
    WRITE_MIDDLE = 0xC7
    WRITE_LAST = 0xC8
    WRITE_LAST_IMM = 0xC9
    WRITE_ONLY = 0xCA
    WRITE_ONLY_IMM = 0xCB
    ACK = 0xD1
    ENDPOINT_REQUEST = 0xD8
    ENDPOINT_RESPONSE = 0xD9
    SACK = 0xDC
    NACK = 0xDD
    PROBE = 0xDE


DATA_OPCODES: Final = frozenset(range(Opcode.WRITE_FIRST, Opcode.WRITE_ONLY_IMM + 1))
IMM_OPCODES: Final = frozenset((Opcode.WRITE_LAST_IMM, Opcode.WRITE_ONLY_IMM))


class NackReason(IntEnum):
    """NETH.nack_reason (section 2.4)."""

    TRIMMED = 0x01
    TRIMMED_LASTHOP = 0x02
    NO_BITMAP = 0x06
    NO_PKT_BUFFER = 0x07
    NO_RESOURCE = 0x0A
    PSN_OOR_WINDOW = 0x0B
    UNEXP_EVENT = 0x19


class Syndrome(IntEnum):
    """AETH.syndrome (section 2.2)."""

    ACK = 0x1F
    NAK_PSN_SEQUENCE = 0x60
    NAK_INVALID_REQUEST = 0x61
    NAK_REMOTE_ACCESS = 0x62
    NAK_REMOTE_OPERATION = 0x63


class PathFeedback(IntEnum):
    """SETH.m (section 2.3); 3 is reserved and read as NONE."""

    NONE = 0
    SKIP_ONCE = 1
    ALWAYS_SKIP = 2


class EndpointOp(IntEnum):
    """ERTH.op and EETH.op (section 2.5)."""

    PORT_STATUS_UPDATE = 0
    EV_PROBE = 1


class Ecn(IntEnum):
    """Low two bits of the traffic class."""

    NOT_ECT = 0
    ECT1 = 1
    ECT0 = 2
    CE = 3


@dataclass(frozen=True)
class Dscp:
    """The six code points of section 7; no source fixes the numbers (section 9 #18)."""

    no_trim: int = 0
    trimmable: int = 4
    trimmable_retx: int = 8
    trimmed: int = 12
    trimmed_lasthop: int = 16
    control: int = 46


class EvPacking(IntEnum):
    """How a 32-bit EV lies in flow label and UDP source port (section 3.1, section 9 #2)."""

    LABEL_HIGH = 0  # label[15:0] = EV[31:16], sport = EV[15:0]: the default
    SPORT_HIGH = 1  # sport = EV[31:16], label[15:0] = EV[15:0]
    LABEL20 = 2  # label[19:0] = EV[19:0], sport = EV[15:0]: EVs below 2**20 only
