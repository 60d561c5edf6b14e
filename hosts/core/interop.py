"""Interop profiles: the open points of section 9 that change bytes or timing, in named groups.

MRC is a protocol of many vendors, and the reference leaves points open on which vendors can
differ. A profile is one consistent set of answers. Two endpoints tell each other theirs when they
connect (`PeerInfo.interop`), and `agree` works out how they talk, or refuses with the reason.

`CHOICES` lists all 33 points of section 9, also those that are constants or plain behaviour.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import Final, NamedTuple

from hosts.core import constants as c
from hosts.wire.constants import (
    NETH_CC_TYPE,
    P_KEY,
    UDP_PORT,
    UDP_PORT_AS_PRINTED,
    UDP_PORTS,
    Dscp,
    EvPacking,
)


class EethOpBits(Enum):
    """Where a responder writes EETH.op (#4). Readers match the id and take op as advice."""

    BITS_3_2 = "3:2"
    BITS_5_4 = "5:4"


class TrimLengths(Enum):
    """What a responder makes of IP and UDP lengths of a trimmed packet (#23)."""

    IGNORE = "ignore"  # the captured size counts
    REWRITTEN = "rewritten"  # a switch must have written the new lengths; others are dropped


class InteropError(ValueError):
    """Two profiles that cannot work together; str() says on which point."""


@dataclass(frozen=True, slots=True)
class InteropProfile:
    """One set of answers; numbers are those of section 9.

    udp_port             #1: what we send to and listen on; 4791 and 4971 are always accepted
    ev_packing           #2: how we write an EV into flow label and source port
    eeth_op_bits         #4
    dscp                 #18: all six code points
    send_inclusive       #7: a requestor sends up to cack + MPR inclusive
    accept_inclusive     #7: a responder accepts cack + MPR
    oor_nack             #8: NACK PSN_OOR_WINDOW for what is outside; False: silent drop
    sack_threshold       #14: bytes received until a SACK is due
    sack_min_add         #14: least bytes a packet counts for
    trim_lengths         #23
    neth_cc_type         #20: sent; ignored on receipt
    p_key                #21: sent and demanded
    probe_id_in_psn      2.5: BTH.psn of a reliability probe repeats the probe id
    """

    name: str
    udp_port: int = UDP_PORT
    ev_packing: EvPacking = EvPacking.LABEL_HIGH
    eeth_op_bits: EethOpBits = EethOpBits.BITS_3_2
    dscp: Dscp = Dscp()  # noqa: RUF009  (frozen)
    send_inclusive: bool = False
    accept_inclusive: bool = True
    oor_nack: bool = True
    sack_threshold: int = c.SACK_THRESHOLD_BYTES
    sack_min_add: int = c.SACK_MIN_ADD_BYTES
    trim_lengths: TrimLengths = TrimLengths.IGNORE
    neth_cc_type: int = NETH_CC_TYPE
    p_key: int = P_KEY
    probe_id_in_psn: bool = False

    def __post_init__(self) -> None:
        if not 1 <= self.udp_port <= 0xFFFF:
            raise InteropError(f"udp_port {self.udp_port}: must be 1..65535")
        if self.sack_threshold < 1 or self.sack_min_add < 1:
            raise InteropError("sack_threshold and sack_min_add: must be positive")
        if not 0 <= self.p_key <= 0xFFFF:
            raise InteropError(f"p_key {self.p_key:#x}: must fit 16 bits")
        for field, code in (*sent_codes(self.dscp), *trim_codes(self.dscp)):
            if not 0 <= code <= 63:
                raise InteropError(f"dscp.{field} {code}: must be 0..63")
        clash = _clash(self.dscp, self.dscp)
        if clash is not None:
            raise InteropError(
                f"dscp {clash[2]}: both {clash[0]} and {clash[1]}; trims could not be told apart"
            )
        if self.dscp.trimmed == self.dscp.trimmed_lasthop:
            raise InteropError(f"dscp {self.dscp.trimmed}: both trimmed and trimmed_lasthop")


def sent_codes(dscp: Dscp) -> tuple[tuple[str, int], ...]:
    """What endpoints send, (name, code)."""
    return (
        ("no_trim", dscp.no_trim),
        ("trimmable", dscp.trimmable),
        ("trimmable_retx", dscp.trimmable_retx),
        ("control", dscp.control),
    )


def trim_codes(dscp: Dscp) -> tuple[tuple[str, int], ...]:
    """What switches write on trimmed packets, (name, code)."""
    return ("trimmed", dscp.trimmed), ("trimmed_lasthop", dscp.trimmed_lasthop)


def _clash(sent: Dscp, trims: Dscp) -> tuple[str, str, int] | None:
    """(name sent, name read, code) of a code one sends whole packets with and the other reads as
    trimmed."""
    for sent_name, code in sent_codes(sent):
        for trim_name, trim_code in trim_codes(trims):
            if code == trim_code:
                return sent_name, trim_name, code
    return None


REFERENCE: Final = InteropProfile("reference")

PROFILES: Mapping[str, InteropProfile] = MappingProxyType(
    {
        p.name: p
        for p in (
            REFERENCE,
            # The text where implementers quote it: 7.5.5.2, 6.3.1.
            InteropProfile(
                "as-printed",
                udp_port=UDP_PORT_AS_PRINTED,
                accept_inclusive=False,
                oor_nack=False,
            ),
            # The end-host emulator in its two modes (I1).
            InteropProfile(
                "emulator-ecmp",
                udp_port=UDP_PORT_AS_PRINTED,
                ev_packing=EvPacking.LABEL20,
                eeth_op_bits=EethOpBits.BITS_5_4,
                sack_threshold=4096,
            ),
            InteropProfile(
                "emulator-structured",
                udp_port=UDP_PORT_AS_PRINTED,
                ev_packing=EvPacking.SPORT_HIGH,
                eeth_op_bits=EethOpBits.BITS_5_4,
                sack_threshold=4096,
            ),
            # The simulator model (I3).
            InteropProfile(
                "simulator",
                udp_port=UDP_PORT_AS_PRINTED,
                dscp=Dscp(trimmable=8, trimmable_retx=10, trimmed=9, trimmed_lasthop=18),
                send_inclusive=True,
                probe_id_in_psn=True,
            ),
            # The traffic generator's templates (I5), and a switch that repairs what it cuts.
            InteropProfile(
                "templates",
                dscp=Dscp(trimmed=16, trimmed_lasthop=18),
                trim_lengths=TrimLengths.REWRITTEN,
                neth_cc_type=0,
            ),
            # Ultra Ethernet's upper bounds, for jumbo frames.
            InteropProfile("jumbo", sack_threshold=32 * 1024, sack_min_add=2048),
        )
    }
)


def profile_named(name: str) -> InteropProfile:
    """A profile by name. Raises InteropError naming the known ones."""
    if name not in PROFILES:
        raise InteropError(f"interop {name!r}: unknown; known: {', '.join(PROFILES)}")
    return PROFILES[name]


@dataclass(frozen=True, slots=True)
class Agreement:
    """How one end talks to the other.

    dport           UDP port to send to
    peer_packing    how the peer writes its EVs
    trims           DSCPs of trimmed packets that arrive -> whether it was on the last hop
    send_inclusive  whether PSN cack + MPR may be sent
    peer_threshold  bytes the peer receives until it owes a SACK
    notes           what was given up to get along, one line each
    """

    dport: int
    peer_packing: EvPacking
    trims: Mapping[int, bool]
    send_inclusive: bool
    peer_threshold: int
    notes: tuple[str, ...] = ()


def agree(mine: InteropProfile, theirs: InteropProfile, structured: bool = False) -> Agreement:
    """Work out how we talk to a peer with that profile. `structured`: switches read fields of the
    EV. Raises InteropError with the reason when we cannot."""
    if mine.p_key != theirs.p_key:
        raise InteropError(
            f"P_Key: ours is {mine.p_key:#06x}, the peer's {theirs.p_key:#06x}; each would drop "
            "every packet of the other"
        )
    for sender, reader, who, other in (
        (mine, theirs, "we send", "the peer reads"),
        (theirs, mine, "the peer sends", "we read"),
    ):
        clash = _clash(sender.dscp, reader.dscp)
        if clash is not None:
            raise InteropError(f"DSCP {clash[2]}: {who} {clash[0]} with it, {other} {clash[1]}")
    if structured and mine.ev_packing != theirs.ev_packing:
        raise InteropError(
            f"EV packing: ours is {mine.ev_packing.name}, the peer's {theirs.ev_packing.name}; "
            "switches of a structured fabric read the fields in one place only"
        )
    notes = []
    dport = mine.udp_port
    if dport not in UDP_PORTS | {theirs.udp_port}:
        dport = theirs.udp_port
        notes.append(f"UDP port {dport}: the peer does not listen on ours ({mine.udp_port})")
    send_inclusive = mine.send_inclusive
    if send_inclusive and not theirs.accept_inclusive:
        send_inclusive = False
        notes.append("window edge: the peer does not accept cack + MPR, so we stop one short")
    trims = {code: name == "trimmed_lasthop" for name, code in trim_codes(theirs.dscp)}
    trims.update({code: name == "trimmed_lasthop" for name, code in trim_codes(mine.dscp)})
    if trim_codes(mine.dscp) != trim_codes(theirs.dscp):
        notes.append("DSCP: trims are taken under both sides' code points")
    if mine.ev_packing != theirs.ev_packing:
        notes.append(f"EV packing: the peer's EVs are read as {theirs.ev_packing.name}")
    return Agreement(
        dport,
        theirs.ev_packing,
        MappingProxyType(trims),
        send_inclusive,
        theirs.sack_threshold,
        tuple(notes),
    )


class Choice(NamedTuple):
    """One point of section 9. `profile`: fields of InteropProfile; `constants`: names in
    `hosts.core.constants` or `hosts.wire.constants`; `rule`: how the code behaves, where neither
    fits."""

    what: str
    profile: tuple[str, ...] = ()
    constants: tuple[str, ...] = ()
    rule: str = ""


CHOICES: Mapping[int, Choice] = MappingProxyType(
    {
        1: Choice("UDP port", ("udp_port",), ("UDP_PORTS",)),
        2: Choice("EV packing order", ("ev_packing",)),
        3: Choice("BTH m/se order", rule="both sent 0"),
        4: Choice("EETH op bits", ("eeth_op_bits",)),
        5: Choice("bitmap bit order", rule="bit 0 is the least significant"),
        6: Choice("clear-bit meaning", rule="missing when sent, below the highest reported"),
        7: Choice("window top", ("send_inclusive", "accept_inclusive")),
        8: Choice("out of window", ("oor_nack",)),
        9: Choice("WriteIMM limit", constants=("WRITE_IMM_LIMIT_SYNDROME",)),
        10: Choice("SKIP duration", rule="until the rotation reaches it; no timer"),
        11: Choice("SKIP_ONCE on a recovery probe", rule="to SKIP"),
        12: Choice(
            "recovery probes",
            constants=("EV_RECOVERY_SUCCESSES", "EV_RECOVERY_CAP_NS"),
            rule="spaced by the RTO, doubling",
        ),
        13: Choice("ALWAYS_SKIP", rule="never sent; honoured on receipt"),
        14: Choice("SACK threshold", ("sack_threshold", "sack_min_add")),
        15: Choice(
            "loss inference",
            constants=("LOSS_GUARD_MIN_PACKETS", "LOSS_GUARD_BDP", "LOSS_AGE_RTTS"),
            rule="same-EV order, else the guard, else age",
        ),
        16: Choice("RTO", constants=("RTO_T_DEFAULT", "RTO_LINEAR_DEFAULT", "RTO_EXP_DEFAULT")),
        17: Choice(
            "retransmission timer, retries",
            constants=("TRIM_COUNTS_AS_RETRY", "PROBE_WITH_RTO"),
            rule="base x 2^max(0, retries - linear); counter 0 when cack advances",
        ),
        18: Choice("DSCP numbers", ("dscp",)),
        19: Choice("spdcid, dpdcid", constants=("PDCID_MASK",)),
        20: Choice("NETH cc_type", ("neth_cc_type",)),
        21: Choice("P_Key", ("p_key",)),
        22: Choice("iCRC under SRv6", rule="the inner packet only"),
        23: Choice("lengths of trimmed packets", ("trim_lengths",)),
        24: Choice("service time", constants=("SVC_TIME_DEFAULT",), rule="added to the stamp"),
        25: Choice("tsr", constants=("TSR_SENT",), rule="echoed as it came"),
        26: Choice("zero-length write", constants=("MESSAGE_BYTES_MIN",)),
        27: Choice("TSETH", rule="always sent; not demanded"),
        28: Choice("port-mask order", constants=("PORT_MASK_FIRST_PORT",)),
        29: Choice("transport ACKs", rule="one for all that completed since the last pass"),
        30: Choice("send gate", constants=("SEND_GATE_NEEDS_MTU",)),
        31: Choice("outer flow label", rule="the inner one"),
        32: Choice("balance with a masked port", rule="evenly over the rest"),
        33: Choice("first MSN", constants=("FIRST_MSN",)),
    }
)
"""The 33 points of section 9: what we do, and where that is written."""
