"""The operations of the control socket: JSON in, JSON out (docs/agent.md lists them)."""

from __future__ import annotations

import hashlib
import os
from collections import deque
from collections.abc import Callable
from dataclasses import asdict
from typing import TYPE_CHECKING

from hosts.agent import settings as st
from hosts.agent.control import Json, Later
from hosts.agent.controller import ControllerOps
from hosts.agent.fields import FieldError, Fields, address
from hosts.agent.loops import LoopOps, RunningLoops
from hosts.agent.rawsend import RawSend
from hosts.agent.workload import WR_ID_BASE, Workload, fill_random
from hosts.core.config import ConfigError
from hosts.core.endpoint import EndpointError
from hosts.core.events import Completion, Event, RecvCompletion, Status
from hosts.core.memory import MemoryRegion
from hosts.wire.frame import flow_template

if TYPE_CHECKING:
    from hosts.agent.driver import Driver

VERSION = 1
MAX_MEMORY = 1 << 32
KEPT_COMPLETIONS = 1 << 16

Op = Callable[[Fields], "Json | Later"]


class Operations:
    """What clients may ask of an agent. Every error is a reply."""

    def __init__(self, agent: Driver) -> None:
        self._agent = agent
        self._endpoint = agent.endpoint
        self._regions: dict[int, MemoryRegion] = {}
        self._qpns: set[int] = set()
        self._completions: deque[Json] = deque(maxlen=KEPT_COMPLETIONS)
        self._waiting: list[tuple[int, int, Later]] = []  # (at least, at most, who)
        self.workloads: dict[int, Workload] = {}
        self._stops: dict[int, list[Later]] = {}
        self.raw: list[RawSend | RunningLoops] = []
        self.controller = ControllerOps(agent, self._qpn)
        self.loops = LoopOps(agent, self.raw_start)
        self._ops: dict[str, Op] = {
            "hello": self.hello,
            "register_memory": self.register_memory,
            "deregister_memory": self.deregister_memory,
            "memory_hash": self.memory_hash,
            "memory_read": self.memory_read,
            "create_qp": self.create_qp,
            "connect_qp": self.connect_qp,
            "destroy_qp": self.destroy_qp,
            "post_write": self.post_write,
            "post_recv": self.post_recv,
            "poll": self.poll,
            "workload_start": self.workload_start,
            "workload_stop": self.workload_stop,
            "workload_status": self.workload_status,
            "ev_table": self.ev_table,
            "set_ev_denied": self.set_ev_denied,
            "set_port": self.set_port,
            "send_raw": self.send_raw,
            "stats": self.stats,
            "stop": self.stop,
            **self.controller.ops,
            **self.loops.ops,
        }

    def handle(self, request: Json) -> Json | Later:
        """Serve one request."""
        op = request.get("op")
        method = self._ops.get(op) if isinstance(op, str) else None
        if method is None:
            return {"ok": False, "error": f"op: {op!r} is none of {', '.join(self._ops)}"}
        fields = Fields(request)
        fields.text("op")
        try:
            reply = method(fields)
        except (FieldError, EndpointError, ConfigError) as error:
            return {"ok": False, "error": f"{op}: {error}"}
        except Exception as error:  # a fault of ours must not end the agent
            self._agent.report_error(f"control {op}", error)
            return {"ok": False, "error": f"{op}: internal error: {error!r}"}
        return reply if isinstance(reply, Later) else {"ok": True, **reply}

    # -- events from the loop -----------------------------------------------------------------

    def on_event(self, event: Event) -> None:
        """Completions feed workloads and `poll`; all go to the controller's operations."""
        self.controller.on_event(event)
        if isinstance(event, Completion):
            workload = self.workloads.get(event.qpn)
            ok = event.status == Status.SUCCESS
            if workload is not None and workload.on_completion(event.wr_id, ok):
                if not workload.drained:
                    workload.fill()
                self._end_drained(workload)
                return
            self._completed(
                event,
                {
                    "wr_id": event.wr_id,
                    "status": event.status.name,
                    "length": event.length,
                    "kind": "write",
                },
            )
        elif isinstance(event, RecvCompletion):
            self._completed(
                event,
                {
                    "wr_id": event.wr_id,
                    "status": event.status.name,
                    "length": event.length,
                    "kind": "recv",
                    "imm": event.imm,
                },
            )

    def _completed(self, event: Event, fields: Json) -> None:
        self._completions.append({"t": event.now, "qpn": event.qpn, **fields})
        while self._waiting and len(self._completions) >= self._waiting[0][0]:
            _, most, later = self._waiting.pop(0)
            later.answer(self._take(most))

    def _end_drained(self, workload: Workload) -> None:
        if workload.drained:
            for later in self._stops.pop(workload.qpn, ()):
                later.answer(workload.report())

    def raw_start(self, sender: RawSend | RunningLoops) -> None:
        """Have something that sends by itself served with the timers."""
        self.raw.append(sender)

    def raw_deadline(self) -> int | None:
        """When `serve_raw` wants to be called."""
        return min((raw.deadline() for raw in self.raw), default=None)

    def serve_raw(self, now: int) -> None:
        self.raw = [raw for raw in self.raw if not raw.serve(now)]

    # -- who are you --------------------------------------------------------------------------

    def hello(self, f: Fields) -> Json:
        f.done()
        agent = self._agent
        return {
            "name": agent.name,
            "pid": os.getpid(),
            "version": VERSION,
            "now": agent.clock(),
            "ports": {
                str(port): {"interface": nic.interface, "up": agent.port_up(port)}
                for port, nic in agent.nics.items()
            },
        }

    def stats(self, f: Fields) -> Json:
        f.done()
        agent = self._agent
        stats = asdict(self._endpoint.stats())
        stats["qps"] = {
            str(qpn): {**qp, "state": getattr(qp["state"], "name", qp["state"])}
            for qpn, qp in stats["qps"].items()
        }
        return {
            "now": agent.clock(),
            "endpoint": stats,
            "nics": {str(port): nic.stats() for port, nic in agent.nics.items()},
            "fidelity": agent.fidelity(),
            "workloads": {str(q): w.report() for q, w in self.workloads.items()},
            "errors": agent.errors,
        }

    def stop(self, f: Fields) -> Json:
        f.done()
        self._agent.stopping = True
        return {}

    # -- memory -------------------------------------------------------------------------------

    def register_memory(self, f: Fields) -> Json:
        length = f.integer("length", low=1, high=MAX_MEMORY)
        seed = f.integer("fill_seed", None)
        remote_write = f.flag("remote_write", True)
        f.flag("zero", True)  # the default without fill_seed
        f.done()
        region = self._register(length, remote_write)
        if seed is not None:
            fill_random(region.memory, seed)
        return {"va": region.va, "rkey": region.rkey, "length": region.length}

    def _register(self, length: int, remote_write: bool) -> MemoryRegion:
        try:
            region = self._endpoint.register_memory(length, remote_write=remote_write)
        except MemoryError:
            raise FieldError(f"length: {length} bytes do not fit this machine's memory") from None
        self._regions[region.rkey] = region
        return region

    def _region(self, f: Fields, key: str = "rkey") -> MemoryRegion:
        rkey = f.integer(key, low=0, high=0xFFFFFFFF)
        if rkey not in self._regions:
            raise FieldError(f"{f.name(key)}: {rkey:#x} is not registered here")
        return self._regions[rkey]

    def _span(self, f: Fields) -> memoryview:
        """Region and optional offset and length of a request."""
        region = self._region(f)
        offset = f.integer("offset", 0, 0, region.length)
        length = f.integer("length", region.length - offset, 0)
        if offset + length > region.length:
            raise FieldError(
                f"{f.name('length')}: {length} bytes at {offset} pass the end ({region.length})"
            )
        return region.memory[offset : offset + length]

    def deregister_memory(self, f: Fields) -> Json:
        region = self._region(f)
        f.done()
        self._endpoint.deregister_memory(region.rkey)
        del self._regions[region.rkey]
        return {}

    def memory_hash(self, f: Fields) -> Json:
        span = self._span(f)
        f.done()
        return {"sha256": hashlib.sha256(span).hexdigest(), "length": len(span)}

    def memory_read(self, f: Fields) -> Json:
        span = self._span(f)
        f.done()
        if len(span) > 1 << 20:
            raise FieldError("length: at most 1 MiB per read")
        return {"data": span.hex()}

    # -- QPs ----------------------------------------------------------------------------------

    def _qpn(self, f: Fields) -> int:
        qpn = f.integer("qpn", low=0, high=0xFFFFFF)
        if qpn not in self._qpns:
            raise FieldError(f"qpn: {qpn} does not exist here")
        return qpn

    def create_qp(self, f: Fields) -> Json:
        request = {key: f.mapping(key, {}) for key in ("rto", "ev", "cc") if f.has(key)}
        for key in (
            "mpr",
            "dynamic_mpr",
            "write_imm_limit",
            "first_psn",
            "trim_nack",
            "svc_time",
            "cc_profile",
        ):
            if f.has(key):
                request[key] = f.raw(key)
        f.done()
        config = st.qp_config(Fields(request), self._agent.settings.qp)
        mine = self._endpoint.create_qp(config)
        self._qpns.add(mine.qpn)
        return st.peer_to_json(mine)

    def connect_qp(self, f: Fields) -> Json:
        qpn = self._qpn(f)
        peer = st.peer_from_json(f.object("peer"))
        f.done()
        self._endpoint.connect_qp(qpn, peer, self._agent.clock())
        return {}

    def destroy_qp(self, f: Fields) -> Json:
        qpn = self._qpn(f)
        f.done()
        self._endpoint.destroy_qp(qpn, self._agent.clock())
        self._qpns.discard(qpn)
        workload = self.workloads.pop(qpn, None)
        if workload is not None:
            for later in self._stops.pop(qpn, ()):
                later.error(f"workload_stop: qpn {qpn} was destroyed")
        return {}

    def post_write(self, f: Fields) -> Json:
        """`source` {rkey, offset, length} or `data` (hex)."""
        qpn = self._qpn(f)
        wr_id = f.integer("wr_id", 0, 0, WR_ID_BASE - 1)
        remote_va = f.integer("remote_va", low=0, high=(1 << 64) - 1)
        rkey = f.integer("rkey", low=0, high=0xFFFFFFFF)
        imm = f.integer("imm", None, 0, 0xFFFFFFFF)
        source: bytes | memoryview
        if f.has("data"):
            source = f.hex("data")
        else:
            given = f.object("source")
            source = self._span(given)
            given.done()
        f.done()
        self._endpoint.post_write(qpn, wr_id, source, remote_va, rkey, imm)
        return {}

    def post_recv(self, f: Fields) -> Json:
        """`count` receive work requests, wr_id counting up."""
        qpn = self._qpn(f)
        wr_id = f.integer("wr_id", 0, 0)
        count = f.integer("count", 1, 1, 1 << 16)
        f.done()
        for i in range(count):
            self._endpoint.post_recv(qpn, wr_id + i)
        return {}

    def poll(self, f: Fields) -> Json | Later:
        """Completions; with `min` the reply waits until there are so many."""
        least = f.integer("min", 0, 0, KEPT_COMPLETIONS)
        most = f.integer("max", 1024, 1, KEPT_COMPLETIONS)
        f.done()
        if len(self._completions) >= least:
            return self._take(most)
        later = Later()
        self._waiting.append((least, most, later))
        return later

    def _take(self, most: int) -> Json:
        count = min(most, len(self._completions))
        return {"completions": [self._completions.popleft() for _ in range(count)]}

    # -- workloads ----------------------------------------------------------------------------

    def workload_start(self, f: Fields) -> Json:
        """Steady writes over a remote region, `window` messages outstanding."""
        qpn = self._qpn(f)
        message = f.integer("message_bytes", low=8, high=1 << 30)
        window = f.integer("window", 8, 1, 1 << 16)
        region_bytes = f.integer("region_bytes", message * window, 1, MAX_MEMORY)
        remote_va = f.integer("remote_va", low=0, high=(1 << 64) - 1)
        rkey = f.integer("rkey", low=0, high=0xFFFFFFFF)
        seed = f.integer("seed", 0)
        limit = f.integer("messages", None, 1)
        f.done()
        if region_bytes < message:
            raise FieldError(f"region_bytes: {region_bytes} is less than one message ({message})")
        running = self.workloads.get(qpn)
        if running is not None and not running.drained:
            raise FieldError(f"qpn: a workload already runs on {qpn}; stop it first")
        source = self._register(region_bytes, remote_write=False)
        fill_random(source.memory, seed)
        workload = Workload(
            self._endpoint,
            source,
            qpn=qpn,
            remote_va=remote_va,
            rkey=rkey,
            message_bytes=message,
            window=window,
            limit=limit,
            stamp_bytes=self._agent.settings.endpoint.pmtu,
        )
        workload.fill()
        self.workloads[qpn] = workload
        return workload.report()

    def workload_stop(self, f: Fields) -> Json | Later:
        """Stop posting; the reply comes when all that was posted has completed, with `wait`
        false at once."""
        workload = self._workload(f)
        wait = f.flag("wait", True)
        f.done()
        workload.stopping = True
        if not wait:
            self._end_drained(workload)
            return workload.report()
        later = Later()
        self._stops.setdefault(workload.qpn, []).append(later)
        self._end_drained(workload)
        return later

    def workload_status(self, f: Fields) -> Json:
        workload = self._workload(f)
        f.done()
        return {**workload.report(), "drained": workload.drained}

    def _workload(self, f: Fields) -> Workload:
        qpn = self._qpn(f)
        if qpn not in self.workloads:
            raise FieldError(f"qpn: no workload was started on {qpn}")
        return self.workloads[qpn]

    # -- EVs and ports ------------------------------------------------------------------------

    def ev_table(self, f: Fields) -> Json:
        qpn = self._qpn(f)
        f.done()
        return {
            "evs": [
                {**asdict(info), "state": info.state.name} for info in self._endpoint.ev_table(qpn)
            ]
        }

    def set_ev_denied(self, f: Fields) -> Json:
        qpn = self._qpn(f)
        ev = f.integer("ev", low=0, high=0xFFFFFFFF)
        denied = f.flag("denied")
        f.done()
        self._endpoint.set_ev_denied(qpn, ev, denied, self._agent.clock())
        return {}

    def set_port(self, f: Fields) -> Json:
        """Administrative state of a local port; it is up when it also has a carrier."""
        port = self._port(f, "port")
        up = f.flag("up")
        f.done()
        self._agent.set_admin(port, up)
        return {"port": port, "up": self._agent.port_up(port)}

    def _port(self, f: Fields, key: str, offset: int = 0) -> int:
        port = f.integer(key, low=0) + offset
        if port not in self._agent.nics:
            known = ", ".join(str(p - offset) for p in self._agent.nics)
            raise FieldError(f"{key}: {port - offset} is none of {known}")
        return port

    def send_raw(self, f: Fields) -> Later:
        """Self-test packets to `dst` on a plane: `count` per EV, `interval_ns` apart."""
        agent = self._agent
        port = self._port(f, "plane", 1)
        dst = address(f.text("dst"), "dst")
        evs = f.integers("evs", 0, 0xFFFFFFFF)
        size = f.integer("size", 4096, 0, 8192)
        ecn = f.integer("ecn", 2, 0, 3)
        dscp = f.integer("dscp", agent.settings.endpoint.dscp.trimmable, 0, 63)
        count = f.integer("count", 1, 1, 1 << 20)
        interval = f.integer("interval_ns", 0, 0)
        f.done()
        if not evs:
            raise FieldError("evs: at least one EV is needed")
        config = next(p for p in agent.settings.endpoint.ports if p.port == port)
        if len(dst) != len(config.ip):
            raise FieldError("dst: not the IP version of the port")
        endpoint = agent.settings.endpoint
        template = flow_template(
            config.mac,
            config.gateway_mac,
            config.ip,
            dst,
            endpoint.udp_port,
            packing=endpoint.ev_packing,
            hop_limit=endpoint.hop_limit,
            encap=None if endpoint.encap is None else endpoint.encap.get(dst),
        )
        later = Later()
        now = agent.clock()
        raw = RawSend(
            agent.nics[port],
            template,
            evs=evs,
            size=size,
            ecn=ecn,
            dscp=dscp,
            count=count,
            interval_ns=interval,
            now=now,
            done=later.answer,
        )
        self.raw.append(raw)
        return later
