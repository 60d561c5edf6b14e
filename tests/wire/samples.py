"""Hypothesis strategies of MRC packets, shared by the wire tests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from hosts.wire.constants import IMM_OPCODES, EvPacking, Opcode
from hosts.wire.frame import FlowTemplate

SRC_MAC, DST_MAC = "02:00:00:00:00:01", "02:00:00:00:00:02"
ADDRESSES = {6: ("fd00:1::1", "fd00:2::2"), 4: ("10.0.0.1", "10.0.1.2")}


def bits(width: int) -> st.SearchStrategy[int]:
    """Any value of that many bits, edges included."""
    return st.integers(0, (1 << width) - 1)


@dataclass
class DataSample:
    """Arguments of FlowTemplate.data and of the template itself."""

    version: int
    packing: EvPacking
    port: int
    args: dict[str, Any]

    def template(self) -> FlowTemplate:
        return template(self.version, self.packing, self.port)

    def build(self) -> bytes:
        return self.template().data(**self.args)


def template(
    version: int = 6, packing: EvPacking = EvPacking.LABEL_HIGH, port: int = 4791
) -> FlowTemplate:
    return FlowTemplate(SRC_MAC, DST_MAC, *ADDRESSES[version], udp_port=port, packing=packing)


def evs(version: int, packing: EvPacking) -> st.SearchStrategy[int]:
    """EVs that this IP version and packing can carry."""
    if version == 4:
        return bits(16) if packing != EvPacking.SPORT_HIGH else bits(16).map(lambda v: v << 16)
    return bits(20) if packing == EvPacking.LABEL20 else bits(32)


@st.composite
def data_samples(draw: st.DrawFn) -> DataSample:
    version = draw(st.sampled_from((6, 6, 4)))
    packing = draw(st.sampled_from((EvPacking.LABEL_HIGH, *EvPacking)))
    opcode = draw(st.sampled_from(sorted(op for op in Opcode if op <= Opcode.WRITE_ONLY_IMM)))
    args = {
        "opcode": int(opcode),
        "dscp": draw(bits(6)),
        "ecn": draw(bits(2)),
        "ev": draw(evs(version, packing)),
        "dqp": draw(bits(24)),
        "psn": draw(bits(24)),
        "a": draw(bits(1)),
        "rtx": draw(bits(1)),
        "rqmsn": draw(bits(16)),
        "msn": draw(bits(16)),
        "tx_timestamp": draw(st.none() | bits(16)),
        "va": draw(bits(64)),
        "r_key": draw(bits(32)),
        "dmalen": draw(bits(32)),
        "payload": draw(st.binary(max_size=70)),
        "imm": draw(bits(32)) if opcode in IMM_OPCODES else None,
        "tsr": draw(bits(1)),
    }
    return DataSample(version, packing, draw(st.sampled_from((4791, 4971))), args)
