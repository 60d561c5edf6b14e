"""Plain values that cross the engine's Python interface.

Integers everywhere: match values, action arguments and register cells are unsigned
integers of the width the program declares; times are nanoseconds; lengths are bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

# -- errors ---------------------------------------------------------------------------


class EngineError(Exception):
    """Base of every error a caller of the engine may want to show: one clear line."""


class ProgramError(EngineError):
    """The bmv2 JSON is malformed or uses something the engine does not have."""


class BuildError(EngineError):
    """The C compiler is absent or rejected the generated source."""


class DriverError(EngineError):
    """An interface cannot be opened, or the driver is in the wrong state."""


class NotFoundError(EngineError):
    """Something named in a request does not exist."""


class NoSuchTable(NotFoundError):
    """No table of that name."""


class NoSuchAction(NotFoundError):
    """No action of that name, or the table does not list it."""


class NoSuchEntry(NotFoundError):
    """No table entry with that handle."""


class NoSuchProfile(NotFoundError):
    """No action profile or selector of that name."""


class NoSuchMember(NotFoundError):
    """No member with that handle."""


class NoSuchGroup(NotFoundError):
    """No group (selector, multicast or clone session) with that handle."""


class NoSuchObject(NotFoundError):
    """No counter, register, meter or value set of that name."""


class NoSuchPort(NotFoundError):
    """The port was not added."""


class TableFull(EngineError):
    """The table or profile already holds as many entries as the program allows."""


class DuplicateEntry(EngineError):
    """An entry with the same match key (and priority) exists, or the port does."""


class InvalidValue(EngineError):
    """A value does not fit: too wide, wrong kind, wrong number of arguments."""


class OutOfRange(InvalidValue):
    """An index is past the end of a counter, register or meter array."""


class ImmutableEntry(EngineError):
    """Const entries and const default actions cannot be changed."""


class InUse(EngineError):
    """A member is referenced by a group or entry, a group by an entry."""


# -- match values ---------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Exact:
    """The key field equals `value`."""

    value: int


@dataclass(frozen=True, slots=True)
class Lpm:
    """The first `prefix_len` bits of the key field equal those of `value`."""

    value: int
    prefix_len: int


@dataclass(frozen=True, slots=True)
class Ternary:
    """`field & mask == value & mask`."""

    value: int
    mask: int


@dataclass(frozen=True, slots=True)
class Range:
    """`lo <= field <= hi`, unsigned."""

    lo: int
    hi: int


@dataclass(frozen=True, slots=True)
class Optional_:
    """Match kind `optional`: equals `value`, or anything when it is None."""

    value: int | None


@dataclass(frozen=True, slots=True)
class Valid:
    """bmv2's match kind `valid`: the header's validity bit."""

    value: bool


MatchValue: TypeAlias = Exact | Lpm | Ternary | Range | Optional_ | Valid

# -- what a table entry points at -------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ActionCall:
    """An action by its name in the bmv2 JSON, with its arguments in order."""

    name: str
    args: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class MemberRef:
    """A member of the table's action profile or selector."""

    handle: int


@dataclass(frozen=True, slots=True)
class GroupRef:
    """A group of the table's action selector."""

    handle: int


Entry: TypeAlias = ActionCall | MemberRef | GroupRef


@dataclass(frozen=True, slots=True)
class TableEntry:
    """One entry as read back. `priority`: higher wins (as in P4Runtime), 0 when unused."""

    handle: int
    match: tuple[MatchValue, ...]
    action: Entry
    priority: int = 0
    const: bool = False


@dataclass(frozen=True, slots=True)
class Member:
    """A member of an action profile."""

    handle: int
    action: ActionCall


@dataclass(frozen=True, slots=True)
class GroupMember:
    """A member's place in a group: `weight` copies, skipped while `watch_port` is down."""

    member: int
    weight: int = 1
    watch_port: int | None = None


@dataclass(frozen=True, slots=True)
class Group:
    """A selector group. `max_size` 0: bounded by the profile only."""

    handle: int
    members: tuple[GroupMember, ...] = ()
    max_size: int = 0


@dataclass(frozen=True, slots=True)
class Replica:
    """One copy of a packet: multicast group or clone session member."""

    port: int
    rid: int = 0


@dataclass(frozen=True, slots=True)
class CloneSession:
    """Where clones go. `packet_length_bytes` 0: not truncated."""

    sid: int
    replicas: tuple[Replica, ...]
    packet_length_bytes: int = 0
    class_of_service: int = 0


@dataclass(frozen=True, slots=True)
class MeterRate:
    """One rate of a meter: tokens per second (bytes or packets) and bucket size."""

    rate: float
    burst: int


@dataclass(frozen=True, slots=True)
class CounterValue:
    """A counter cell."""

    packets: int
    bytes: int


# -- ports ------------------------------------------------------------------------------

QUEUE_LIMIT = 64
"""Default packets per priority queue."""


@dataclass(frozen=True, slots=True)
class PortConfig:
    """Settings of one port; all may be changed while packets flow.

    `rate_bps` 0 is unlimited; a frame takes len * 8 / rate_bps seconds on the wire (no
    preamble or gap). `queue_limits`: packets per priority, priority 0 first; queues that
    are not listed take the last value. Higher priorities are served first and all share
    the one rate. Delays are fixed. `loss` and `corrupt` are probabilities per
    transmitted frame (a corrupted frame has one random bit flipped and is delivered).
    `blackhole` swallows everything that leaves the port while the port stays up. `rx_loss`,
    `rx_corrupt` and `rx_blackhole` do the same to frames that arrive: for the direction of a
    link whose other end, a host, has no such settings. Chance comes from the engine's seed.
    """

    rate_bps: int = 0
    queue_limits: tuple[int, ...] = (QUEUE_LIMIT,)
    tx_delay_ns: int = 0
    rx_delay_ns: int = 0
    loss: float = 0.0
    corrupt: float = 0.0
    blackhole: bool = False
    admin_up: bool = True
    rx_loss: float = 0.0
    rx_corrupt: float = 0.0
    rx_blackhole: bool = False


