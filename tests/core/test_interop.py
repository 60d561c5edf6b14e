"""Interop profiles: every pair interworks, or is refused with the reason."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from random import Random

import pytest

import hosts.core.constants as core_constants
import hosts.wire.constants as wire_constants
from hosts.core.config import ConfigError, EndpointConfig, EvConfig, PortConfig
from hosts.core.errors import EndpointError
from hosts.core.ev.format import EvKind
from hosts.core.interop import (
    CHOICES,
    PROFILES,
    REFERENCE,
    InteropError,
    InteropProfile,
    TrimLengths,
    agree,
    profile_named,
)
from hosts.wire.constants import Dscp, NackReason, Opcode
from tests.core.duo import Duo, endpoint, qp_config

PAIRS = list(product(PROFILES, repeat=2))
DATA = Random(9).randbytes(9_000)


def test_section_9_is_complete():
    assert sorted(CHOICES) == list(range(1, 34))
    fields = set(InteropProfile.__dataclass_fields__)
    for number, choice in CHOICES.items():
        assert set(choice.profile) <= fields, number
        for name in choice.constants:
            assert hasattr(core_constants, name) or hasattr(wire_constants, name), (number, name)
        assert choice.profile or choice.constants or choice.rule, number


def _trim(frame: bytes, dscp: Dscp, mend: bool) -> bytes:
    """What a switch that knows the sender's code points does to a trimmable data packet."""
    cut = bytearray(frame[: 54 + 12 + 8])
    tc = dscp.trimmed << 2
    cut[14], cut[15] = 0x60 | tc >> 4, (tc & 15) << 4 | cut[15] & 15
    if mend:
        cut[18:20] = cut[58:60] = (len(cut) - 54).to_bytes(2, "big")
    return bytes(cut)


@pytest.mark.parametrize(("ours", "theirs"), PAIRS, ids=lambda name: name)
def test_every_pair_interworks(ours, theirs):
    """With a trim and a loss on the way, both directions."""
    a = endpoint(0, interop=PROFILES[ours])
    b = endpoint(1, interop=PROFILES[theirs])
    duo = Duo(a, b)
    back = a.register_memory(1 << 14)
    touched: set[tuple[int, int]] = set()

    def network(target, port, frame):
        opcode, psn = frame[62], int.from_bytes(frame[71:74], "big")
        if not 0xC6 <= opcode <= 0xCB or (target, psn) in touched or psn % 5 > 1:
            return [frame]
        touched.add((target, psn))
        dscp = PROFILES[(ours, theirs)[1 - target]].dscp
        if psn % 5 == 0:
            return []
        code = frame[14] << 4 & 0xF0 | frame[15] >> 4
        return [_trim(frame, dscp, bool(psn & 1))] if code >> 2 == dscp.trimmable else [frame]

    duo.filter = network
    duo.write(DATA)
    duo.ends[1].post_write(duo.qpns[1], 0, DATA, back.va, back.rkey)
    duo.run_until_complete()
    duo.run(duo.now + 20_000_000)
    assert duo.good()
    assert bytes(duo.region.memory[: len(DATA)]) == DATA
    assert bytes(back.memory[: len(DATA)]) == DATA
    reasons = {p.neth.nack_reason for side in (0, 1) for p in duo.packets(side, Opcode.NACK)}
    assert NackReason.TRIMMED in reasons
    dports = {p.dport for p in duo.packets(1, Opcode.WRITE_MIDDLE)}
    assert dports == {PROFILES[ours].udp_port}


@pytest.mark.parametrize(("ours", "theirs"), PAIRS, ids=lambda name: name)
def test_in_a_structured_fabric_the_packing_must_be_the_same(ours, theirs):
    mine, other = PROFILES[ours], PROFILES[theirs]
    if mine.ev_packing == other.ev_packing:
        assert agree(mine, other, structured=True).peer_packing == other.ev_packing
    else:
        with pytest.raises(InteropError, match=r"EV packing: ours is .* switches of a structured"):
            agree(mine, other, structured=True)


@pytest.mark.parametrize(
    ("theirs", "reason"),
    [
        (replace(REFERENCE, p_key=0), "P_Key: ours is 0xffff, the peer's 0x0000"),
        (
            replace(REFERENCE, dscp=Dscp(trimmable=12, trimmed=20)),
            "DSCP 12: the peer sends trimmable with it, we read trimmed",
        ),
        (
            replace(REFERENCE, dscp=Dscp(trimmable_retx=10, trimmed_lasthop=8)),
            "DSCP 8: we send trimmable_retx with it, the peer reads trimmed_lasthop",
        ),
    ],
)
def test_what_does_not_fit_is_refused_with_the_reason(theirs, reason):
    with pytest.raises(EndpointError, match=reason):
        Duo(endpoint(0), endpoint(1, interop=theirs))
    a = endpoint(0)
    info = a.create_qp(qp_config())
    peer = endpoint(1, interop=theirs).create_qp(qp_config())
    with pytest.raises(EndpointError):
        a.connect_qp(info.qpn, peer, 0)
    a.connect_qp(info.qpn, replace(peer, interop=None), 0)  # nothing was half done


