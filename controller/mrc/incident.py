"""A fault, or what is taken for one, from its first name until it is over."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Literal

CLEAN = 8
"""Something works when so many packets crossed it that, by the loss it is accused of, this many
of them would have been lost, and none was (by chance: e^-8)."""
FIRST_LOSSES = 2
"""What the loss share that an incident begins with weighs against what is seen later."""


@dataclass
class Incident:
    """Times in ns, shares from 0 to 1."""

    number: int
    suspects: tuple[str, ...]
    """One, or those that the evidence does not tell apart; links and switches by name."""
    confidence: float
    """Probability that it is one of them."""
    loss: float
    """Share lost of what crosses it."""
    opened: int
    named: int = 0
    """Since when it has had these suspects."""
    closed: int | None = None
    joined: int | None = None
    """The incident that this one turned out to be a part of, if it did."""
    pinned: bool = False
    """Named beyond doubt, and set apart: what crosses it accuses nothing else."""
    acquitted: set[str] = field(default_factory=set)
    """Switches that are not its cause: they delivered while it lost."""
    _seen: list[float] = field(default_factory=lambda: [0.0, 0.0], repr=False)
    """Sent and lost across it since it was named, up to the last loss."""
    _clean: float = field(default=0.0, repr=False)
    """Crossed unharmed since then."""
    _beside: float = field(default=0.0, repr=False)
    """The same over any of the suspects."""
    _last_loss: int = field(default=0, repr=False)
    _loss_before: int = field(default=0, repr=False)
    """Of losses told at different times, the last but one."""

    def __post_init__(self) -> None:
        self.rename(self.suspects, self.confidence, self.loss, self.opened)

    def rename(self, suspects: tuple[str, ...], confidence: float, loss: float, now: int) -> None:
        """It is something else than was thought."""
        self.suspects, self.confidence, self.loss = suspects, confidence, loss
        self.named = self._last_loss = self._loss_before = now
        self._seen = [FIRST_LOSSES / loss, FIRST_LOSSES] if loss > 0 else [0.0, 0.0]
        self._clean = self._beside = 0.0

    def observe(self, way: Collection[str], sent: float, lost: float, now: int) -> None:
        """Packets took this way; they count when they crossed all suspects."""
        crossed = sum(name in way for name in self.suspects)
        if not crossed:
            return
        self._beside = 0.0 if lost else self._beside + sent
        if crossed < len(self.suspects):
            return
        if not lost:
            self._clean += sent
            return
        self._seen[0] += self._clean + sent
        self._seen[1] += lost
        self.loss = self._seen[1] / self._seen[0]
        self._clean = 0.0
        if now != self._last_loss:
            self._loss_before, self._last_loss = self._last_loss, now

    def still_loses(self, now: int, within: int) -> bool:
        """Whether losses were told more than once in the last `within` ns: what one host has
        held back for a while may be long past."""
        return now - self._loss_before < within

    def is_over(self, now: int, wait: int) -> bool:
        """Whether enough has crossed unharmed, for at least `wait` ns."""
        return now - self._last_loss >= wait and self._clean * self.loss >= CLEAN

    def has_faded(self, now: int, wait: int) -> bool:
        """The same of what crossed any of the suspects: enough when nothing accuses them any
        more, and no way crosses them all."""
        return now - self._last_loss >= wait and self._beside * self.loss >= CLEAN

    def describe(self) -> str:
        """`p0t0-0:p0t1-0 (99 %, loses 100 %)`."""
        names = " or ".join(self.suspects)
        return f"{names} ({self.confidence:.0%} sure, loses {self.loss:.1%})"


@dataclass(frozen=True)
class IncidentEvent:
    """Something about an incident changed."""

    kind: Literal["opened", "changed", "closed"]
    incident: Incident
    t: int
