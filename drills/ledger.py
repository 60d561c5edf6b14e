"""Packet conservation: every frame that was sent is delivered or has a named cause.

Two kinds of row. *Wire*: from the sender's interface to the receiver's socket,

    left the sender = received + lost in the kernel + lost at the receiver's socket

*Switch*: from the sockets of all ports of a switch to all its egress interfaces,

    received + copies made = left + handed to the CPU + dropped by each named cause + still held

The ledger works on the difference of two snapshots, both taken when nothing moves. A row
that does not balance makes the run void: frames went somewhere that nobody counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from drills.view import End, FabricView, direction_name

EGRESS_CAUSES = ("queue_full", "port_down", "loss", "blackhole", "tx_error", "pipeline_egress")
"""Causes that a switch counts at the port a frame was meant to leave by. `port_down` also has
the frames that arrived by a port while it was down: both are losses of that link."""
SOCKET_CAUSE = "rx_socket"
KERNEL_CAUSE = "kernel"
FILTERED_CAUSE = "not_mrc"
"""Frames a host's interface received that its agent's socket filter did not want."""


@dataclass(frozen=True)
class WireRow:
    """One direction of a link, in frames."""

    link: str
    direction: str
    sent: int
    delivered: int
    drops: Mapping[str, int] = field(default_factory=dict)
    corrupted: int = 0
    """Delivered, but with a bit flipped by the impairment."""
    marked: int = 0
    trimmed: int = 0

    @property
    def imbalance(self) -> int:
        """sent - delivered - drops; 0 when the row balances."""
        return self.sent - self.delivered - sum(self.drops.values())


@dataclass(frozen=True)
class SwitchRow:
    """One switch, in frames."""

    switch: str
    received: int
    sent: int
    drops: Mapping[str, int]
    held: int
    """Change of what is queued or in a delay line between the snapshots."""
    copies: int = 0
    """Made by multicast and clones."""
    packet_in: int = 0
    """Handed to the control plane."""

    @property
    def imbalance(self) -> int:
        gone = self.sent + self.packet_in + sum(self.drops.values()) + self.held
        return self.received + self.copies - gone


@dataclass(frozen=True)
class Ledger:
    """All rows of a run."""

    wires: tuple[WireRow, ...]
    switches: tuple[SwitchRow, ...]
    problems: tuple[str, ...] = ()
    """What could not be counted at all (a source without numbers)."""

    @property
    def balanced(self) -> bool:
        return self.imbalance == 0 and not self.problems

    @property
    def imbalance(self) -> int:
        """Frames unaccounted for, over all rows."""
        rows: Iterable[WireRow | SwitchRow] = (*self.wires, *self.switches)
        return sum(abs(row.imbalance) for row in rows)

    @property
    def drops(self) -> dict[str, int]:
        """Frames lost, by cause. Socket and kernel losses are in wire rows, others once in
        the rows of the links they were meant for."""
        total: dict[str, int] = {}
        for wire in self.wires:
            for cause, count in wire.drops.items():
                if cause != FILTERED_CAUSE:
                    total[cause] = total.get(cause, 0) + count
        for row in self.switches:
            for cause, count in row.drops.items():
                if cause not in EGRESS_CAUSES:
                    total[cause] = total.get(cause, 0) + count
        return {cause: count for cause, count in total.items() if count}

    @property
    def packets_lost(self) -> int:
        return sum(self.drops.values())

    def to_json(self) -> dict[str, Any]:
        """For summary.json: rows with a sum of zero frames are left out."""
        return {
            "balanced": self.balanced,
            "imbalance": self.imbalance,
            "problems": list(self.problems),
            "drops": self.drops,
            "links": [
                {
                    "link": row.link,
                    "direction": row.direction,
                    "sent": row.sent,
                    "delivered": row.delivered,
                    "drops": {k: v for k, v in row.drops.items() if v},
                    "corrupted": row.corrupted,
                    "marked": row.marked,
                    "trimmed": row.trimmed,
                    "imbalance": row.imbalance,
                }
                for row in self.wires
                if row.sent or row.delivered or row.imbalance or any(row.drops.values())
            ],
            "switches": [
                {
                    "switch": row.switch,
                    "received": row.received,
                    "sent": row.sent,
                    "drops": {k: v for k, v in row.drops.items() if v},
                    "held": row.held,
                    "copies": row.copies,
                    "packet_in": row.packet_in,
                    "imbalance": row.imbalance,
                }
                for row in self.switches
            ],
        }


class Snapshot:
    """Counters of everything at one moment, as recorded in an event of type `counters`.

    `switches`: switch -> port number (text) -> PortStats fields. `totals`: switch -> fields of
    SwitchTotals. `interfaces`: kernel
    counters by interface name (rx_packets, rx_dropped, tx_packets, tx_dropped, ...).
    `nics`: host interface -> counts of its agent's socket (rx_packets, tx_packets,
    sock_drops). `marks`, `trims`: switch -> port number (text) -> frames.
    """

    def __init__(self, data: Mapping[str, Any]) -> None:
        self.switches: Mapping[str, Mapping[str, Mapping[str, Any]]] = data.get("switches", {})
        self.totals: Mapping[str, Mapping[str, int]] = data.get("totals", {})
        self.interfaces: Mapping[str, Mapping[str, int]] = data.get("interfaces", {})
        self.nics: Mapping[str, Mapping[str, int]] = data.get("nics", {})
        self.marks: Mapping[str, Mapping[str, int]] = data.get("marks", {})
        self.trims: Mapping[str, Mapping[str, int]] = data.get("trims", {})

    def port(self, end: End) -> Mapping[str, Any]:
        return self.switches.get(end.node, {}).get(str(end.port), {})

    def kernel(self, end: End) -> Mapping[str, int]:
        return self.interfaces.get(end.ifname, {})

    def nic(self, end: End) -> Mapping[str, int]:
        return self.nics.get(end.ifname, {})


def _drops(stats: Mapping[str, Any]) -> Mapping[str, int]:
    drops = stats.get("drops", {})
    return drops if isinstance(drops, Mapping) else {}


class _Delta:
    """Differences between the two snapshots."""

    def __init__(self, start: Snapshot, end: Snapshot) -> None:
        self.start, self.end = start, end

    def port(self, end: End, key: str) -> int:
        return int(self.end.port(end).get(key, 0)) - int(self.start.port(end).get(key, 0))

    def drop(self, end: End, cause: str) -> int:
        before, after = _drops(self.start.port(end)), _drops(self.end.port(end))
        return int(after.get(cause, 0)) - int(before.get(cause, 0))

    def kernel(self, end: End, *keys: str) -> int:
        before, after = self.start.kernel(end), self.end.kernel(end)
        return sum(int(after.get(key, 0)) - int(before.get(key, 0)) for key in keys)

    def nic(self, end: End, key: str) -> int:
        return int(self.end.nic(end).get(key, 0)) - int(self.start.nic(end).get(key, 0))

    def total(self, switch: str, key: str) -> int:
        before, after = self.start.totals.get(switch, {}), self.end.totals.get(switch, {})
        return int(after.get(key, 0)) - int(before.get(key, 0))

    def count(self, which: str, end: End) -> int:
        def read(snapshot: Snapshot) -> int:
            table: Mapping[str, Mapping[str, int]] = getattr(snapshot, which)
            return int(table.get(end.node, {}).get(str(end.port), 0))

        return read(self.end) - read(self.start)


def _wire_row(delta: _Delta, link: str, direction: str, sender: End, receiver: End) -> WireRow:
    drops: dict[str, int] = {}
    if sender.is_host:
        left = delta.kernel(sender, "tx_packets") or delta.nic(sender, "tx_packets")
        offered = left
    else:
        left = delta.port(sender, "tx_packets")
        for cause in EGRESS_CAUSES:
            drops[cause] = delta.drop(sender, cause)
        offered = left + sum(drops.values())
    if receiver.is_host:
        delivered = delta.nic(receiver, "rx_packets")
        drops[SOCKET_CAUSE] = delta.nic(receiver, "sock_drops")
        seen = delta.kernel(receiver, "rx_packets")
        # Everything the interface took in that the agent's filter did not let through.
        other = seen - delivered - drops[SOCKET_CAUSE]
        if seen and other > 0:
            drops[FILTERED_CAUSE] = min(other, max(0, left - delivered - drops[SOCKET_CAUSE]))
    else:
        delivered = delta.port(receiver, "rx_packets")
        drops[SOCKET_CAUSE] = delta.drop(receiver, SOCKET_CAUSE)
    missing = offered - delivered - sum(drops.values())
    if missing > 0:
        # Kernel drop counters may count frames that a packet socket did get (the kernel's own
        # stack then refused them), so they only ever explain what is missing otherwise.
        kernel = delta.kernel(receiver, "rx_dropped", "rx_errors")
        kernel += delta.kernel(sender, "tx_dropped", "tx_errors")
        drops[KERNEL_CAUSE] = min(missing, max(0, kernel))
    return WireRow(
        link=link,
        direction=direction,
        sent=offered,
        delivered=delivered,
        drops=drops,
        corrupted=0 if sender.is_host else delta.port(sender, "corrupted"),
        marked=0 if sender.is_host else delta.count("marks", sender),
        trimmed=0 if sender.is_host else delta.count("trims", sender),
    )


def _switch_row(delta: _Delta, switch: str, ports: Iterable[str]) -> SwitchRow:
    received = sent = 0
    drops: dict[str, int] = {}
    for port in ports:
        end = End(switch, int(port), "")
        received += delta.port(end, "rx_packets")
        sent += delta.port(end, "tx_packets")
        for cause in _drops(delta.end.port(end)):
            if cause != SOCKET_CAUSE:
                drops[cause] = drops.get(cause, 0) + delta.drop(end, cause)
    return SwitchRow(
        switch,
        received,
        sent,
        drops,
        held=delta.total(switch, "held"),
        copies=delta.total(switch, "copies"),
        packet_in=delta.total(switch, "packet_in"),
    )


def build(view: FabricView, start: Snapshot, end: Snapshot) -> Ledger:
    """The ledger of what happened between two snapshots."""
    delta = _Delta(start, end)
    problems: list[str] = []
    wires: list[WireRow] = []
    for link in view.links.values():
        for upward, (sender, receiver) in zip((True, False), link.ends(), strict=True):
            for where in (sender, receiver):
                source = end.nic(where) if where.is_host else end.port(where)
                if not source:
                    problems.append(f"no counters of {where.node} port {where.port}")
            wires.append(
                _wire_row(delta, link.name, direction_name(link, upward), sender, receiver)
            )
    switches = [_switch_row(delta, name, ports) for name, ports in sorted(end.switches.items())]
    return Ledger(tuple(wires), tuple(switches), tuple(dict.fromkeys(problems)))
