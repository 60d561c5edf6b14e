"""The MRC controller without its sockets: what to ask the hosts, and what their answers mean.

Every action is a generator of (host, request) pairs that takes the replies: a driver sends them
over the agents' control sockets (controller/mrc/service.py), or, in virtual time, hands them to
the hosts' objects. A reply that is not ok, or None for a host that does not answer, is not an
error here: a controller must live with hosts that are gone.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from controller.mrc.mapper import LinkHealth, Mapper, plan_loops
from controller.mrc.watch import FaultWatch, Incident, WatchTimes
from topologies.paths import path_of
from topologies.plan import Plan

Json = dict[str, Any]
T = TypeVar("T")
Talk = Generator[tuple[str, Json], "Json | None", T]
"""(host, request) out, reply in, a result at the end."""
Ask = Talk[None]

EVENT_TYPES = ("ev_state", "port", "qp_state")
DISCOVER_POLLS = 5
"""Every so many polls the hosts are asked which QPs they have."""


@dataclass(frozen=True)
class Timing:
    """ns. Everything is a multiple of the fabric's base round trip, whatever its time scale."""

    poll: int
    loop_interval: int
    """Each loop is probed once per interval."""
    loop_timeout: int
    watch: WatchTimes

    @classmethod
    def of(cls, plan: Plan) -> Timing:
        """For a fabric: of 20 ms base round trip, 50 ms between polls and a window of 1 s."""
        rtt = plan.spec.base_rtt_ns()
        return cls(
            poll=5 * rtt // 2,
            loop_interval=rtt,
            loop_timeout=8 * rtt,
            watch=WatchTimes(fast=50 * rtt, slow=3000 * rtt),
        )


@dataclass
class QpView:
    """A connected QP of a host, as requestor."""

    host: str
    qpn: int
    peer: str
    sent: int = 0
    lost: int = 0

    @property
    def name(self) -> str:
        return f"{self.host}:{self.qpn}"


@dataclass(frozen=True)
class EvRow:
    """An EV of a QP for people."""

    host: str
    qpn: int
    peer: str
    plane: int
    ev: int
    state: str
    role: str
    drops: int
    links: tuple[str, ...]


@dataclass
class Denials:
    """What people have taken out. QPs that come later get them too."""

    links: set[str] = field(default_factory=set)
    evs: set[int] = field(default_factory=set)
    drained: set[str] = field(default_factory=set)
    """Those of `links` whose ports were put down as well (NIC-T0 links)."""


