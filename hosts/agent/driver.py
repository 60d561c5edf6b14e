"""What the operations and the samples need of whoever drives an endpoint: the event loop of a
host (`hosts.agent.loop`), or a host in virtual time (`virtualtime.host`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from hosts.agent.clock import Lateness
    from hosts.agent.settings import Settings
    from hosts.core.endpoint import Endpoint


class NicPort(Protocol):
    """One port of the NIC. Counts are of whole frames."""

    port: int
    interface: str
    rx_packets: int
    rx_bytes: int
    tx_packets: int
    tx_bytes: int

    @property
    def sock_drops(self) -> int:
        """Frames lost because the host did not take them in time."""
        ...

    def send(self, frame: bytes) -> bool:
        """Send one frame; False when the port refuses it."""
        ...

    def stats(self) -> dict[str, object]: ...


class Driver(Protocol):
    """Moves frames and time between NICs and an endpoint."""

    name: str
    settings: Settings
    endpoint: Endpoint
    lateness: Lateness
    errors: int
    stopping: bool

    @property
    def clock(self) -> Callable[[], int]:
        """Now, in nanoseconds."""
        ...

    @property
    def nics(self) -> Mapping[int, NicPort]:
        """By port number."""
        ...

    def port_up(self, port: int) -> bool:
        """Administratively up, interface up, carrier there."""
        ...

    def set_admin(self, port: int, up: bool) -> None: ...

    def fidelity(self) -> dict[str, int | bool]:
        """How late timers were served, and what the process cost."""
        ...

    def cpu_ns(self) -> int:
        """CPU time of the process, 0 where that means nothing."""
        ...

    def report_error(self, where: str, error: Exception) -> None:
        """A fault of our own: count it and write it down."""
        ...
