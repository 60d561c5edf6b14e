"""The writing half of a QP: what comes back, and time (section 4); sending is in `sender`."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, Final

from hosts.core import constants as c
from hosts.core.ev.state import EvInput
from hosts.core.events import Completion, EvState, LossInferred, NackReceived, RtoExpired, Status
from hosts.core.loss import HighestRtt, infer
from hosts.core.messages import SendMessage
from hosts.core.psn import unwrap
from hosts.core.sender import Sender
from hosts.core.sendwindow import LOST, OUT
from hosts.wire.constants import MPR_UNIT, PSN_MASK, NackReason, PathFeedback, Syndrome

if TYPE_CHECKING:
    from hosts.core.ev.evset import EvEntry, EvSet
    from hosts.core.link import Link
    from hosts.core.probes import Prober
    from hosts.core.qpcc import Destination
    from hosts.core.reverse_ev import ReverseEvs
    from hosts.wire.parse import Packet

STALLS_MAX: Final = 10  # the probe interval doubles at most this often
_TRIMS: Final = frozenset((int(NackReason.TRIMMED), int(NackReason.TRIMMED_LASTHOP)))
_NAK_STATUS: Final = {
    int(Syndrome.NAK_INVALID_REQUEST): Status.REMOTE_INVALID_REQUEST,
    int(Syndrome.NAK_REMOTE_ACCESS): Status.REMOTE_ACCESS_ERROR,
    int(Syndrome.NAK_REMOTE_OPERATION): Status.REMOTE_OPERATION_ERROR,
}


class Requestor(Sender):
    """See the module."""

    __slots__ = (
        "_ack_due",
        "_delayed",
        "_dynamic",
        "_heard_at",
        "acked_bytes",
        "bad_sacks",
        "highest_rtt",
        "lost_inferred",
        "nacks",
        "prober",
        "reverse",
        "rtos",
        "sacks",
    )

    def __init__(
        self,
        link: Link,
        first_psn: int,
        evs: EvSet,
        destination: Destination,
        prober: Prober,
        reverse: ReverseEvs,
    ) -> None:
        super().__init__(link, first_psn, evs, destination)
        self._dynamic = link.qp.dynamic_mpr and link.peer.dynamic_mpr
        self.prober = prober
        self.reverse = reverse
        self.highest_rtt = HighestRtt()
        self._delayed: list[tuple[int, int]] = []  # heap: (when to send again, number)
        self._ack_due: int | None = None
        self._heard_at = 0  # when a SACK came last
        self.lost_inferred = self.nacks = self.rtos = self.sacks = self.bad_sacks = 0
        self.acked_bytes = 0

    # --- SACK ----------------------------------------------------------------------------------

    def on_sack(self, packet: Packet, now: int) -> None:
        """A SACK of this QP (sections 4.5, 4.6, 5.3), also one that answers a probe."""
        seth, state = packet.seth, packet.cc_state
        if seth is None or state is None:
            return
        window, cc = self.window, self.cc
        una = window.unack_psn
        cack = unwrap(seth.cack_psn, una - 1)
        if cack >= window.next:
            self.bad_sacks += 1
            return
        self.sacks += 1
        self._heard_at = now
        known = window.highest
        base = cack + seth.sack_offset
        bits = seth.sack_bitmap
        if window.acknowledge(cack, base, bits):
            self.stalls = 0
        if window.undone:
            cc.undo_loss(window.undone)
            window.undone = 0
        if window.unack_psn != una:
            self.rto.progress()
            if window.unack_psn == window.next:
                self.destination.busy -= 1
        units = (state.rcvd_bytes - self.rcvd) & 0xFFFFFF
        fresh = units < 0x800000
        if fresh:
            self.rcvd = state.rcvd_bytes
            n = units << 8
            if not units:  # the same total: older or newer is told by what it reports
                fresh = max(cack, base + bits.bit_length() - 1) >= known
        else:
            n = 0
        if seth.mpr and fresh and self._dynamic:
            self.mpr = min(seth.mpr, self.link.peer.mpr) * MPR_UNIT
        if seth.pr:
            rtt = self.prober.on_answer(seth.probe_id, seth.m, now)
        else:
            rtt = self._path_feedback(packet, cack + seth.ack_psn_offset, now)
        marked = seth.m == PathFeedback.SKIP_ONCE
        cc.on_sack(n, rtt, marked, state.rcv_cwnd_pen, state.restore_cwnd == 1, now)
        if fresh:
            self.destination.bound_inflight()
            if window.acked:
                self._infer(base, now)
        self._await_ack(now)

    def _path_feedback(self, packet: Packet, seq: int, now: int) -> int | None:
        """Tell the EV of the triggering packet how it fared; the RTT sample, if one is valid."""
        seth, state, window = packet.seth, packet.cc_state, self.window
        assert seth is not None
        assert state is not None
        entry = self.evs.by_ev.get(seth.entropy)
        if entry is None:
            return None
        if seth.m:
            if seth.m == PathFeedback.SKIP_ONCE:
                self.evs.feed(entry, EvInput.SACK_SKIP_ONCE, now)
            elif seth.m == PathFeedback.ALWAYS_SKIP:
                self.evs.feed(entry, EvInput.SACK_ALWAYS_SKIP, now)
        if entry.state is not EvState.DENIED:
            self.reverse.confirm(entry.port, entry.ev)
        i = seq & window.mask
        if (
            window.holds(seq)
            and window.entry[i] is entry
            and window.copies[i] == packet.rtx + 1
            and not self.link.peer.svc_time
        ):
            rtt = now - window.sent_at[i]
        else:
            rtt = ((now // self._tick - state.tx_timestamp) & 0xFFFF) * self._tick
        if rtt <= 0:
            return None
        self.highest_rtt.add(rtt, now, self.cc.base_rtt_ns)
        return rtt

    def _infer(self, base: int, now: int) -> None:
        cc, window = self.cc, self.window
        guard = max(c.LOSS_GUARD_MIN_PACKETS, int(c.LOSS_GUARD_BDP * cc.bdp_bytes / self.mtu))
        for seq, rule in infer(window, self.highest_rtt.value, base, guard, cc.base_rtt_ns, now):
            i = seq & window.mask
            entry = window.entry[i]
            self.lost_inferred += 1
            self.link.report(
                LossInferred(
                    now,
                    self.link.qpn,
                    seq & PSN_MASK,
                    entry.ev,
                    entry.plane,
                    rule,
                    window.sent_at[i],
                )
            )
            cc.on_loss(window.size_of(seq), now)
            self._give_up(seq)
            heapq.heappush(self.lost, seq)
            self._blame(entry, EvInput.LOSS, now)

    def _give_up(self, seq: int) -> None:
        """The copy in the network does not count any more. What it made of its EV is settled by
        whoever calls; suspicion ends."""
        window = self.window
        window.entry[seq & window.mask].suspect = False
        window.flag[seq & window.mask] = LOST
        window.lost_count += 1

    def _blame(self, entry: EvEntry, what: EvInput, now: int) -> None:
        """A loss speaks against the EV, unless its whole plane is down: that explains it."""
        if not self.evs.planes[entry.port].masked:
            self.evs.feed(entry, what, now)

    # --- NACK ----------------------------------------------------------------------------------

    def on_nack(self, packet: Packet, now: int) -> None:
        """Section 4.6. NACKs for what is not outstanding are ignored."""
        neth = packet.neth
        if neth is None:
            return
        window = self.window
        seq = unwrap(neth.nack_psn, window.unack_psn)
        if not window.unack_psn <= seq < window.next:
            return
        if window.acked >> (seq - window.unack_psn) & 1:
            return
        i = seq & window.mask
        reason = neth.nack_reason
        entry = self.evs.by_ev.get(neth.entropy)
        self.nacks += 1
        self.link.report(
            NackReceived(
                now,
                self.link.qpn,
                neth.nack_psn,
                neth.entropy,
                entry.plane if entry is not None else -1,
                reason,
            )
        )
        if reason == NackReason.UNEXP_EVENT:
            self.link.fail(Status.REMOTE_OPERATION_ERROR, "NACK UNEXP_EVENT", now)
            return
        if reason == NackReason.TRIMMED and entry is not None:
            self.evs.feed(entry, EvInput.NACK_TRIMMED, now)
        if not window.flag[i] & OUT or window.entry[i].ev != neth.entropy:
            return  # of a copy that counts as lost already
        trimmed = reason in _TRIMS
        sent_at = window.sent_at[i]
        # Of a packet sent again on the only EV there is, nobody knows which copy this is about.
        rtt = max(1, now - sent_at) if window.copies[i] == 1 else None
        self.cc.on_nack(window.size_of(seq), trimmed, rtt, now)
        self._give_up(seq)
        if trimmed and not c.TRIM_COUNTS_AS_RETRY:
            heapq.heappush(self.lost, seq)
            return
        window.flag[i] = 0  # neither out nor waiting, until the time has come
        window.lost_count -= 1
        again_at = now + self.cc.base_rtt_ns
        heapq.heappush(self._delayed, (again_at, seq))
        self.link.timers.at(again_at)
        if not self.rto.count_retry(sent_at, now):
            self.link.fail(Status.RETRY_EXCEEDED, "retry counter exceeded", now)

    # --- transport ACK -------------------------------------------------------------------------

    def on_ack(self, packet: Packet, now: int) -> None:
        """Transport ACK or NAK (section 4.4)."""
        aeth = packet.aeth
        if aeth is None:
            return
        window = self.window
        seq = unwrap(packet.psn, window.unack_psn - 1)
        if seq >= window.next:
            self.bad_sacks += 1
            return
        if aeth.syndrome != Syndrome.ACK:
            status = _NAK_STATUS.get(aeth.syndrome)
            if status is not None:  # what completed before the cause did complete
                while self.messages and self.messages[0].last_seq <= seq:
                    self._complete(self.messages.popleft(), Status.SUCCESS, now)
                self.link.fail(status, f"NAK {aeth.syndrome:#x}", now)
            return
        if seq >= window.unack_psn:  # the SACK was lost: an ACK says as much
            window.acknowledge(seq, window.unack_psn, 0)
            if window.undone:
                self.cc.undo_loss(window.undone)
                window.undone = 0
            self.rto.progress()
            if window.unack_psn == window.next:
                self.destination.busy -= 1
                self.destination.settle()
        messages = self.messages
        if messages and messages[0].last_seq <= seq:
            self.rto.progress()
            self._ack_due = None
        while messages and messages[0].last_seq <= seq:
            self._complete(messages.popleft(), Status.SUCCESS, now)
        self._await_ack(now)

    def _complete(self, message: SendMessage, status: Status, now: int) -> None:
        if message.imm is not None and message.first_seq < self.window.next:
            self.imm_inflight -= 1
        if status is Status.SUCCESS:
            self.acked_bytes += message.length
        self.link.report(Completion(now, self.link.qpn, message.wr_id, status, message.length))
        message.source = _NOTHING

    def _await_ack(self, now: int) -> None:
        """Start or stop waiting for a transport ACK that alone is missing."""
        window = self.window
        messages = self.messages
        if messages and window.unack_psn > messages[0].last_seq and window.unack_psn == window.next:
            if self._ack_due is None:
                self._ack_due = now + self.rto.interval
                self.link.timers.at(self._ack_due)
        else:
            self._ack_due = None

    # --- time ----------------------------------------------------------------------------------

    def next_deadline(self) -> int | None:
        due = self.rto.next_due()
        delayed = self._delayed
        if delayed and (due is None or delayed[0][0] < due):
            due = delayed[0][0]
        if self._ack_due is not None and (due is None or self._ack_due < due):
            due = self._ack_due
        if self.window.unack_psn != self.window.next:
            stalled = self._stall_due()
            if due is None or stalled < due:
                return stalled
        return due

    def _stall_due(self) -> int:
        """When packets are out and nothing was heard for too long: the SACK was lost, or the peer
        holds one back because the window closed after a packet that did not ask for it."""
        return max(self._heard_at, self.last_sent) + self.stall_wait()

    def on_deadline(self, now: int) -> None:
        window, rto = self.window, self.rto
        delayed = self._delayed
        while delayed and delayed[0][0] <= now:
            _, seq = heapq.heappop(delayed)
            if seq >= window.unack_psn and not window.acked >> (seq - window.unack_psn) & 1:
                self._give_up(seq)
                heapq.heappush(self.lost, seq)
        if self._ack_due is not None and now >= self._ack_due:
            sent = self._ack_due
            self._ack_due = None
            if not rto.count_retry(sent, now):
                self.link.fail(Status.RETRY_EXCEEDED, "retry counter exceeded", now)
                return
            self.resend_last = True
            self._ack_due = now + rto.interval
        probe = False
        while (seq_or_none := rto.expired(now)) is not None:
            if not self._time_out(seq_or_none, now):
                return
            probe = c.PROBE_WITH_RTO
        if window.unack_psn != window.next and now >= self._stall_due():
            self.stalls = min(self.stalls + 1, STALLS_MAX)
            self._heard_at = now
            probe = True
        if probe:
            self.prober.refresh(now)

    def _time_out(self, seq: int, now: int) -> bool:
        """One packet's timer ran out; False when that was one too many."""
        window = self.window
        i = seq & window.mask
        entry, sent_at = window.entry[i], window.sent_at[i]
        alive = self.rto.count_retry(sent_at, now)
        self.rtos += 1
        self.link.report(
            RtoExpired(
                now,
                self.link.qpn,
                seq & PSN_MASK,
                entry.ev,
                entry.plane,
                sent_at,
                self.rto.retries,
            )
        )
        self.cc.on_loss(window.size_of(seq), now)
        self._give_up(seq)
        heapq.heappush(self.lost, seq)
        self._blame(entry, EvInput.RTO, now)
        if not alive:
            self.link.fail(Status.RETRY_EXCEEDED, "retry counter exceeded", now)
        return alive

    def flush(self, status: Status, now: int) -> None:
        """The QP failed: complete everything outstanding, the first with the cause."""
        while self.messages:
            self._complete(self.messages.popleft(), status, now)
            status = Status.FLUSHED
        self.clear()
        self._delayed.clear()
        self._ack_due = None
        self.destination.bound_inflight()


_NOTHING: Final = memoryview(b"")