class MrcController:
    """State and actions. Times in ns."""

    def __init__(
        self,
        plan: Plan,
        timing: Timing | None = None,
        *,
        loops: bool = True,
        emit: Callable[[int, Json], None] = lambda _t, _event: None,
    ) -> None:
        """`emit(t, event)` takes what happened, for the events file."""
        self.plan = plan
        self.timing = timing or Timing.of(plan)
        self.denials = Denials()
        self.mapper = Mapper(plan, silent_ns=2 * self.timing.loop_timeout)
        self.watch = FaultWatch(plan, self.timing.watch)
        self.history: list[Incident] = []
        self._emit = emit
        self._loops = self._loops_on = loops
        self._qps: dict[tuple[str, int], QpView] = {}
        self._subscriptions: dict[str, int] = {}
        self._ports: dict[tuple[str, int], bool] = {}
        self._silent: set[str] = set()
        self._polls = 0
        self._owner = {nic.ipv6: host.name for host in plan.hosts.values() for nic in host.nics}

    # -- what runs by itself

    def start(self, now: int) -> Ask:
        """Subscribe to events and start the loops, on every host."""
        for host in self.plan.hosts:
            yield from self._start_host(host)
        yield from self._discover(now)

    def poll(self, now: int) -> Ask:
        """Read what is new everywhere, and judge."""
        self._polls += 1
        if self._polls % DISCOVER_POLLS == 0:
            yield from self._discover(now)
        for host in self.plan.hosts:
            key = self._subscriptions.get(host)
            if key is None:
                yield from self._start_host(host)
                continue
            reply = yield host, {"op": "events", "id": key, "max": 4096}
            if not self._heard(host, reply, now):
                continue
            for event in reply["events"] if reply else ():
                self._on_event(host, event, now)
            if self._loops:
                taken = yield host, {"op": "loops_take"}
                self._on_loops(taken, now)
            if any(qp.host == host for qp in self._qps.values()):
                self._on_traffic(host, (yield host, {"op": "traffic"}), now)
        self._observe_ports(now)
        for change in self.watch.tick(now):
            incident = change.incident
            if change.kind == "opened":
                self.history.append(incident)
            self._emit(now, {"type": "incident", "kind": change.kind, **incident_json(incident)})

    def pause(self) -> Ask:
        """No loop probes until `resume`, as while packets are counted."""
        self._loops_on = False
        for host in self._subscriptions:
            yield host, {"op": "loops_stop"}

    def resume(self) -> Ask:
        """Probe loops again."""
        self._loops_on = self._loops
        for host in list(self._subscriptions):
            yield from self._start_loops(host)

    def stop(self) -> Ask:
        """End the loops and the subscriptions."""
        for host, key in list(self._subscriptions.items()):
            if self._loops:
                yield host, {"op": "loops_stop"}
            yield host, {"op": "unsubscribe", "id": key}
        self._subscriptions.clear()

    # -- what people ask for

    def ev_rows(self, host: str | None = None, link: str | None = None) -> Talk[list[EvRow]]:
        """Every EV of every QP (of a host; over a link), with its state and links.

        Raises UnknownNameError for a host or link that is not there.
        """
        if link is not None:
            self.plan.link(link)
        hosts = list(self.plan.hosts) if host is None else [self.plan.host(host).name]
        rows: list[EvRow] = []
        for qp in [qp for qp in self._qps.values() if qp.host in hosts]:
            reply = yield qp.host, {"op": "ev_table", "qpn": qp.qpn}
            for entry in (reply or {}).get("evs", ()):
                links = self._links(qp, entry["plane"], entry["ev"])
                if link is None or link in links:
                    rows.append(
                        EvRow(
                            qp.host,
                            qp.qpn,
                            qp.peer,
                            entry["plane"],
                            entry["ev"],
                            entry["state"],
                            entry["role"],
                            entry["drops"],
                            links,
                        )
                    )
        return rows

    def deny(self, now: int, *, links: Iterable[str] = (), evs: Iterable[int] = ()) -> Talk[int]:
        """Take EVs out everywhere: those over the links, and these. How many changed.

        Raises UnknownNameError before anything is done.
        """
        links, evs = [self.plan.link(name).name for name in links], list(evs)
        self.denials.links.update(links)
        self.denials.evs.update(evs)
        changed = 0
        for qp in list(self._qps.values()):
            changed += yield from self._apply_denials(qp)
        if links or evs:
            self._emit(now, {"type": "denied", "links": links, "evs": evs, "changed": changed})
        return changed

    def allow(self, now: int, *, links: Iterable[str] = (), evs: Iterable[int] = ()) -> Talk[int]:
        """Give EVs back, and put drained ports up again. How many EVs and ports changed."""
        links, evs = [self.plan.link(name).name for name in links], list(evs)
        self.denials.links.difference_update(links)
        self.denials.evs.difference_update(evs)
        changed = 0
        for name in [n for n in links if n in self.denials.drained]:
            self.denials.drained.discard(name)
            changed += yield from self._set_ports(name, up=True)
        for qp in list(self._qps.values()):
            reply = yield qp.host, {"op": "ev_table", "qpn": qp.qpn}
            for entry in (reply or {}).get("evs", ()):
                if entry["state"] != "DENIED":
                    continue
                crossed = set(self._links(qp, entry["plane"], entry["ev"]))
                asked = entry["ev"] in evs or not crossed.isdisjoint(links)
                still = entry["ev"] in self.denials.evs or not crossed.isdisjoint(
                    self.denials.links
                )
                if asked and not still:
                    changed += yield from self._set_state(qp, entry["ev"], "GOOD")
        self._emit(now, {"type": "allowed", "links": links, "evs": evs, "changed": changed})
        return changed

    def drain(self, link: str, now: int) -> Talk[int]:
        """Take a link out of use before it is worked on. EVs over it are denied; of a NIC-T0
        link the port is put down, which tells the peers too. How many EVs or ports changed."""
        found = self.plan.link(link)
        if found.kind == "host":
            self.denials.drained.add(found.name)
            changed = yield from self._set_ports(found.name, up=False)
            self._emit(now, {"type": "drained", "link": found.name, "ports": changed})
            return changed
        return (yield from self.deny(now, links=[found.name]))

    def probe(self, src: str, dst: str, timeout_ns: int | None = None) -> Talk[list[Json]]:
        """An EV probe on every EV in rotation from a host to another: its RTT, or none."""
        source, target = self.plan.host(src).name, self.plan.host(dst).name
        results: list[Json] = []
        for qp in [q for q in self._qps.values() if (q.host, q.peer) == (source, target)]:
            table = yield qp.host, {"op": "ev_table", "qpn": qp.qpn}
            for entry in (table or {}).get("evs", ()):
                if entry["role"] != "active":
                    continue
                request: Json = {"op": "probe_ev", "qpn": qp.qpn, "ev": entry["ev"], "wait": True}
                if timeout_ns is not None:
                    request["timeout_ns"] = timeout_ns
                reply = yield qp.host, request
                links = self._links(qp, entry["plane"], entry["ev"])
                results.append(
                    {
                        "ev": entry["ev"],
                        "plane": entry["plane"],
                        "rtt_ns": (reply or {}).get("rtt_ns"),
                        "links": list(links),
                    }
                )
        return results

    def health(self, now: int) -> Mapping[str, LinkHealth]:
        """The live table of links."""
        return self.mapper.health(now)

    @property
    def qps(self) -> Iterator[QpView]:
        """Connected QPs, in a fixed order."""
        return iter(self._qps.values())

    # -- replies

    def _start_host(self, host: str) -> Ask:
        reply = yield host, {"op": "subscribe", "types": list(EVENT_TYPES)}
        if reply is None or "id" not in reply:
            return
        self._subscriptions[host] = reply["id"]
        yield from self._start_loops(host)

    def _start_loops(self, host: str) -> Ask:
        if self._loops_on:
            loops = [loop.to_json(self.plan) for loop in plan_loops(self.plan, [host])]
            yield (
                host,
                {
                    "op": "loops_start",
                    "interval_ns": self.timing.loop_interval,
                    "timeout_ns": self.timing.loop_timeout,
                    "loops": loops,
                },
            )

    def _heard(self, host: str, reply: Json | None, now: int) -> bool:
        if reply is None:
            if host not in self._silent:
                self._silent.add(host)
                self._emit(now, {"type": "agent_silent", "host": host})
            self._subscriptions.pop(host, None)  # a new agent knows nothing of the old one's
            return False
        self._silent.discard(host)
        return "events" in reply

    def _discover(self, now: int) -> Ask:
        """QPs that are new or gone, and the denials for the new ones."""
        for host in self.plan.hosts:
            if host not in self._subscriptions:
                continue
            reply = yield host, {"op": "qps"}
            if reply is None or "qps" not in reply:
                continue
            seen = set()
            for entry in reply["qps"]:
                peer = self._peer_of(entry)
                if peer is None or peer == host or entry["state"] != "RTS":
                    continue
                key = (host, int(entry["qpn"]))
                seen.add(key)
                if key not in self._qps:
                    qp = self._qps[key] = QpView(host, key[1], peer)
                    yield from self._learn_evs(qp)
                    yield from self._apply_denials(qp)
            for key in [k for k in self._qps if k[0] == host and k not in seen]:
                self.watch.forget_flow(self._qps.pop(key).name)

    def _learn_evs(self, qp: QpView) -> Ask:
        reply = yield qp.host, {"op": "ev_table", "qpn": qp.qpn}
        entries = (reply or {}).get("evs", ())
        active = [(e["plane"], e["ev"]) for e in entries if e["role"] == "active"]
        self.watch.flow(qp.name, qp.host, qp.peer, active)

    def _peer_of(self, entry: Json) -> str | None:
        ips = ((entry.get("peer") or {}).get("ips") or {}).values()
        return next((self._owner[ip] for ip in ips if ip in self._owner), None)

    def _on_event(self, host: str, event: Json, now: int) -> None:
        kind = event.get("type")
        if kind == "ev_state":
            self.watch.ev_state(
                f"{host}:{event['qpn']}",
                event["plane"],
                event["ev"],
                event["to"],
                now,
                max(1, int(event.get("drops") or 1)),
                expired=event.get("reason") == "rto",
            )
        elif kind == "port":
            self._ports[host, event["plane"]] = event["up"]

    def _on_loops(self, reply: Json | None, now: int) -> None:
        for number, counts in (reply or {}).get("loops", {}).items():
            loop = self.mapper.update(
                int(number), counts["sent"], counts["lost"], counts["rtt_ns"], now
            )
            # A port that somebody put down on purpose is no fault.
            if loop is not None and self.denials.drained.isdisjoint(loop.way):
                self.watch.loop(loop.way, counts["sent"], counts["lost"], now)

    def _on_traffic(self, host: str, reply: Json | None, now: int) -> None:
        for qpn, counts in (reply or {}).get("qps", {}).items():
            qp = self._qps.get((host, int(qpn)))
            if qp is None:
                continue
            sent, lost = counts["sent"] - qp.sent, counts["lost"] - qp.lost
            qp.sent, qp.lost = counts["sent"], counts["lost"]
            self.watch.traffic(qp.name, sent - lost, now)

    def _observe_ports(self, now: int) -> None:
        """A dark port accuses link and T0; its neighbours' ports speak for the T0."""
        dark = {key for key, up in self._ports.items() if not up}
        for host, plane in dark:
            if self.plan.host(host).nics[plane].link in self.denials.drained:
                continue
            for other in self.plan.hosts_under(self.plan.host(host).t0):
                self.watch.port(other.name, plane, (other.name, plane) not in dark, now)

    # -- requests

    def _links(self, qp: QpView, plane: int, ev: int) -> tuple[str, ...]:
        return path_of(self.plan, qp.host, qp.peer, plane, ev).links

    def _apply_denials(self, qp: QpView) -> Talk[int]:
        if not self.denials.links and not self.denials.evs:
            return 0
        reply = yield qp.host, {"op": "ev_table", "qpn": qp.qpn}
        changed = 0
        for entry in (reply or {}).get("evs", ()):
            crossed = self._links(qp, entry["plane"], entry["ev"])
            hit = entry["ev"] in self.denials.evs or not self.denials.links.isdisjoint(crossed)
            if hit and entry["state"] != "DENIED":
                changed += yield from self._set_state(qp, entry["ev"], "DENIED")
        return changed

    def _set_state(self, qp: QpView, ev: int, state: str) -> Talk[int]:
        reply = yield qp.host, {"op": "ev_set_state", "qpn": qp.qpn, "ev": ev, "state": state}
        return int(bool((reply or {}).get("changed")))

    def _set_ports(self, link: str, *, up: bool) -> Talk[int]:
        host = self.plan.host(self.plan.link(link).a.node)
        port = next(nic.port for nic in host.nics if nic.link == link)
        reply = yield host.name, {"op": "set_port", "port": port, "up": up}
        return int(reply is not None and "port" in reply)


def incident_json(incident: Incident) -> Json:
    """An incident as events and `./lab ctl` show it. Times in ns, shares from 0 to 1; `joined`:
    the number of the incident that it turned out to be a part of."""
    return {
        "number": incident.number,
        "suspects": list(incident.suspects),
        "confidence": round(incident.confidence, 6),
        "loss": round(incident.loss, 6),
        "opened": incident.opened,
        "closed": incident.closed,
        "joined": incident.joined,
    }
