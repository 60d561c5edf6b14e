"""Operations for an MRC controller: profiles, EV states, probes, windows, events with masks.

README.md in this folder shows each with an example.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from ipaddress import ip_address
from typing import TYPE_CHECKING

from hosts.agent import forms
from hosts.agent import settings as st
from hosts.agent.control import Json, Later
from hosts.agent.eventlog import describe
from hosts.agent.fields import FieldError, Fields, address
from hosts.core.cc.registry import REGISTRY
from hosts.core.config import CcConfig
from hosts.core.endpoint import Endpoint
from hosts.core.ev.profile import ProfileInput
from hosts.core.ev.selector import SELECTORS
from hosts.core.events import Event, EvProbeResult, EvState, EvStateChange, PathProbeResult
from hosts.core.interop import PROFILES
from hosts.core.profiles import Profiles

if TYPE_CHECKING:
    from hosts.agent.driver import Driver

KEPT_EVENTS = 1 << 16
SUBSCRIPTIONS_MAX = 64
PROBES_MAX = 4096

Op = Callable[[Fields], "Json | Later"]
_STEPS = {what.value: what for what in ProfileInput}
_STATES = {k: v for k, v in forms.STATES.items() if k != "SKIP"}


class Subscription:
    """Events of some kinds, kept until they are fetched. The oldest go when nobody does."""

    def __init__(self, types: frozenset[str], states: frozenset[str], qpns: frozenset[int]) -> None:
        self.types, self.states, self.qpns = types, states, qpns
        self.kept: deque[Json] = deque(maxlen=KEPT_EVENTS)
        self.lost = 0
        self.waiting: list[tuple[int, int, Later]] = []  # (at least, at most, who)

    def offer(self, data: Json) -> None:
        if self.types and data["type"] not in self.types:
            return
        if self.states and data["type"] == "ev_state" and data["to"] not in self.states:
            return
        if self.qpns and data.get("qpn") not in self.qpns:
            return
        self.lost += len(self.kept) == KEPT_EVENTS
        self.kept.append(data)
        while self.waiting and len(self.kept) >= self.waiting[0][0]:
            _, most, later = self.waiting.pop(0)
            later.answer(self.take(most))

    def take(self, most: int) -> Json:
        lost, self.lost = self.lost, 0
        count = min(most, len(self.kept))
        return {"events": [self.kept.popleft() for _ in range(count)], "lost": lost}


class ControllerOps:
    """See the module."""

    def __init__(self, agent: Driver, qpn_of: Callable[[Fields], int]) -> None:
        self._agent = agent
        self._endpoint = agent.endpoint
        self._qpn = qpn_of
        self._subscriptions: dict[int, Subscription] = {}
        self._next_id = 1
        self._ev_probes: dict[tuple[int, int], list[Later]] = {}
        self._path_probes: dict[int, Later] = {}
        self.ops: dict[str, Op] = {
            "interop": self.interop,
            "qps": self.qps,
            "qp": self.qp,
            "traffic": self.traffic,
            "modify_qp": self.modify_qp,
            "ev_profile_create": self.ev_profile_create,
            "ev_profile_modify": self.ev_profile_modify,
            "ev_profile_state": self.ev_profile_state,
            "ev_profile_write": self.ev_profile_write,
            "ev_profile_replace": self.ev_profile_replace,
            "ev_profile_set_state": self.ev_profile_set_state,
            "ev_profile_query": self.ev_profile_query,
            "ev_profile_destroy": self.ev_profile_destroy,
            "ev_set_state": self.ev_set_state,
            "ev_replace": self.ev_replace,
            "denylist": self.denylist,
            "cc_profile_set": self.cc_profile_set,
            "cc_profile_query": self.cc_profile_query,
            "probe_ev": self.probe_ev,
            "probe_path": self.probe_path,
            "path_failure": self.path_failure,
            "set_receive_window": self.set_receive_window,
            "set_receiver_penalty": self.set_receiver_penalty,
            "ports": self.ports,
            "subscribe": self.subscribe,
            "events": self.events,
            "unsubscribe": self.unsubscribe,
        }

    @property
    def _profiles(self) -> Profiles:
        return self._endpoint.profiles

    def _now(self) -> int:
        return self._agent.clock()

    # -- QPs ----------------------------------------------------------------------------------

    def interop(self, f: Fields) -> Json:
        """Our interop profile, and the names of all; likewise selectors and CC algorithms."""
        f.done()
        return {
            "own": forms.interop_to_json(self._endpoint.config.interop),
            "profiles": {name: forms.interop_to_json(p) for name, p in PROFILES.items()},
            "selectors": list(SELECTORS),
            "cc": list(REGISTRY),
        }

    def qps(self, f: Fields) -> Json:
        f.done()
        return {"qps": [forms.qp_to_json(qp) for qp in self._endpoint.all_qps()]}

    def qp(self, f: Fields) -> Json:
        qpn = self._qpn(f)
        f.done()
        return forms.qp_to_json(self._endpoint.query_qp(qpn))

    def traffic(self, f: Fields) -> Json:
        """Data packets sent and taken for lost by each QP, ever: cheap enough to ask often."""
        f.done()
        qps = self._endpoint.stats().qps.values()
        return {
            "t": self._now(),
            "qps": {str(qp.qpn): {"sent": qp.sent_packets, "lost": qp.lost_inferred} for qp in qps},
        }

    def modify_qp(self, f: Fields) -> Json:
        """`to`: error, reset or init (with `config`; the reply is then what the peer must be
        told)."""
        qpn = self._qpn(f)
        to = f.choice("to", {"error": 0, "reset": 1, "init": 2})
        if to == 2:
            given = f.object("config", {})
            f.done()
            base = self._endpoint.query_qp(qpn).config
            info = self._endpoint.init_qp(qpn, self._now(), st.qp_config(given, base))
            return st.peer_to_json(info)
        f.done()
        if to == 0:
            self._endpoint.fail_qp(qpn, self._now())
        else:
            self._endpoint.reset_qp(qpn, self._now())
        return {}

    # -- EV profiles --------------------------------------------------------------------------

    def ev_profile_create(self, f: Fields) -> Json:
        profile = self._profiles.create_ev(forms.spec_from_json(f))
        return {"name": profile.name, "state": profile.state.value}

    def ev_profile_modify(self, f: Fields) -> Json:
        """All figures anew, while not ONLINE. Entries are made anew when they depend on them."""
        profile = self._profiles.modify_ev(forms.spec_from_json(f))
        return {"name": profile.name, "state": profile.state.value}

    def ev_profile_state(self, f: Fields) -> Json:
        """`do`: load, enable, disable, unload."""
        name, step = f.text("name"), f.choice("do", _STEPS)
        f.done()
        profile = self._profiles.move_ev(name, step)
        return {"name": name, "state": profile.state.value}

    def ev_profile_write(self, f: Fields) -> Json:
        """`values` of a port from `index` on; with SRv6 formats also the `evs` on the wire."""
        profile = self._profiles.ev_named(f.text("name"))
        port = f.integer("port", low=1, high=32)
        index = f.integer("index", 0, 0)
        values = [forms.number(v, "values") for v in f.items("values")]
        evs = f.integers("evs", 0, 0xFFFFFFFF, [])
        f.done()
        if evs and len(evs) != len(values):
            raise FieldError(f"evs: {len(evs)} for {len(values)} values")
        for i, value in enumerate(values):
            profile.write(port, index + i, value, evs[i] if evs else None)
        return {"written": len(values)}

    def ev_profile_replace(self, f: Fields) -> Json:
        name = f.text("name")
        old, new = (f.integer(key, low=0, high=0xFFFFFFFF) for key in ("old", "new"))
        path = forms.path_from_json(f.raw("outer"), "outer") if f.has("outer") else None
        f.done()
        return {"qps": self._profiles.replace_ev(name, old, new, self._now(), path)}

    def ev_profile_set_state(self, f: Fields) -> Json:
        """`evs` to `state` on every QP of the profile."""
        name, state = f.text("name"), f.choice("state", _STATES)
        evs = f.integers("evs", 0, 0xFFFFFFFF)
        f.done()
        changed = 0
        for ev in evs:
            changed += len(self._profiles.set_ev_state(name, ev, state, self._now()))
        return {"changed": changed}

    def ev_profile_query(self, f: Fields) -> Json:
        """One profile, or all of them."""
        name = f.text("name", "")
        f.done()
        names = [name] if name else list(self._profiles.ev)
        return {"profiles": [self._profiles.describe_ev(n) for n in names]}

    def ev_profile_destroy(self, f: Fields) -> Json:
        name = f.text("name")
        f.done()
        self._profiles.destroy_ev(name)
        return {}

    # -- single EVs ---------------------------------------------------------------------------

    def ev_set_state(self, f: Fields) -> Json:
        qpn = self._qpn(f)
        ev = f.integer("ev", low=0, high=0xFFFFFFFF)
        state: EvState = f.choice("state", _STATES)
        f.done()
        return {"changed": self._endpoint.set_ev_state(qpn, ev, state, self._now())}

    def ev_replace(self, f: Fields) -> Json:
        qpn = self._qpn(f)
        old, new = (f.integer(key, low=0, high=0xFFFFFFFF) for key in ("old", "new"))
        path = forms.path_from_json(f.raw("outer"), "outer") if f.has("outer") else None
        f.done()
        self._endpoint.replace_ev(qpn, old, new, self._now(), path)
        return {}

    def denylist(self, f: Fields) -> Json:
        """`evs` to DENIED (or back to GOOD) on every QP, or those to the peer with address `dst`;
        EVs that a QP does not have are passed over."""
        evs = f.integers("evs", 0, 0xFFFFFFFF)
        denied = f.flag("denied", True)
        dst = address(f.text("dst"), "dst") if f.has("dst") else None
        f.done()
        changed = 0
        for qp in self._endpoint.all_qps():
            if dst is not None and (qp.peer is None or dst not in qp.peer.ips.values()):
                continue
            for ev in evs:
                entry = qp.evs.by_ev.get(ev)
                if entry is None or (not denied and entry.state is not EvState.DENIED):
                    continue
                state = EvState.DENIED if denied else EvState.GOOD
                changed += self._endpoint.set_ev_state(qp.qpn, ev, state, self._now())
        return {"changed": changed}

    # -- congestion control -------------------------------------------------------------------

    def cc_profile_set(self, f: Fields) -> Json:
        """Create or change; QPs on it are switched over at once."""
        name = f.text("name")
        base = self._profiles.cc.get(name, self._agent.settings.qp.cc)
        config = CcConfig(
            f.text("cc", base.name),
            f.integer("base_rtt_ns", base.base_rtt_ns, 1),
            dict(f.mapping("params", {})),
        )
        f.done()
        return {"qps": self._endpoint.set_cc_profile(name, config)}

    def cc_profile_query(self, f: Fields) -> Json:
        f.done()
        return {
            "profiles": {
                name: {"cc": cc.name, "base_rtt_ns": cc.base_rtt_ns, "params": dict(cc.params)}
                for name, cc in self._profiles.cc.items()
            }
        }

    # -- probes -------------------------------------------------------------------------------

    def probe_ev(self, f: Fields) -> Json | Later:
        """An EV probe; a probe_result event follows. With `wait` the reply has the result."""
        qpn = self._qpn(f)
        ev = f.integer("ev", low=0, high=0xFFFFFFFF)
        timeout = f.integer("timeout_ns", None, 1)
        wait = f.flag("wait", False)
        f.done()
        self._endpoint.probe_ev(qpn, ev, self._now(), timeout)
        if not wait:
            return {}
        later = Later()
        self._ev_probes.setdefault((qpn, ev), []).append(later)
        return later

    def probe_path(self, f: Fields) -> Later:
        """A probe to `dst` (default: ourselves, a loop), with `outer` along SRv6 addresses."""
        port = f.integer("port", low=1, high=32)
        ev = f.integer("ev", 0xC000, 0, 0xFFFFFFFF)
        local = {p.port: p.ip for p in self._endpoint.config.ports}
        if port not in local:
            raise FieldError(f"port: {port} is none of {', '.join(map(str, local))}")
        dst = address(f.text("dst"), "dst") if f.has("dst") else local[port]
        path = forms.path_from_json(f.raw("outer"), "outer") if f.has("outer") else None
        timeout = f.integer("timeout_ns", None, 1)
        f.done()
        if len(self._path_probes) >= PROBES_MAX:
            raise FieldError(f"probe_path: {PROBES_MAX} probes are out already")
        token, self._next_id = self._next_id, self._next_id + 1
        self._endpoint.probe_path(
            port, dst, ev, self._now(), path=path, token=token, timeout_ns=timeout
        )
        later = self._path_probes[token] = Later()
        return later

    def path_failure(self, f: Fields) -> Json:
        """The path of an EV failed here: ASSUMED_BAD on every QP that has it on this port."""
        port = f.integer("port", low=1, high=32)
        ev = f.integer("ev", low=0, high=0xFFFFFFFF)
        f.done()
        return {"changed": self._endpoint.path_failure(port, ev, self._now())}

    # -- windows and ports --------------------------------------------------------------------

    def set_receive_window(self, f: Fields) -> Json:
        qpn = self._qpn(f)
        mpr = f.integer("mpr", low=1, high=255)
        f.done()
        self._endpoint.set_receive_window(qpn, mpr)
        return {}

    def set_receiver_penalty(self, f: Fields) -> Json:
        penalty = f.integer("penalty", low=0, high=127)
        f.done()
        self._endpoint.set_receiver_penalty(penalty)
        return {}

    def ports(self, f: Fields) -> Json:
        """Local ports with their state, and what each peer said of its own."""
        f.done()
        return {"ports": self._endpoint.port_states(), "peers": self._endpoint.peer_masks()}

    # -- events -------------------------------------------------------------------------------

    def subscribe(self, f: Fields) -> Json:
        """`types` of events, `states` that EVs enter, `qpns`; what is empty does not limit."""
        types = frozenset(map(str, f.items("types", [])))
        states = frozenset(map(str, f.items("states", [])))
        qpns = frozenset(f.integers("qpns", 0, 0xFFFFFF, []))
        f.done()
        wrong = states - set(forms.STATES)
        if wrong:
            raise FieldError(f"states: {min(wrong)!r} must be one of {', '.join(forms.STATES)}")
        if len(self._subscriptions) >= SUBSCRIPTIONS_MAX:
            raise FieldError(f"subscribe: {SUBSCRIPTIONS_MAX} subscriptions already")
        key, self._next_id = self._next_id, self._next_id + 1
        self._subscriptions[key] = Subscription(types, states, qpns)
        return {"id": key}

    def _subscription(self, f: Fields) -> Subscription:
        key = f.integer("id")
        if key not in self._subscriptions:
            raise FieldError(f"id: no subscription {key}")
        return self._subscriptions[key]

    def events(self, f: Fields) -> Json | Later:
        """What came since the last call; with `min` the reply waits for so many."""
        subscription = self._subscription(f)
        least = f.integer("min", 0, 0, KEPT_EVENTS)
        most = f.integer("max", 1024, 1, KEPT_EVENTS)
        f.done()
        if len(subscription.kept) >= least:
            return subscription.take(most)
        later = Later()
        subscription.waiting.append((least, most, later))
        return later

    def unsubscribe(self, f: Fields) -> Json:
        gone = self._subscription(f)
        key = f.integer("id")
        f.done()
        del self._subscriptions[key]
        for _, most, later in gone.waiting:
            later.answer(gone.take(most))
        return {}

    def on_event(self, event: Event) -> None:
        """An event of the endpoint: for subscribers, and for who waits for a probe."""
        if type(event) is EvProbeResult:
            for later in self._ev_probes.pop((event.qpn, event.ev), ()):
                later.answer(_probe_reply(event))
        elif type(event) is PathProbeResult:
            waiting = self._path_probes.pop(event.token, None)
            if waiting is not None:
                waiting.answer(_probe_reply(event))
        if self._subscriptions:
            shown = {"t": event.now, **describe(event)}
            if type(event) is EvStateChange:
                shown.update(path_info(self._endpoint, event.qpn, event.plane + 1, event.ev))
            for subscription in self._subscriptions.values():
                subscription.offer(shown)


def _probe_reply(event: Event) -> Json:
    return {"t": event.now, **{k: v for k, v in describe(event).items() if k != "type"}}


def path_info(endpoint: Endpoint, qpn: int, port: int, ev: int) -> Json:
    """Which way an EV of a QP goes: both addresses of the plane, and the outer ones of SRv6."""
    qp = endpoint.find_qp(qpn)
    if qp is None or qp.peer is None or port not in qp.peer.ips:
        return {}
    local = next(p.ip for p in endpoint.config.ports if p.port == port)
    shown: Json = {"src_ip": str(ip_address(local)), "dst_ip": str(ip_address(qp.peer.ips[port]))}
    path = endpoint.outer_path(qpn, port, ev)
    if path is not None:
        shown["outer"] = forms.path_to_json(path)
    return shown
