"""What an endpoint reports. `now` of every event is the time given to the call that caused it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


class EvState(IntEnum):
    """State of an entropy value (section 3.4). SKIP is internal."""

    GOOD = 0
    SKIP = 1
    ASSUMED_BAD = 2
    DENIED = 3


class QpState(IntEnum):
    """Section 4.1."""

    RESET = 0
    INIT = 1
    RTR = 2
    RTS = 3
    ERROR = 4


class Status(IntEnum):
    """Status of a completion."""

    SUCCESS = 0
    REMOTE_ACCESS_ERROR = 1  # AETH 0x62
    REMOTE_INVALID_REQUEST = 2  # AETH 0x61
    REMOTE_OPERATION_ERROR = 3  # AETH 0x63, NACK UNEXP_EVENT
    RETRY_EXCEEDED = 4
    FLUSHED = 5
    LOCAL_ERROR = 6  # responder side: receive queue empty, WriteIMM limit


@dataclass(frozen=True, slots=True)
class Event:
    now: int
    qpn: int  # ours; 0 where no QP is meant


@dataclass(frozen=True, slots=True)
class EvStateChange(Event):
    plane: int
    ev: int
    old: EvState
    new: EvState
    reason: str  # input of the state table: "loss", "rto", "nack_trimmed", "probe_ok", ...
    drops: int = 0  # losses that ever spoke against this EV


@dataclass(frozen=True, slots=True)
class LossInferred(Event):
    """A hole counts as lost. rule: "same_ev", "guard" or "age". sent: when that copy left."""

    psn: int
    ev: int
    plane: int
    rule: str
    sent: int


@dataclass(frozen=True, slots=True)
class NackReceived(Event):
    psn: int
    ev: int
    plane: int
    reason: int  # NackReason, or the number as it came


@dataclass(frozen=True, slots=True)
class RtoExpired(Event):
    """The timer of one packet ran out. sent: when that copy left. retries: after counting it."""

    psn: int
    ev: int
    plane: int
    sent: int
    retries: int


@dataclass(frozen=True, slots=True)
class QpStateChange(Event):
    old: QpState
    new: QpState
    reason: str


@dataclass(frozen=True, slots=True)
class Completion(Event):
    """A posted write is over; completions come in posting order."""

    wr_id: int
    status: Status
    length: int


@dataclass(frozen=True, slots=True)
class RecvCompletion(Event):
    """A write with immediate arrived and everything before it is in memory; in sending order."""

    wr_id: int
    status: Status
    imm: int
    length: int


@dataclass(frozen=True, slots=True)
class PortStatus(Event):
    """A local port changed (qpn 0), or a QP's peer told its usable ports (mask bit k-1: port k)."""

    port: int  # local port; 0 when it is the peer's mask
    up: bool
    peer_mask: int | None = None


@dataclass(frozen=True, slots=True)
class EvProbeResult(Event):
    """An EV probe asked for by `Endpoint.probe_ev` is over. rtt_ns None: no answer in time.
    svc_time: the RTT is free of the time the peer took."""

    ev: int
    plane: int
    port: int
    rtt_ns: int | None
    svc_time: bool = False


@dataclass(frozen=True, slots=True)
class PathProbeResult(Event):
    """A probe asked for by `Endpoint.probe_path` is over (qpn 0). token: as given."""

    token: int
    port: int
    dst: bytes
    ev: int
    rtt_ns: int | None