DROP_CAUSES = (
    "queue_full",
    "port_down",
    "loss",
    "blackhole",
    "pipeline",
    "rx_socket",
    "tx_error",
    "too_long",
    "no_buffer",
    "pipeline_egress",
    "no_port",
    "priority",
    "loop",
    "reload",
    "rx_loss",
    "rx_blackhole",
)
"""Names in `PortStats.drops`, in the order of the C side's DROP_*.

On the egress port: queue_full, port_down (also frames in queue or delay line when the
port went down), loss, blackhole, tx_error (the kernel refused the frame), pipeline_egress
(dropped by the program's egress), too_long.
On the ingress port: pipeline (dropped by the program's ingress; also a multicast without
replicas), port_down (arrived while down), too_long, rx_socket (dropped by the kernel before
the engine saw it: not part of rx_packets, nor of the totals), no_buffer (packet store
exhausted), no_port (sent to a port that does not exist), priority (queue number out of
range), loop (resubmitted or recirculated too often), rx_loss, rx_blackhole (impairments of
what arrives: part of rx_packets).
Either: reload (inside the switch when the program was replaced).
"""


@dataclass(frozen=True, slots=True)
class PortStats:
    """Counts since the port was added.

    They balance exactly: enqueued = dequeued + sum(queue_depth), and
    dequeued = tx_packets + recirculated + in_flight (towards the wire) + the drops
    pipeline_egress, loss, blackhole, tx_error, port_down and too_long of egress.
    """

    rx_packets: int
    rx_bytes: int
    tx_packets: int
    tx_bytes: int
    drops: Mapping[str, int]
    corrupted: int
    """Delivered with a flipped bit (counted in tx_packets too)."""
    enqueued: int
    """Frames accepted by the traffic manager for this port, all priorities."""
    dequeued: int
    recirculated: int
    """Left a queue of this port and went back to ingress."""
    queue_depth: tuple[int, ...]
    queue_depth_max: int
    """Deepest single queue since the last read with reset."""
    in_flight: int
    """Frames in this port's delay lines (both directions) or on its serialiser."""
    up: bool
    rx_corrupted: int = 0
    """Arrived, and went on with a flipped bit (counted in rx_packets too)."""


@dataclass(frozen=True, slots=True)
class SwitchTotals:
    """Packets of the whole switch: received + copies = sent + packet_in + dropped + held."""

    received: int
    copies: int
    """Made by multicast and clones; negative when originals were replaced by fewer."""
    sent: int
    packet_in: int
    dropped: int
    held: int


@dataclass(frozen=True, slots=True)
class Fidelity:
    """How punctually the driver served the queues. Times in nanoseconds."""

    late_max_ns: int = 0
    late_mean_ns: int = 0
    late_p99_ns: int = 0
    services: int = 0
    loops: int = 0
    cpu_ns: int = 0
    wall_ns: int = 0


# -- events -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PacketIn:
    """A frame the pipeline sent to the CPU port, headers as deparsed."""

    frame: bytes
    time: int


@dataclass(frozen=True, slots=True)
class Digest:
    """A digest: `list_id` of the learn list, the field values in order."""

    list_id: int
    name: str
    values: tuple[int, ...]
    time: int


@dataclass(frozen=True, slots=True)
class PortChange:
    """A port's operational state changed."""

    port: int
    up: bool
    time: int


@dataclass(frozen=True, slots=True)
class IdleTimeout:
    """An entry of a table with timeouts was not matched for its time to live."""

    table: str
    handle: int
    time: int


@dataclass(frozen=True, slots=True)
class LogMessage:
    """Output of log_msg, or a failed assert/assume."""

    text: str
    time: int


EngineEvent: TypeAlias = PacketIn | Digest | PortChange | IdleTimeout | LogMessage

# -- description of a loaded program ----------------------------------------------------


@dataclass(frozen=True, slots=True)
class KeyInfo:
    """One field of a table key."""

    name: str
    match_type: str
    width: int


@dataclass(frozen=True, slots=True)
class ActionInfo:
    """An action with the widths of its parameters in bits."""

    name: str
    params: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class TableInfo:
    """What the control plane may do with a table."""

    name: str
    key: tuple[KeyInfo, ...]
    match_type: str
    kind: str
    """simple, indirect or indirect_ws, as in the JSON."""
    actions: tuple[ActionInfo, ...]
    max_size: int
    profile: str | None = None
    with_counters: bool = False
    support_timeout: bool = False
    direct_meter: str | None = None
    const_entries: bool = False
    const_default: bool = False


@dataclass(frozen=True, slots=True)
class ProgramInfo:
    """Names and shapes of what a loaded program exposes."""

    tables: Mapping[str, TableInfo] = field(default_factory=dict)
    profiles: Mapping[str, int] = field(default_factory=dict)
    """Name -> max_size."""
    selectors: frozenset[str] = frozenset()
    counters: Mapping[str, int] = field(default_factory=dict)
    registers: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """Name -> (size, bit width)."""
    meters: Mapping[str, int] = field(default_factory=dict)
