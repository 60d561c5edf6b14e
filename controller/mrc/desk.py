"""What people and scripts may ask of the MRC controller: JSON requests, JSON answers.

{"op": "health"}                         every link: loss, round trip, silent loops
{"op": "incidents"}                      what fails now, and what did
{"op": "ev", "host": ..., "link": ...}   EVs with state and links; both may be left out
{"op": "deny", "links": [...], "evs": [...]}, and "allow"
{"op": "drain", "link": ...}
{"op": "probe", "src": ..., "dst": ..., "timeout_ns": ...}
{"op": "agent", "host": ..., "request": {...}}   any operation of a host's agent
{"op": "pause"}, {"op": "resume"}        the loop probes
{"op": "hello"}
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import asdict
from typing import Any

from controller.mrc.core import Json, MrcController, Talk, incident_json
from topologies.plan import UnknownNameError

MAX_EV = 0xFFFFFFFF


class RequestError(ValueError):
    """A request that can't be carried out; str() is one line."""


class Desk:
    """Turns a request into an action of the controller."""

    def __init__(self, mrc: MrcController) -> None:
        self._mrc = mrc
        self._ops: dict[str, Callable[[Json, int], Talk[Json]]] = {
            "hello": self._hello,
            "health": self._health,
            "incidents": self._incidents,
            "ev": self._ev,
            "deny": self._deny,
            "allow": self._allow,
            "drain": self._drain,
            "probe": self._probe,
            "agent": self._agent,
            "pause": self._pause,
            "resume": self._resume,
        }

    def serve(self, request: Json, now: int) -> Talk[Json]:
        """The answer, with `ok` and, when that is false, `error`. Never raises."""
        op = request.get("op")
        method = self._ops.get(op) if isinstance(op, str) else None
        if method is None:
            return {"ok": False, "error": f"op: {op!r} is none of {', '.join(self._ops)}"}
        try:
            answer = yield from method(request, now)
        except (RequestError, UnknownNameError) as error:
            return {"ok": False, "error": f"{op}: {error}"}
        return {"ok": True, **answer}

    def _hello(self, request: Json, now: int) -> Talk[Json]:
        yield from ()
        timing = self._mrc.timing
        return {
            "now": now,
            "fabric": self._mrc.plan.spec.name,
            "hosts": list(self._mrc.plan.hosts),
            "qps": [asdict(qp) for qp in self._mrc.qps],
            "poll_ns": timing.poll,
            "loop_interval_ns": timing.loop_interval,
            "window_ns": timing.watch.fast,
        }

    def _pause(self, request: Json, now: int) -> Talk[Json]:
        yield from self._mrc.pause()
        return {}

    def _resume(self, request: Json, now: int) -> Talk[Json]:
        yield from self._mrc.resume()
        return {}

    def _health(self, request: Json, now: int) -> Talk[Json]:
        yield from ()
        accused = {
            name: incident for incident in self._mrc.watch.incidents for name in incident.suspects
        }
        rows = []
        for name, row in self._mrc.health(now).items():
            link = self._mrc.plan.link(name)
            incident = accused.get(name)
            rows.append(
                {
                    **asdict(row),
                    "plane": link.plane,
                    "kind": link.kind,
                    "loss": row.loss,
                    "incident": incident.number if incident is not None else None,
                    "denied": name in self._mrc.denials.links or name in self._mrc.denials.drained,
                }
            )
        return {"now": now, "links": rows}

    def _incidents(self, request: Json, now: int) -> Talk[Json]:
        yield from ()
        return {"now": now, "incidents": [incident_json(i) for i in self._mrc.history]}

    def _ev(self, request: Json, now: int) -> Talk[Json]:
        rows = yield from self._mrc.ev_rows(
            host=_optional_text(request, "host"), link=_optional_text(request, "link")
        )
        return {"evs": [asdict(row) for row in rows]}

    def _deny(self, request: Json, now: int) -> Talk[Json]:
        return (yield from self._change(request, now, self._mrc.deny))

    def _allow(self, request: Json, now: int) -> Talk[Json]:
        return (yield from self._change(request, now, self._mrc.allow))

    def _change(
        self, request: Json, now: int, action: Callable[..., Generator[Any, Any, int]]
    ) -> Talk[Json]:
        links, evs = _list(request, "links", str), _list(request, "evs", int)
        if not links and not evs:
            raise RequestError("name EVs or links")
        wrong = next((ev for ev in evs if not 0 <= ev <= MAX_EV), None)
        if wrong is not None:
            raise RequestError(f"evs: {wrong} is not a 32-bit value")
        changed: int = yield from action(now, links=links, evs=evs)
        denials = self._mrc.denials
        return {
            "changed": changed,
            "denied": {"links": sorted(denials.links), "evs": sorted(denials.evs)},
        }

    def _drain(self, request: Json, now: int) -> Talk[Json]:
        link = _text(request, "link")
        changed = yield from self._mrc.drain(link, now)
        return {"link": link, "changed": changed}

    def _probe(self, request: Json, now: int) -> Talk[Json]:
        src, dst = _text(request, "src"), _text(request, "dst")
        timeout = request.get("timeout_ns")
        if timeout is not None and (not isinstance(timeout, int) or timeout < 1):
            raise RequestError(f"timeout_ns: {timeout!r} is not a positive number")
        results = yield from self._mrc.probe(src, dst, timeout)
        if not results:
            raise RequestError(f"no connection from {src} to {dst}: start a workload first")
        return {"probes": results}

    def _agent(self, request: Json, now: int) -> Talk[Json]:
        host = self._mrc.plan.host(_text(request, "host")).name
        inner = request.get("request")
        if not isinstance(inner, dict):
            raise RequestError("request: must be a JSON object")
        reply = yield host, inner
        if reply is None:
            raise RequestError(f"the agent of {host} does not answer")
        return {"reply": reply}


def _text(request: Json, key: str) -> str:
    value = request.get(key)
    if not isinstance(value, str):
        raise RequestError(f"{key}: must be a text")
    return value


def _optional_text(request: Json, key: str) -> str | None:
    return None if request.get(key) is None else _text(request, key)


def _list(request: Json, key: str, kind: type[Any]) -> list[Any]:
    value = request.get(key, [])
    if not isinstance(value, list) or not all(type(item) is kind for item in value):
        raise RequestError(f"{key}: must be a list of {kind.__name__}")
    return value
