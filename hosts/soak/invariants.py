"""What must hold in a world after every step, and in the end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hosts.core.ev.evset import PLANE_LEAD_PACKETS, EvSet
from hosts.core.events import EvState, QpState, Status
from hosts.core.psn import unwrap
from hosts.core.sendwindow import LOST, OUT
from hosts.soak.setup import PMTU
from hosts.wire.constants import MPR_UNIT

if TYPE_CHECKING:
    from hosts.core.qp import Parts, Qp
    from hosts.soak.world import Connection, Side, World

_USABLE = (EvState.GOOD, EvState.SKIP)
_RTX = 0x20  # of BTH byte 8


class Violation(Exception):
    """An invariant does not hold; str() says which."""


def need(condition: bool, what: str) -> None:
    if not condition:
        raise Violation(what)


def check(world: World) -> None:
    """All invariants between steps."""
    for side in world.sides:
        for number, connection in enumerate(side.connections):
            where = f"side {side.index} qp {connection.qpn}"
            qp = side.endpoint.query_qp(connection.qpn)
            need(qp.state is QpState.RTS, f"{where}: state {qp.state.name}")
            assert qp.parts is not None
            _window(qp, qp.parts, where)
            _responder(qp.parts, where)
            _evs(qp.evs, where)
            _scheduling(qp.parts, where)
            peer = world.sides[1 - side.index].connections[number]
            _completions(connection, peer, where)


def _window(qp: Qp, parts: Parts, where: str) -> None:
    w = parts.requestor.window
    need(not w.acked & 1, f"{where}: unack_psn is acknowledged")
    need(w.next - w.unack_psn <= qp.config.mpr * MPR_UNIT, f"{where}: more than MPR is out")
    flags = [w.flag[s & w.mask] for s in range(w.unack_psn, w.next)]
    need(w.lost_count == sum(bool(f & LOST) for f in flags), f"{where}: lost_count")
    need(not any(f & LOST and f & OUT for f in flags), f"{where}: lost and out at once")
    acked = w.acked
    for offset, f in enumerate(flags):
        if acked >> offset & 1:
            need(f == 0, f"{where}: acknowledged and flagged")
    need(not acked >> len(flags), f"{where}: acknowledged beyond what was sent")
    cc = parts.destination.cc
    need(cc.cwnd >= cc.mtu, f"{where}: cwnd {cc.cwnd} is below one MTU {cc.mtu}")
    most = getattr(cc, "max_wnd", None)
    need(most is None or cc.cwnd <= most + 1e-6, f"{where}: cwnd {cc.cwnd} over MaxWnd {most}")
    busy = sum(r.window.unack_psn != r.window.next for r in parts.destination.requestors)
    need(parts.destination.busy == busy, f"{where}: {parts.destination.busy} busy, not {busy}")
    most = cc.cwnd if most is None else most
    # A SACK that was lost, or an ACK that came before it, leaves inflight too high for a while.
    need(cc.inflight <= 2 * most + cc.mtu, f"{where}: inflight {cc.inflight} with window {most}")


def _responder(parts: Parts, where: str) -> None:
    responder = parts.responder
    bitmap = responder.bitmap
    need(not bitmap.bits & 1, f"{where}: the packet after cack_psn has arrived")
    need(bitmap.bits.bit_length() <= responder.max_psn_range, f"{where}: beyond the window")
    need(bitmap.max_rcv_psn >= bitmap.cack_psn, f"{where}: max_rcv_psn below cack_psn")


def _evs(evs: EvSet, where: str) -> None:
    seen = 0
    sent = []
    for port, plane in evs.planes.items():
        for role, row in (("active", plane.active), ("backup", plane.backup), ("out", plane.out)):
            for e in row:
                usable = e.state in _USABLE
                need(e.port == port, f"{where}: EV {e.ev:#x} is on the wrong plane")
                need(e.role == role, f"{where}: EV {e.ev:#x} is {e.role} among {role}")
                need(usable == (role != "out"), f"{where}: EV {e.ev:#x} {e.state.name} is {role}")
                need(evs.by_ev.get(e.ev) is e, f"{where}: EV {e.ev:#x} is not the one looked up")
            seen += len(row)
        need(len(plane.active) <= plane.target, f"{where}: too many active on port {port}")
        if plane.usable:
            sent.append(plane.sent)
    need(seen == len(evs.by_ev), f"{where}: {seen} EVs in sets, {len(evs.by_ev)} known")
    if sent:
        lead = max(sent) - min(sent)
        need(lead <= PLANE_LEAD_PACKETS, f"{where}: a plane is {lead} packets ahead")


def _scheduling(parts: Parts, where: str) -> None:
    """Whoever could send is on the list, or someone of its destination is."""
    requestor = parts.requestor
    cc = parts.destination.cc
    if requestor.has_work() and cc.inflight + cc.mtu <= cc.cwnd and not requestor.listed:
        need(
            requestor.parked and any(r.listed for r in parts.destination.requestors),
            f"{where}: has data and window, and nobody will send",
        )


def _completions(mine: Connection, peer: Connection, where: str) -> None:
    """In order, good, each once."""
    ids = [e.wr_id for e in mine.completions]
    need(ids == list(range(len(ids))), f"{where}: completions {ids[-5:]} out of order")
    for event in mine.completions[-8:]:
        need(event.status is Status.SUCCESS, f"{where}: write {event.wr_id}: {event.status.name}")
    got = [(e.imm, e.length) for e in peer.receives]
    need(got == mine.imms[: len(got)], f"{where}: receive completions {got[-3:]} out of order")


def watch_sent(world: World, side: Side, frame: bytes) -> None:
    """A retransmission never goes on the EV that lost the copy, unless there is no other."""
    bth = world.udp_at + 8
    if not 0xC6 <= frame[bth] <= 0xCB:
        return
    need(len(frame) <= world.udp_at + 52 + PMTU, "a frame longer than PMTU allows")
    dqp = int.from_bytes(frame[bth + 5 : bth + 8], "big")
    number = next(i for i, c in enumerate(world.sides[1 - side.index].connections) if c.qpn == dqp)
    connection = side.connections[number]
    qp = side.endpoint.query_qp(connection.qpn)
    assert qp.parts is not None
    window = qp.parts.requestor.window
    seq = unwrap(int.from_bytes(frame[bth + 9 : bth + 12], "big"), window.next - 1)
    if not window.flag[seq & window.mask] & OUT:
        return  # sent again for its transport ACK only
    entry = window.entry[seq & window.mask]
    before = connection.last_ev.get(seq)
    if frame[bth + 8] & _RTX and before == entry.ev:
        usable = [e for p in qp.evs.planes.values() if p.usable for e in p.active]
        need(
            len(usable) <= 1,
            f"side {side.index} qp {qp.qpn}: {seq} sent again on EV {entry.ev:#x} that lost it, "
            f"with {len(usable)} to choose from",
        )
    connection.last_ev[seq] = entry.ev
    if len(connection.last_ev) > 8192:
        connection.last_ev.clear()


def check_end(world: World) -> None:
    """All is complete: memory is equal, and every byte was placed once."""
    for side, other in zip(world.sides, reversed(world.sides), strict=True):
        need(bytes(other.region.memory) == bytes(side.expected), "memory differs")
        for connection, peer in zip(side.connections, other.connections, strict=True):
            where = f"side {side.index} qp {connection.qpn}"
            need(len(peer.receives) == len(connection.imms), f"{where}: receive completions")
            placed = other.endpoint.stats().qps[peer.qpn].delivered_bytes
            need(placed == sum(connection.lengths), f"{where}: {placed} bytes placed")
