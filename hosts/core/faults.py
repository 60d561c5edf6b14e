"""Ways to break the endpoint on purpose, injected through `EndpointConfig.faults`.

For tests and drills only: a drill must fail when the endpoint is wrong, and these objects make it
wrong without a test hook in the code under test. Each replaces one policy object.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hosts.core.ev.state import EvTable
    from hosts.core.memory import Placement


@dataclass(frozen=True, slots=True)
class Faults:
    """Policies that replace the endpoint's own; None keeps the right one."""

    ev_table: EvTable | None = None
    placement: Placement | None = None


def named(names: tuple[str, ...] | list[str]) -> Faults | None:
    """Faults by name, as drills give them: "never_demote", "ack_before_placing".

    Raises ValueError naming the unknown fault and the known ones.
    """
    raise NotImplementedError
