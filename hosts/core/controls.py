"""What a controller does to an endpoint, and asks of it (3.2, 6): EV states, probes, windows,
congestion control, queries. The verbs of applications are in `endpoint`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from hosts.core import constants as c
from hosts.core.cc.registry import make_cc
from hosts.core.config import CcConfig, EndpointConfig
from hosts.core.connect import path_figures
from hosts.core.errors import ConfigError, EndpointError
from hosts.core.ev.evset import EvEntry
from hosts.core.ev.format import EvKind
from hosts.core.ev.profile import check_path
from hosts.core.ev.state import EvInput
from hosts.core.events import Event, EvProbeResult, EvState, PathProbeResult
from hosts.core.profiles import Profiles, set_state
from hosts.core.report import EvInfo, ev_table
from hosts.wire.frame import EncapTemplate

if TYPE_CHECKING:
    from hosts.core.control import Control
    from hosts.core.nic import Nic
    from hosts.core.qp import Qp
    from hosts.core.qpcc import Destination
    from hosts.core.receiver import ReceiveBuffer
    from hosts.wire.encap import SrPath


class Controls(ABC):
    """Part of `Endpoint`."""

    config: EndpointConfig
    profiles: Profiles
    _buffer: ReceiveBuffer
    _control: Control
    _events: list[Event]
    _ips: dict[int, bytes]
    _nic: Nic
    _qps: dict[int, Qp]

    @abstractmethod
    def _wake_destination(self, destination: Destination) -> None:
        """Serve the destination's QPs again: its window may have changed."""

    def set_ev_state(self, qpn: int, ev: int, state: EvState, now: int) -> bool:
        """An EV of one QP to GOOD, ASSUMED_BAD or DENIED; whether it changed."""
        return set_state(self._qp(qpn).evs, self._entry(qpn, ev), state, now)

    def set_ev_denied(self, qpn: int, ev: int, denied: bool, now: int) -> None:
        """Controller: any state -> DENIED, or DENIED -> GOOD."""
        what = EvInput.DENY if denied else EvInput.ALLOW
        self._qp(qpn).evs.feed(self._entry(qpn, ev), what, now)

    def replace_ev(
        self, qpn: int, old: int, new: int, now: int, path: SrPath | None = None
    ) -> None:
        """Another EV in the place of one of a QP. `path`: its outer addresses, when those of the
        old one came with a profile."""
        qp = self._qp(qpn)
        evs = qp.evs
        entry = self._entry(qpn, old)
        if new in evs.by_ev:
            raise EndpointError(f"qp {qpn}: EV {new:#010x}: in use already")
        try:
            self.profiles.check_carried(new)
            check_path(qp.kind if qp.paths else EvKind.ECMP, path, f"EV {new:#010x}")
        except ConfigError as error:
            raise EndpointError(f"qp {qpn}: {error}") from None
        qp.repath(old, new, path)
        evs.replace(entry, new, now)

    def path_failure(self, port: int, ev: int, now: int) -> int:
        """The driver could not send on an EV of a port that is up (section 3.4: local path
        failure): ASSUMED_BAD on every QP that has it; on how many."""
        hit = 0
        for qp in self._qps.values():
            entry = qp.evs.by_ev.get(ev)
            if entry is not None and entry.port == port:
                hit += qp.evs.feed(entry, EvInput.PATH_FAILURE, now)
        return hit

    def probe_ev(self, qpn: int, ev: int, now: int, timeout_ns: int | None = None) -> None:
        """Send an EV probe; an EvProbeResult event follows, and the EV's state with it."""
        qp = self._qp(qpn)
        entry = self._entry(qpn, ev)
        if qp.parts is None:
            raise EndpointError(f"qp {qpn}: not connected")
        prober = qp.parts.prober

        def answer(rtt_ns: int | None, at: int) -> None:
            self._events.append(EvProbeResult(at, qpn, ev, entry.plane, entry.port, rtt_ns))
            prober.on_ev_probe(entry, rtt_ns is not None, at)

        self._control.probe(
            qp.parts.link, entry.port, ev, answer, now, self._probe_timeout(timeout_ns)
        )

    def probe_path(
        self, port: int, dst: bytes, ev: int, now: int, *, path: SrPath | None = None,
        token: int = 0, timeout_ns: int | None = None,
    ) -> None:  # fmt: skip
        """An EV probe to any address, or along outer addresses back to our own (a loop through the
        fabric); a PathProbeResult event with `token` follows."""
        if port not in self._nic.ports:
            raise EndpointError(f"port {port}: no such port")
        if len(dst) != len(self._ips[port]):
            raise EndpointError(f"port {port}: the destination has another IP version")

        def answer(rtt_ns: int | None, at: int) -> None:
            self._events.append(PathProbeResult(at, 0, token, port, dst, ev, rtt_ns))

        self._control.probe_path(port, dst, ev, path, answer, now, self._probe_timeout(timeout_ns))

    def set_receive_window(self, qpn: int, mpr: int) -> None:
        """The MPR that SACKs advertise from now on, up to the one exchanged (dynamic MPR only)."""
        qp = self._qp(qpn)
        if qp.parts is None or not qp.parts.responder.dynamic:
            raise EndpointError(f"qp {qpn}: its MPR is not dynamic (both ends must enable that)")
        if not 1 <= mpr <= qp.config.mpr:
            raise EndpointError(f"qp {qpn}: mpr {mpr}: must be 1..{qp.config.mpr}")
        qp.parts.responder.mpr = mpr

    def set_receiver_penalty(self, penalty: int) -> None:
        """Ask all senders for at least this rcv_cwnd_pen; 0 restores their windows."""
        if not 0 <= penalty <= c.PENALTY_MAX:
            raise EndpointError(f"penalty {penalty}: must be 0..{c.PENALTY_MAX}")
        self._buffer.force(penalty)

    def set_cc_profile(self, name: str, config: CcConfig) -> list[int]:
        """Create or change a CC profile. QPs that are on it get a new congestion control at once,
        with the bytes that are in flight; the QPs."""
        changed = self.profiles.set_cc(name, config)
        for qp in changed:
            assert qp.parts is not None
            destination = qp.parts.destination
            if destination.config == config:
                continue  # done for another QP to the same peer
            assert qp.peer is not None
            cc = make_cc(config, path_figures(self.config, config, qp.peer))
            destination.use(cc, config)
            self._wake_destination(destination)
        return [qp.qpn for qp in changed]

    def ev_table(self, qpn: int) -> list[EvInfo]:
        """Every EV of a QP with its state."""
        return ev_table(self._qp(qpn))

    def query_qp(self, qpn: int) -> Qp:
        """A QP with its attributes; not to be changed."""
        return self._qp(qpn)

    def find_qp(self, qpn: int) -> Qp | None:
        return self._qps.get(qpn)

    def all_qps(self) -> list[Qp]:
        return list(self._qps.values())

    def outer_path(self, qpn: int, port: int, ev: int) -> SrPath | None:
        """The outer addresses that an EV of a QP stands for; None: no SRv6 there."""
        parts = self._qp(qpn).parts
        if parts is None or port not in parts.link.flows.ports:
            return None
        flow = parts.link.flows[port]
        return flow.encap.path(ev) if isinstance(flow, EncapTemplate) else None

    def port_states(self) -> dict[str, bool]:
        """Local ports: whether they are up."""
        return {str(port): tx.up for port, tx in self._nic.ports.items()}

    def peer_masks(self) -> list[dict[str, object]]:
        """What peers said of their ports: addresses, and the mask (bit k-1: port k)."""
        return self._control.describe_masks()

    # --- inside --------------------------------------------------------------------------------

    def _qp(self, qpn: int) -> Qp:
        qp = self._qps.get(qpn)
        if qp is None:
            raise EndpointError(f"qp {qpn}: no such QP")
        return qp

    def _entry(self, qpn: int, ev: int) -> EvEntry:
        entry = self._qp(qpn).evs.by_ev.get(ev)
        if entry is None:
            raise EndpointError(f"qp {qpn}: no EV {ev:#010x}")
        return entry

    def _probe_timeout(self, timeout_ns: int | None) -> int:
        return c.EV_PROBE_TIMEOUT_NS * self.config.time_scale if timeout_ns is None else timeout_ns
