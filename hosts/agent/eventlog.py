"""The events file: one JSON object per line, `t` (monotonic ns), `src`, `type` and the rest.

Types: ev_state, loss_inferred, nack, rto, qp_state, completion, recv_completion, port,
peer_ports, probe_result, path_probe, workload, agent_error, sample (see `hosts.agent.sampling`).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from hosts.core import events as ev
from hosts.wire.constants import NackReason

_REASONS = {int(reason): reason.name for reason in NackReason}


def describe(event: ev.Event) -> dict[str, Any]:
    """Type and fields of an endpoint event, without t and src."""
    if isinstance(event, ev.EvStateChange):
        return {
            "type": "ev_state",
            "qpn": event.qpn,
            "plane": event.plane,
            "ev": event.ev,
            "from": event.old.name,
            "to": event.new.name,
            "reason": event.reason,
            "drops": event.drops,
        }
    if isinstance(event, ev.LossInferred):
        return {
            "type": "loss_inferred",
            "qpn": event.qpn,
            "psn": event.psn,
            "ev": event.ev,
            "plane": event.plane,
            "rule": event.rule,
            "sent": event.sent,
        }
    if isinstance(event, ev.NackReceived):
        return {
            "type": "nack",
            "qpn": event.qpn,
            "psn": event.psn,
            "ev": event.ev,
            "plane": event.plane,
            "reason": _REASONS.get(event.reason, f"{event.reason:#04x}"),
        }
    if isinstance(event, ev.RtoExpired):
        return {
            "type": "rto",
            "qpn": event.qpn,
            "psn": event.psn,
            "ev": event.ev,
            "plane": event.plane,
            "sent": event.sent,
            "retries": event.retries,
        }
    return _describe_rare(event)


def _describe_rare(event: ev.Event) -> dict[str, Any]:
    if isinstance(event, ev.QpStateChange):
        return {
            "type": "qp_state",
            "qpn": event.qpn,
            "from": event.old.name,
            "to": event.new.name,
            "reason": event.reason,
        }
    if isinstance(event, ev.Completion):
        return {
            "type": "completion",
            "qpn": event.qpn,
            "wr_id": event.wr_id,
            "status": event.status.name,
            "length": event.length,
        }
    if isinstance(event, ev.RecvCompletion):
        return {
            "type": "recv_completion",
            "qpn": event.qpn,
            "wr_id": event.wr_id,
            "status": event.status.name,
            "imm": event.imm,
            "length": event.length,
        }
    if isinstance(event, ev.PortStatus):
        if event.peer_mask is not None:
            return {"type": "peer_ports", "qpn": event.qpn, "mask": event.peer_mask}
        return {"type": "port", "port": event.port, "plane": event.port - 1, "up": event.up}
    if isinstance(event, ev.EvProbeResult):
        return {
            "type": "probe_result",
            "qpn": event.qpn,
            "ev": event.ev,
            "plane": event.plane,
            "port": event.port,
            "rtt_ns": event.rtt_ns,
            "svc_time": event.svc_time,
        }
    if isinstance(event, ev.PathProbeResult):
        return {
            "type": "path_probe",
            "token": event.token,
            "port": event.port,
            "plane": event.port - 1,
            "dst": str(ip_address(event.dst)),
            "ev": event.ev,
            "rtt_ns": event.rtt_ns,
        }
    return {"type": type(event).__name__, "qpn": event.qpn}


Way = Callable[[int, int, int], dict[str, Any]]


class EventLog:
    """Appends to the events file; whole lines are handed to the system by `flush`."""

    def __init__(self, path: Path | None, src: str, way: Way | None = None) -> None:
        """way(qpn, port, ev): which way an EV goes, added to what happens to it."""
        self._way = way
        self._file = path.open("a", encoding="utf-8") if path else None
        self._head = f'"src":{json.dumps(src)},'
        self._lines: list[str] = []

    def write(self, t: int, data: dict[str, Any]) -> None:
        """One event; `data` has its type."""
        if self._file is not None:
            body = json.dumps(data, separators=(",", ":"))
            self._lines.append(f'{{"t":{t},{self._head}{body[1:]}\n')

    def endpoint(self, event: ev.Event) -> None:
        """An event of the endpoint."""
        if self._file is not None:
            data = describe(event)
            if self._way is not None and isinstance(event, ev.EvStateChange):
                data.update(self._way(event.qpn, event.plane + 1, event.ev))
            self.write(event.now, data)

    def flush(self) -> None:
        if self._file is not None and self._lines:
            self._file.write("".join(self._lines))
            self._file.flush()
            self._lines.clear()

    def close(self) -> None:
        self.flush()
        if self._file is not None:
            self._file.close()
