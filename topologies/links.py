"""Faults and repairs of links, by value and read back.

`LinkControl` holds the wanted state of every link: up or cut, and what it does to frames in
each direction. Each call replaces the part it names, writes the whole of what is wanted and
returns only when the kernel (both interfaces) and the switches (both ports) say the same;
otherwise `LinkError`. Repeating a call changes nothing.

A cut is the administrative down of the interface at the link's ``b`` end, which is always a
switch: both ends lose their carrier, as when a fibre is pulled. Loss, corruption and
blackholes are settings of the switch port that sends.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from topologies import netlink
from topologies.kernel import EndStats, Namespaces
from topologies.netlink import LinkInfo
from topologies.plan import LinkEnd, LinkPlan, Plan
from topologies.waiting import looks

Direction = Literal["both", "up", "down"]
"""up: from the link's ``a`` end (the lower tier) to ``b``; down: from ``b`` to ``a``."""


class LinkError(Exception):
    """A link could not be brought to the wanted state. One line, with the link's name."""


class Ctl(Protocol):
    """What is needed of a switch's side channel (softswitch.ctl.CtlClient)."""

    def ports(self) -> Mapping[int, Mapping[str, Any]]:
        """Port -> {"name", "up", "config"}."""
        ...

    def set_port(self, port: int, **config: Any) -> Mapping[str, Any]:
        """Change settings of a port; the whole configuration as read back."""
        ...


@dataclass(frozen=True)
class Impairment:
    """What one direction of a link does to frames."""

    loss: float = 0.0
    """Share of frames dropped at random."""
    corrupt: float = 0.0
    """Share of frames with one random bit flipped."""
    blackhole: bool = False
    """Everything is dropped while the port stays up."""

    def __str__(self) -> str:
        shares = (("loss", self.loss), ("corruption", self.corrupt))
        parts = [f"{share:.3%} {name}" for name, share in shares if share]
        return ", ".join([*parts, *(["a blackhole"] if self.blackhole else [])]) or "no impairment"


NO_IMPAIRMENT = Impairment()


@dataclass(frozen=True)
class EndState:
    """One end of a link as it is."""

    node: str
    port: int
    ifname: str
    admin_up: bool
    """The interface is administratively up."""
    running: bool
    """It is up and has a carrier."""
    switch_up: bool | None
    """The switch takes the port for up; None for hosts and switches without side channel."""

    @property
    def up(self) -> bool:
        """Everything there is says up."""
        return self.running and self.switch_up is not False


@dataclass(frozen=True)
class LinkState:
    """A link as it is: both ends as reported, impairments as read back when they were set."""

    link: str
    a: EndState
    b: EndState
    impaired_up: Impairment = NO_IMPAIRMENT
    impaired_down: Impairment = NO_IMPAIRMENT

    @property
    def up(self) -> bool:
        """Frames pass in both directions (impairments aside)."""
        return self.a.up and self.b.up

    @property
    def down(self) -> bool:
        """Neither end takes the link for up."""
        ends = (self.a, self.b)
        return not any(end.running or end.switch_up for end in ends)

    def __str__(self) -> str:
        """``(OK OK)``, or what is wrong at which end and in which direction."""
        ends = [("OK" if end.up else _describe(end)) for end in (self.a, self.b)]
        harm = [
            f"{end.node} sends with {impairment}"
            for end, impairment in ((self.a, self.impaired_up), (self.b, self.impaired_down))
            if impairment != NO_IMPAIRMENT
        ]
        return "; ".join([f"({' '.join(ends)})" if self.up else f"DOWN: {', '.join(ends)}", *harm])


