"""What the parts of a QP share: who it is, how to reach the peer, where reports go."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hosts.core.config import EndpointConfig, PeerInfo, QpConfig
from hosts.core.events import Event, Status
from hosts.core.nic import Nic
from hosts.core.timers import Timers
from hosts.wire.frame import FlowTemplate

if TYPE_CHECKING:
    from random import Random


@dataclass(slots=True)
class Link:
    """One QP's surroundings.

    flows   frame templates to the peer, by our port
    report  takes an event
    fail    (status, reason, now): the QP goes to ERROR
    """

    config: EndpointConfig
    qp: QpConfig
    qpn: int
    peer: PeerInfo
    flows: Mapping[int, FlowTemplate]
    nic: Nic
    timers: Timers
    rng: Random
    report: Callable[[Event], None]
    fail: Callable[[Status, str, int], None]

    def timestamp(self, now: int) -> int:
        """TSETH stamp of a time."""
        return now // self.config.tick_ns & 0xFFFF
