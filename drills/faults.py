"""Faults. Each is an object: check that it can be made, make it, see that it is there, heal
it, see that it is gone. `topologies.links` makes the change and reads both ends back."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Protocol

from drills.api import Links
from drills.format import (
    FaultSpec,
    LinkBlackhole,
    LinkCorrupt,
    LinkDown,
    LinkLoss,
    SwitchDown,
    links_of_switch,
)


class FaultError(Exception):
    """A fault cannot be made or is not what it should be. One line."""


class Fault(Protocol):
    """One fault of a drill's timeline."""

    kind: str
    target: str
    links: tuple[str, ...]

    def set_up(self) -> None:
        """Check that the fault can be made, without making it. Raises on failure."""

    def invoke(self) -> None:
        """Make the fault."""

    def read_back(self) -> str | None:
        """None when the fabric is in the faulty state, else what is not as it should be."""

    def heal(self) -> None:
        """Undo the fault. Harmless when it was not made."""

    def read_healed(self) -> str | None:
        """None when the fabric is whole again, else what is not as it should be."""


class _LinkFault:
    """What faults of one link share: the link's wanted state, compared with its real one."""

    kind = ""

    def __init__(self, link: str, control: Links) -> None:
        self.target = link
        self.links: tuple[str, ...] = (link,)
        self._control = control

    def set_up(self) -> None:
        problem = self.read_healed()
        if problem:
            raise FaultError(f"{self.target} is not whole before the fault: {problem}")

    def read_healed(self) -> str | None:
        state = self._control.state(self.target)
        if not state.up:
            return f"{self.target} is not up"
        return self._harm(state, loss=0.0, corrupt=0.0, blackhole=False)

    def _harm(self, state: Any, **wanted: Any) -> str | None:
        """What either direction does to frames, compared with what is wanted."""
        for way in (state.impaired_up, state.impaired_down):
            for name, value in wanted.items():
                if getattr(way, name) != value:
                    found = getattr(way, name)
                    return f"{self.target}: {name} is {found}, wanted {value}"
        return None


class LinkDownFault(_LinkFault):
    kind = "link_down"

    def invoke(self) -> None:
        self._control.cut(self.target)

    def read_back(self) -> str | None:
        return None if self._control.state(self.target).down else f"{self.target} is not down"

    def heal(self) -> None:
        self._control.repair(self.target)


class SwitchDownFault:
    """All links of a switch at once; each is checked like one that is cut alone."""

    kind = "switch_down"

    def __init__(self, switch: str, links: Collection[str], control: Links) -> None:
        self.target = switch
        self.links = links_of_switch(switch, links)
        self._parts = [LinkDownFault(link, control) for link in self.links]

    def set_up(self) -> None:
        for part in self._parts:
            part.set_up()

    def invoke(self) -> None:
        for part in self._parts:
            part.invoke()

    def read_back(self) -> str | None:
        return next((said for part in self._parts if (said := part.read_back())), None)

    def heal(self) -> None:
        for part in self._parts:
            part.heal()

    def read_healed(self) -> str | None:
        return next((said for part in self._parts if (said := part.read_healed())), None)


class _Impairment(_LinkFault):
    """A link that stays up and harms what it carries."""

    loss = 0.0
    corrupt = 0.0
    blackhole = False

    def invoke(self) -> None:
        self._control.impair(
            self.target, loss=self.loss, corrupt=self.corrupt, blackhole=self.blackhole
        )

    def read_back(self) -> str | None:
        state = self._control.state(self.target)
        if not state.up:
            return f"{self.target} is not up"
        return self._harm(state, loss=self.loss, corrupt=self.corrupt, blackhole=self.blackhole)

    def heal(self) -> None:
        self._control.impair(self.target)


class LinkLossFault(_Impairment):
    kind = "link_loss"

    def __init__(self, link: str, control: Links, loss: float) -> None:
        super().__init__(link, control)
        self.loss = loss


class LinkCorruptFault(_Impairment):
    kind = "link_corrupt"

    def __init__(self, link: str, control: Links, corrupt: float) -> None:
        super().__init__(link, control)
        self.corrupt = corrupt


class LinkBlackholeFault(_Impairment):
    kind = "link_blackhole"
    blackhole = True


def build(spec: FaultSpec, control: Links, links: Collection[str] = ()) -> Fault:
    """The fault object of an entry of the timeline. `links`: names of all links."""
    match spec:
        case LinkDown():
            return LinkDownFault(spec.link, control)
        case LinkLoss():
            return LinkLossFault(spec.link, control, spec.loss)
        case LinkCorrupt():
            return LinkCorruptFault(spec.link, control, spec.corrupt)
        case LinkBlackhole():
            return LinkBlackholeFault(spec.link, control)
        case SwitchDown():
            return SwitchDownFault(spec.switch, links, control)