class LinkControl:
    """Cuts, repairs and impairs the links of a running fabric. Thread-safe.

    ``ctl``: switch name -> its side channel, looked up at every use. What is not in it (bmv2,
    a switch that was stopped) can't be impaired and is checked through the kernel only.
    """

    LIMIT_SECONDS = 10.0
    """How long an end may take to show the wanted state; milliseconds are usual."""
    POLL_SECONDS = 0.002

    def __init__(self, plan: Plan, spaces: Namespaces, ctl: Mapping[str, Ctl]) -> None:
        self._plan = plan
        self._spaces = spaces
        self._ctl = ctl
        self._lock = threading.RLock()
        self._impaired: dict[tuple[str, str], Impairment] = {}

    # --- faults ---

    def cut(self, link: str) -> LinkState:
        """Take a link down. Returns when both ends see it down."""
        with self._lock:
            plan = self._plan.link(link)
            self._set_admin(plan, up=False)
            return self._await(plan, lambda s: s.down, "down")

    def repair(self, link: str) -> LinkState:
        """Bring a link up. Returns when both ends see it up."""
        with self._lock:
            plan = self._plan.link(link)
            self._set_admin(plan, up=True)
            return self._await(plan, lambda s: s.up, "up")

    def impair(
        self,
        link: str,
        *,
        loss: float = 0.0,
        corrupt: float = 0.0,
        blackhole: bool = False,
        direction: Direction = "both",
    ) -> LinkState:
        """Set what a link does to frames in a direction; what is not given is cleared.

        Raises LinkError (also for a direction that no switch port can impair),
        UnknownNameError for a link that does not exist, ValueError for a share outside 0..1.
        """
        for name, share in (("loss", loss), ("corrupt", corrupt)):
            if not 0 <= share <= 1:
                raise ValueError(f"{name} is a share between 0 and 1, found {share}")
        if direction not in ("both", "up", "down"):
            raise ValueError(f"direction is both, up or down, found {direction!r}")
        wanted = Impairment(float(loss), float(corrupt), blackhole)
        with self._lock:
            plan = self._plan.link(link)
            ways = ("up", "down") if direction == "both" else (direction,)
            writes = [(way, *self._fields(plan, way, wanted)) for way in ways]
            for way, switch, port, fields in writes:
                self._write(plan, switch, port, fields)
                self._impaired[link, way] = wanted
            return self.state(link)

    def clear(self, link: str) -> LinkState:
        """No impairment in either direction, and up."""
        with self._lock:
            for way in ("up", "down"):
                if self._impaired.get((link, way), NO_IMPAIRMENT) != NO_IMPAIRMENT:
                    self.impair(link, direction="up" if way == "up" else "down")
            return self.repair(link)

    def clear_all(self) -> None:
        """Every link up and without impairment."""
        for link in self._plan.links:
            self.clear(link)

    def restore(self, switch: str) -> None:
        """Set the wanted impairments again on a switch that was started anew."""
        with self._lock:
            for (link, way), wanted in self._impaired.items():
                plan = self._plan.link(link)
                name, port, fields = self._fields(plan, way, wanted)
                if name == switch:
                    self._write(plan, name, port, fields)

    # --- what is ---

    def state(self, link: str) -> LinkState:
        """A link as kernel and switches report it now."""
        with self._lock:
            plan = self._plan.link(link)
            infos = {e.ifname: self._info(plan, e) for e in (plan.a, plan.b)}
            ports = {n: self._ports(plan, n) for n in (plan.a.node, plan.b.node) if n in self._ctl}
            return self._compose(plan, infos, ports)

    def states(self) -> dict[str, LinkState]:
        """Every link, from one dump per namespace and one request per switch."""
        with self._lock:
            infos = self._spaces.links()
            ports = {name: ctl.ports() for name, ctl in self._ctl.items()}
            return {n: self._compose(link, infos, ports) for n, link in self._plan.links.items()}

    def down_links(self) -> frozenset[str]:
        """Names of the links that are not up, for topologies.paths."""
        return frozenset(name for name, state in self.states().items() if not state.up)

    def stats(self) -> dict[str, EndStats]:
        """Kernel counters of both ends of every link, for the conservation ledger."""
        with self._lock:
            return self._spaces.stats(self._plan)

    # --- inside ---

    def _host(self, plan: LinkPlan, end: LinkEnd) -> str | None:
        return end.node if plan.kind == "host" and end is plan.a else None

    def _info(self, plan: LinkPlan, end: LinkEnd) -> LinkInfo:
        try:
            return self._spaces.netlink(self._host(plan, end)).link(end.ifname)
        except OSError as error:
            raise LinkError(f"{plan.name}: {error}") from None

    def _ports(self, plan: LinkPlan, switch: str) -> Mapping[int, Mapping[str, Any]]:
        try:
            return self._ctl[switch].ports()
        except Exception as error:  # CtlError; not imported, so that any switch can be used
            raise LinkError(f"{plan.name}: {error}") from None

    def _compose(
        self,
        plan: LinkPlan,
        infos: Mapping[str, LinkInfo],
        ports: Mapping[str, Mapping[int, Mapping[str, Any]]],
    ) -> LinkState:
        def end(place: LinkEnd) -> EndState:
            info = infos[place.ifname]
            port = ports.get(place.node, {}).get(place.port)
            return EndState(
                place.node,
                place.port,
                place.ifname,
                bool(info.flags & netlink.IFF_UP),
                info.up,
                None if port is None else bool(port["up"]),
            )

        return LinkState(
            plan.name,
            end(plan.a),
            end(plan.b),
            self._impaired.get((plan.name, "up"), NO_IMPAIRMENT),
            self._impaired.get((plan.name, "down"), NO_IMPAIRMENT),
        )

    def _set_admin(self, plan: LinkPlan, *, up: bool) -> None:
        info = self._info(plan, plan.b)
        try:
            self._spaces.netlink(None).send([netlink.set_up(info.index, info.name, up)])
        except OSError as error:
            raise LinkError(f"{plan.name}: {error}") from None

    def _await(self, plan: LinkPlan, holds: Callable[[LinkState], bool], word: str) -> LinkState:
        for _ in looks(self.LIMIT_SECONDS, self.POLL_SECONDS):
            state = self.state(plan.name)
            if holds(state):
                return state
        seen = "; ".join(_describe(end) for end in (state.a, state.b))
        raise LinkError(f"{plan.name}: not {word} after {self.LIMIT_SECONDS:g} s: {seen}")

    def _fields(
        self, plan: LinkPlan, way: str, wanted: Impairment
    ) -> tuple[str, int, dict[str, Any]]:
        """The switch port that impairs one direction, and its settings for that."""
        sender, receiver = (plan.a, plan.b) if way == "up" else (plan.b, plan.a)
        prefix = ""
        if self._host(plan, sender) is not None:
            sender, prefix = receiver, "rx_"  # the host has no port settings; its T0 port may
        names = {f"{prefix}{key}": value for key, value in vars(wanted).items()}
        if sender.node not in self._ctl:
            raise LinkError(f"{plan.name}: {sender.node} has no port settings; it can only be cut")
        config = self._ports(plan, sender.node).get(sender.port, {}).get("config", {})
        if not config:
            raise LinkError(
                f"{plan.name}: {sender.node} is bmv2, which can't impair a link; it can only be cut"
            )
        if not set(names) <= set(config):
            raise LinkError(
                f"{plan.name}: this switch can't impair what a host sends; "
                "use direction down, or cut the link"
            )
        return sender.node, sender.port, names

    def _write(self, plan: LinkPlan, switch: str, port: int, fields: dict[str, Any]) -> None:
        wanted = {**self._plan.switch(switch).ports[port].config.as_dict()}
        # The whole port, not a difference: rate, delays and limits from the plan, and the
        # other direction's part as it is wanted.
        current = self._ctl[switch].ports()[port]["config"]
        wanted.update({k: v for k, v in current.items() if k in _IMPAIRMENT_FIELDS})
        wanted.update(fields)
        try:
            found = self._ctl[switch].set_port(port, **wanted)
        except Exception as error:
            raise LinkError(f"{plan.name}: {error}") from None
        for key, value in wanted.items():
            if found.get(key) != value:
                raise LinkError(
                    f"{plan.name}: {switch} port {port}: {key} is {found.get(key)}, wanted {value}"
                )


_IMPAIRMENT_FIELDS = {f"{p}{n}" for p in ("", "rx_") for n in ("loss", "corrupt", "blackhole")}


def _describe(end: EndState) -> str:
    seen = "up" if end.running else "down"
    switch = {None: "", True: ", switch says up", False: ", switch says down"}[end.switch_up]
    return f"{end.ifname} is {seen}{switch}"
