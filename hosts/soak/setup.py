"""What a world is made of: drawn at random by the soak, by Hypothesis in the tests."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any

from hosts.core.config import (
    CcConfig,
    EndpointConfig,
    EvConfig,
    PortConfig,
    QpConfig,
    ReceiverConfig,
    RtoConfig,
)
from hosts.core.interop import PROFILES
from hosts.wire.encap import Insert, UsidEncap, UsidTemplate, usid_container

if TYPE_CHECKING:
    from random import Random

RATE = 1_000_000_000
PMTU = 256
HOP_NS = 20_000
"""How long a turn of the network takes; the configured base RTT is three of them."""
EV_SETS = ((2, 0, 2), (8, 4, 2), (64, 32, 16))
"""(active, backup, min_active) per plane pair; more planes get more."""
FIRST_PSNS = (0, 1000, 0xFFFFFF - 5)


@dataclass(frozen=True, slots=True)
class Setup:
    """Everything that is settled before the first step. All plain values: it goes into traces."""

    seed: int = 1
    planes: int = 2
    qps: int = 1
    cc: str = "nscc"
    selector: str = "rotation"
    evs: int = 1  # index into EV_SETS
    psn: int = 0
    interop: tuple[str, str] = ("reference", "reference")
    carrier: str = "v6"  # v4, v6 or srv6
    dynamic_mpr: bool = False
    svc_time: bool = False
    trim_nack: bool = True
    limited: bool = False  # receivers that run short of buffer, tracking and messages

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Setup:
        """Raises ValueError when it is no set-up."""
        known = {f.name for f in fields(cls)}
        unknown = set(data) - known
        if unknown:
            raise ValueError(f"setup: unknown field {min(unknown)!r}")
        given = {**data, "interop": tuple(data.get("interop", ("reference",) * 2))}
        setup = cls(**given)
        if len(setup.interop) != 2 or any(name not in PROFILES for name in setup.interop):
            raise ValueError(f"setup: interop {setup.interop}: two of {', '.join(PROFILES)}")
        if not (1 <= setup.planes <= 8 and 1 <= setup.qps <= 8 and 0 <= setup.evs < len(EV_SETS)):
            raise ValueError("setup: planes 1..8, qps 1..8")
        return setup


def draw(rng: Random) -> Setup:
    """Any set-up."""
    names = list(PROFILES)
    flag = [False, False, True]
    return Setup(
        seed=rng.getrandbits(32),
        planes=rng.choice([1, 2, 2, 3, 4]),
        qps=rng.choice([1, 1, 2, 5]),
        cc=rng.choice(["nscc", "nscc", "fixed"]),
        selector=rng.choice(["rotation", "rotation", "oblivious"]),
        evs=rng.randrange(len(EV_SETS)),
        psn=rng.choice(FIRST_PSNS),
        interop=(rng.choice(names), rng.choice(names)),
        carrier=rng.choice(["v6", "v6", "v4", "srv6"]),
        dynamic_mpr=rng.choice(flag),
        svc_time=rng.choice(flag),
        trim_nack=not rng.choice(flag),
        limited=rng.choice(flag),
    )


class _Outer:
    """SRv6 to any address: what an EncapSource is."""

    def get(self, dst_ip: bytes, /) -> UsidEncap:
        base = usid_container(0xFCBB0000, [0x1000 | dst_ip[-1], 0x2000])
        return UsidEncap(UsidTemplate(base, (Insert(0, 8, 64),)))


def endpoint_config(setup: Setup, side: int) -> EndpointConfig:
    """The endpoint of one side (0, 1)."""
    ports = tuple(
        PortConfig(
            k,
            bytes((2, 0, 0, 0, side, k)),
            bytes(6),
            bytes((10, 0, side, k)) if setup.carrier == "v4" else bytes((0xFD, *[0] * 13, side, k)),
            RATE,
        )
        for k in range(1, setup.planes + 1)
    )
    receiver = ReceiverConfig()
    if setup.limited:
        receiver = ReceiverConfig(
            drain_bps=RATE // 4, buffer_bytes=16 * 1024, ooo_packets=24, open_messages=4
        )
    return EndpointConfig(
        ports,
        pmtu=PMTU,
        interop=PROFILES[setup.interop[side]],
        encap=_Outer() if setup.carrier == "srv6" else None,
        receiver=receiver,
    )


def qp_config(setup: Setup) -> QpConfig:
    """Both sides' QPs. Retries never run out: a QP in ERROR is a mistake then."""
    active, backup, floor = EV_SETS[setup.evs]
    each = setup.planes
    return QpConfig(
        mpr=8,
        dynamic_mpr=setup.dynamic_mpr,
        svc_time=setup.svc_time,
        trim_nack=setup.trim_nack,
        first_psn=setup.psn,
        write_imm_limit=4,
        rto=RtoConfig(t=8),
        ev=EvConfig(
            active=active * each, backup=backup * each, min_active=floor, selector=setup.selector
        ),
        cc=CcConfig(setup.cc, base_rtt_ns=3 * HOP_NS),
    )
