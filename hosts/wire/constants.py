"""Numbers of the wire under the reference's names (reference sections 1, 2, 3.1, 7, 9)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

# Ports, section 1. 4971 is what the specification text prints; parsers accept both.
UDP_PORT = 4791
UDP_PORT_AS_PRINTED = 4971
UDP_PORTS = frozenset((UDP_PORT, UDP_PORT_AS_PRINTED))

ETHERTYPE_IPV4 = 0x0800
ETHERTYPE_IPV6 = 0x86DD
ETHERTYPE_VLAN = 0x8100
ETHERTYPES_VLAN = frozenset((ETHERTYPE_VLAN, 0x88A8))  # 802.1Q, and the outer tag of 802.1ad
NEXT_HEADER_UDP = 17
NEXT_HEADER_IPV6 = 41
NEXT_HEADER_ROUTING = 43
ROUTING_TYPE_SRH = 4

P_KEY = 0xFFFF  # section 9 #21
QPN_ENDPOINT = 0x000002  # dqp of endpoint operations
QPN_FIRST = 0x000010  # our first ordinary QPN; 0, 1, 2 are reserved
QPN_NOBODY = 0x000003  # self-test packets: valid on the wire, no such QP anywhere

PSN_BITS = 24
PSN_MASK = (1 << PSN_BITS) - 1

ETHERNET_BYTES = 14
IPV6_BYTES = 40
IPV4_BYTES = 20
UDP_BYTES = 8
BTH_BYTES = 12
METH_BYTES = 4
TSETH_BYTES = 4
RETH_BYTES = 16
IMMDT_BYTES = 4
AETH_BYTES = 4
SETH_BYTES = 28
CC_STATE_BYTES = 8
NETH_BYTES = 20
PETH_BYTES = 16
ERTH_BYTES = 16
EETH_BYTES = 36
ICRC_BYTES = 4
NOMINAL_OVERHEAD = 40  # nominal_pktsize = UDP length + 40 (section 5.1)

PDCID_MASK = 0xFFFF  # section 9 #19: low QPN bits in spdcid and dpdcid; ignored on receipt
PORT_MASK_FIRST_PORT = 1  # #28: bit 0 of a port mask is port 1

TICK_NS = 128  # TSETH.tsr = 0
TSR_SENT = 0  # #25: 1 is local to who sends it, and echoed as it came
TIMESTAMP_BITS = 16
TSETH_FTYPE = 1
NETH_CC_TYPE = 2  # section 9 #20
RCVD_BYTES_UNIT = 256  # CC_STATE.rcvd_bytes
MPR_UNIT = 128  # SETH.mpr, PSNs

OPCODE_MRC = 0b110  # top three bits of BTH.opcode


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


DATA_OPCODES = frozenset(range(Opcode.WRITE_FIRST, Opcode.WRITE_ONLY_IMM + 1))
IMM_OPCODES = frozenset((Opcode.WRITE_LAST_IMM, Opcode.WRITE_ONLY_IMM))


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