def test_refusals_that_are_not_of_a_profile():
    structured = qp_config(ev=EvConfig(kind=EvKind.STRUCTURED))
    with pytest.raises(EndpointError, match="EV packing"):
        Duo(endpoint(0), endpoint(1, interop=PROFILES["emulator-structured"]), structured)
    with pytest.raises(EndpointError, match="one end has IPv4, the other IPv6"):
        Duo(endpoint(0), endpoint(1, ipv4=True))


def test_what_is_given_up_is_noted():
    odd = replace(REFERENCE, udp_port=9999)
    agreement = agree(odd, REFERENCE)
    assert agreement.dport == 4791
    assert "does not listen" in agreement.notes[0]
    edge = agree(PROFILES["simulator"], PROFILES["as-printed"])
    assert not edge.send_inclusive
    assert any("window edge" in note for note in edge.notes)
    assert agree(REFERENCE, PROFILES["jumbo"]).peer_threshold == 32 * 1024
    assert agree(REFERENCE, PROFILES["simulator"]).trims == {
        12: False,
        16: True,
        9: False,
        18: True,
    }


def test_bad_profiles():
    with pytest.raises(InteropError, match="unknown; known: reference"):
        profile_named("refference")
    with pytest.raises(InteropError, match="both trimmable and trimmed"):
        InteropProfile("x", dscp=Dscp(trimmable=12))
    with pytest.raises(InteropError, match="both trimmed and trimmed_lasthop"):
        InteropProfile("x", dscp=Dscp(trimmed=16))
    with pytest.raises(ConfigError, match="udp_port 0"):
        EndpointConfig((PortConfig(1, bytes(6), bytes(6), bytes(16), 1),), udp_port=0)


def test_single_answers_go_before_the_profile():
    port = PortConfig(1, bytes(6), bytes(6), bytes(16), 1)
    config = EndpointConfig((port,), interop=PROFILES["jumbo"], udp_port=4971)
    assert (config.interop.udp_port, config.interop.sack_min_add) == (4971, 2048)
    assert config.sack_threshold == 32 * 1024
    other = config.with_interop(REFERENCE)
    assert (other.udp_port, other.sack_threshold) == (4791, 16 * 1024)


@pytest.mark.parametrize(("profile", "count"), [("reference", 8 * 128 - 1), ("simulator", 8 * 128)])
def test_window_edge(profile, count):
    """#7: the reference stops one short of cack + MPR."""
    a = endpoint(0, interop=PROFILES[profile])
    duo = Duo(a, endpoint(1), qp_config(mpr=8, cc=replace_window(1 << 30)))
    duo.region = duo.ends[1].register_memory(1 << 20)
    duo.filter = lambda target, port, frame: []
    duo.write(bytes(600_000))
    duo.run(200_000_000)
    assert duo.stats(0).outstanding_packets == count


def replace_window(size: int):
    return replace(qp_config().cc, params={"window_bytes": size})


@pytest.mark.parametrize(("profile", "nacks"), [("reference", 1), ("as-printed", 0)])
def test_out_of_window(profile, nacks):
    """#8: NACK, or silence."""
    b = endpoint(1, interop=PROFILES[profile])
    duo = Duo(endpoint(0), b, qp_config(mpr=8, first_psn=100))
    peer = b.query_qp(duo.qpns[1]).peer
    flow = b.query_qp(duo.qpns[1]).parts.link.flows[1]
    frame = flow.data(0xCA, 4, 2, 0xC000, duo.qpns[1], 100 + 8 * 128 + 5, 0, 0, 0, 0, 1,
                      duo.region.va, duo.region.rkey, 8, bytes(8))  # fmt: skip
    frame = _turn_around(frame, peer.ips[1], b)
    b.receive(1, frame, 1)
    duo.pump()
    assert len(duo.packets(0, Opcode.NACK)) == nacks


def _turn_around(frame: bytes, src: bytes, end) -> bytes:
    """The same packet as if the peer had sent it; with a fresh iCRC."""
    from hosts.wire.icrc import icrc_ip

    dst = next(p.ip for p in end.config.ports if p.port == 1)
    swapped = frame[:22] + src + dst + frame[54:-4]
    return swapped + icrc_ip(swapped, 14, 54, len(swapped)).to_bytes(4, "little")


def test_trim_lengths():
    """#23: a responder that wants rewritten lengths drops the others."""
    strict = replace(REFERENCE, trim_lengths=TrimLengths.REWRITTEN)
    for profile, mend, taken in ((strict, False, 0), (strict, True, 1), (REFERENCE, False, 1)):
        duo = Duo(endpoint(0), endpoint(1, interop=profile))
        duo.filter = lambda target, port, frame: [] if target == 0 else [frame]
        duo.write(bytes(200))
        duo.pump()
        frame = next(f for t, p, f in duo.sent if t == 1)
        port = next(p for t, p, f in duo.sent if t == 1)
        b = duo.ends[1]
        b.receive(port, _trim(frame, Dscp(), mend), 5)
        assert duo.stats(1).trimmed_packets == taken
        assert b.stats().drops.get("trim_length", 0) == 1 - taken
