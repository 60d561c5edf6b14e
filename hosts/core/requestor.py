"""The writing half of a QP: posted messages to packets, SACKs and NACKs to progress (section 4)."""

from __future__ import annotations

import heapq
from collections import deque
from typing import TYPE_CHECKING

from hosts.core import constants as c
from hosts.core.ev.state import EvInput
from hosts.core.events import Completion, LossInferred, NackReceived, RtoExpired, Status
from hosts.core.loss import HighestRtt, infer
from hosts.core.messages import MIDDLE, SendMessage, nominal_size
from hosts.core.psn import unwrap
from hosts.core.qpcc import STATES, QpccState
from hosts.core.rto import RtoTimers
from hosts.core.sendwindow import LOST, OUT, RETX, SendWindow
from hosts.wire.constants import MPR_UNIT, PSN_MASK, Ecn, NackReason, PathFeedback, Syndrome

if TYPE_CHECKING:
    from hosts.core.ev.evset import EvEntry, EvSet
    from hosts.core.link import Link
    from hosts.core.probes import Prober
    from hosts.core.qpcc import Destination
    from hosts.core.reverse_ev import ReverseEvs
    from hosts.wire.parse import Packet

_ECT = int(Ecn.ECT0)
STALLS_MAX = 10  # the probe interval doubles at most this often
_TRIMS = frozenset((int(NackReason.TRIMMED), int(NackReason.TRIMMED_LASTHOP)))
_NAK_STATUS = {
    int(Syndrome.NAK_INVALID_REQUEST): Status.REMOTE_INVALID_REQUEST,
    int(Syndrome.NAK_REMOTE_ACCESS): Status.REMOTE_ACCESS_ERROR,
    int(Syndrome.NAK_REMOTE_OPERATION): Status.REMOTE_OPERATION_ERROR,
}


class Requestor:
    """See the module. `listed`: on the scheduler's list of Ready ones."""

    __slots__ = (
        "_ack_due",
        "_delayed",
        "_dqp",
        "_dscp",
        "_dscp_retx",
        "_first_bytes",
        "_flows",
        "_heard_at",
        "_imm_inflight",
        "_imms",
        "_link",
        "_lost",
        "_messages",
        "_mpr",
        "_mtu",
        "_pmtu",
        "_post_seq",
        "_posted",
        "_rcvd",
        "_resend_last",
        "_stalls",
        "_threshold",
        "_tick",
        "_unsent",
        "acked_bytes",
        "bad_sacks",
        "cc",
        "destination",
        "evs",
        "highest_rtt",
        "last_sent",
        "listed",
        "lost_inferred",
        "nacks",
        "prober",
        "retransmitted",
        "reverse",
        "rto",
        "rtos",
        "sacks",
        "sent_bytes",
        "sent_packets",
        "window",
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
        config, peer = link.config, link.peer
        self._link = link
        self.evs = evs
        self.destination = destination
        self.cc = destination.cc
        self.prober = prober
        self.reverse = reverse
        self._pmtu = min(config.pmtu, peer.pmtu)
        self._mtu = nominal_size(self._pmtu)
        self._tick = config.tick_ns
        self._dqp = peer.qpn
        self._flows = link.flows
        self._threshold = config.sack_threshold
        self._mpr = peer.mpr * MPR_UNIT
        self.window = SendWindow(first_psn, c.MPR_MAX * MPR_UNIT if link.qp.dynamic_mpr else
                                 self._mpr, self._mtu)  # fmt: skip
        self.rto = RtoTimers(link.qp.rto, config.time_scale, self.window)
        self.highest_rtt = HighestRtt()
        trimmable = peer.trim_nack
        self._dscp = config.dscp.trimmable if trimmable else config.dscp.no_trim
        self._dscp_retx = config.dscp.trimmable_retx if trimmable else config.dscp.no_trim
        self._messages: deque[SendMessage] = deque()  # posted, not completed
        self._unsent: deque[SendMessage] = deque()  # posted, last packet not sent yet
        self._lost: list[int] = []  # heap of numbers to send again, some obsolete
        self._delayed: list[tuple[int, int]] = []  # heap: (when to send again, number)
        self._post_seq = first_psn
        self._posted = 0
        self._imms = 0
        self._imm_inflight = 0
        self._rcvd = 0  # newest rcvd_bytes, units
        self._first_bytes = 0  # nominal bytes of first copies
        self._ack_due: int | None = None
        self._resend_last = False
        self._heard_at = 0  # when a SACK came last
        self._stalls = 0  # probes sent since the last progress
        self.listed = False
        self.last_sent = -1  # when data was last sent
        self.sent_packets = self.sent_bytes = self.retransmitted = 0
        self.lost_inferred = self.nacks = self.rtos = self.sacks = self.bad_sacks = 0
        self.acked_bytes = 0

    # --- posting -------------------------------------------------------------------------------

    def post(
        self, wr_id: int, source: memoryview, va: int, rkey: int, imm: int | None
    ) -> SendMessage:
        """Queue a write; the caller checked the state and the length."""
        rqmsn = 0
        if imm is not None:
            rqmsn = self._imms
            self._imms += 1
        message = SendMessage(
            wr_id, source, va, rkey, imm,
            msn=self._posted, rqmsn=rqmsn, first_seq=self._post_seq, pmtu=self._pmtu,
        )  # fmt: skip
        self._posted += 1
        self._post_seq = message.last_seq + 1
        self._messages.append(message)
        self._unsent.append(message)
        return message

    @property
    def outstanding(self) -> int:
        """Messages posted and not completed."""
        return len(self._messages)

    # --- sending -------------------------------------------------------------------------------

    def has_work(self) -> bool:
        """Something could be sent if the congestion window allows it."""
        return self.window.lost_count > 0 or self._resend_last or self._may_send_new()

    def _may_send_new(self) -> bool:
        unsent = self._unsent
        if not unsent:
            return False
        window = self.window
        if window.next - window.una + c.SEND_WINDOW_EXCLUSIVE >= self._mpr:
            return False
        message = unsent[0]
        return (
            message.imm is None
            or window.next != message.first_seq
            or self._imm_inflight < self._link.peer.write_imm_limit
        )

    def window_open(self) -> bool:
        """Also true when the window only seems closed (see `Destination.settle`)."""
        cc = self.cc
        return cc.inflight + self._mtu <= cc.cwnd or (cc.inflight > 0 and self.destination.settle())

    def settle(self) -> None:
        """Everything sent has arrived: rcvd_bytes of the peer is known without a SACK."""
        self._rcvd = (self._first_bytes + 255 >> 8) & 0xFFFFFF

    def ready(self) -> bool:
        return self._resend_last or (self.window_open() and self.has_work())

    @property
    def qpcc_state(self) -> QpccState:
        """Section 5.5."""
        return STATES[self.has_work(), self.window_open(), self.window.next > self.window.una]

    def next_frame(self, port: int, now: int) -> bytes | None:
        """The next data frame that leaves on `port` at `now`; None: nothing for this port."""
        cc = self.cc
        mtu = self._mtu
        if cc.inflight + mtu > cc.cwnd and not self.window_open():
            return self._again(port, now) if self._resend_last else None
        window = self.window
        if window.lost_count:
            return self._retransmit(port, now)
        if not self._may_send_new():
            return self._again(port, now) if self._resend_last else None
        evs = self.evs
        entry = evs.pick(port, now) if evs.may_send(port) else None
        if entry is None:
            return None
        message = self._unsent[0]
        seq = window.next
        una = window.una
        i = seq & window.mask
        window.flag[i] = OUT
        window.copies[i] = 1
        window.sent_at[i] = now
        window.entry[i] = entry
        window.message[i] = message
        before = entry.last_seq
        window.prev[i] = before if before >= una else -1
        entry.last_seq = seq
        window.next = seq + 1
        if seq == una:
            self._link.timers.at(now + self._stall_wait())
        if seq == message.last_seq:
            self._unsent.popleft()
            size = message.last_size
            more = self._may_send_new()
        else:
            size = mtu
            more = seq + 1 - una + c.SEND_WINDOW_EXCLUSIVE < self._mpr
        if seq == message.first_seq:
            opcode = message.opcode(seq)
            if message.imm is not None:
                self._imm_inflight += 1
        else:
            opcode = MIDDLE if seq != message.last_seq else message.last_opcode
        cc.inflight += size
        self._first_bytes += size
        if self.rto.retries and self.rto.backed_off:
            self._link.timers.at(self.rto.arm(seq, now))
        self.last_sent = now
        return self._frame(message, seq, opcode, entry, self._dscp, 0, more, now)

    def _frame(
        self, message: SendMessage, seq: int, opcode: int, entry: EvEntry, dscp: int, rtx: int,
        more: bool, now: int,
    ) -> bytes:  # fmt: skip
        """A data frame. `more`: another packet could follow this one; if not, or if the window is
        about to close, the peer is asked to acknowledge at once (section 5.3)."""
        pmtu = self._pmtu
        offset = (seq - message.first_seq) * pmtu
        payload = message.source[offset : offset + pmtu]
        self.sent_packets += 1
        self.sent_bytes += len(payload)
        cc = self.cc
        cwnd = cc.cwnd
        ask = not more or cwnd - cc.inflight < self._mtu or cwnd < self._threshold
        return self._flows[entry.port].data(
            opcode,
            dscp,
            _ECT,
            entry.ev,
            self._dqp,
            seq & PSN_MASK,
            ask,
            rtx,
            message.rqmsn,
            message.msn,
            now // self._tick & 0xFFFF,
            message.va + offset,
            message.rkey,
            message.length,
            payload,
            message.imm if seq == message.last_seq else None,
        )

    def _retransmit(self, port: int, now: int) -> bytes | None:
        """The oldest lost packet, on a fresh EV."""
        if not self.evs.planes[port].usable:
            return None
        window, lost = self.window, self._lost
        flag, mask, una = window.flag, window.mask, window.una
        while lost and (lost[0] < una or not flag[lost[0] & mask] & LOST):
            heapq.heappop(lost)
        seq = lost[0]
        i = seq & mask
        old = window.entry[i]
        entry = self.evs.pick_again(port, now, old, window.sent_at[i])
        if entry is None or (entry is old and self.evs.has_other_plane(port)):
            return None
        heapq.heappop(lost)
        message = window.message[i]
        flag[i] = OUT | RETX
        window.lost_count -= 1
        window.copies[i] = min(window.copies[i] + 1, 255)
        window.sent_at[i] = now
        window.entry[i] = entry
        window.prev[i] = -1
        self.cc.on_send(window.size_of(seq))
        self._link.timers.at(self.rto.arm(seq, now))
        self.retransmitted += 1
        self.last_sent = now
        return self._frame(
            message, seq, message.opcode(seq), entry, self._dscp_retx, 1, self.has_work(), now
        )

    def _again(self, port: int, now: int) -> bytes | None:
        """Everything is SACKed but the transport ACK is missing: the last packet once more."""
        window = self.window
        seq = window.next - 1
        if not self.evs.planes[port].usable:
            return None
        entry = self.evs.pick_again(port, now, window.entry[seq & window.mask], 0)
        if entry is None:
            return None
        self._resend_last = False
        message = window.message[seq & window.mask]
        self.retransmitted += 1
        return self._frame(message, seq, message.opcode(seq), entry, self._dscp_retx, 1, False, now)

    # --- SACK ----------------------------------------------------------------------------------

    def on_sack(self, packet: Packet, now: int) -> None:
        """A SACK of this QP (sections 4.5, 4.6, 5.3), also one that answers a probe."""
        seth, state = packet.seth, packet.cc_state
        if seth is None or state is None:
            return
        window, cc = self.window, self.cc
        una = window.una
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
            self._stalls = 0
        if window.undone:
            cc.undo_loss(window.undone)
            window.undone = 0
        if window.una != una:
            self.rto.progress()
        units = (state.rcvd_bytes - self._rcvd) & 0xFFFFFF
        fresh = units < 0x800000
        if fresh:
            self._rcvd = state.rcvd_bytes
            n = units << 8
            if not units:  # the same total: older or newer is told by what it reports
                fresh = max(cack, base + bits.bit_length() - 1) >= known
        else:
            n = 0
        if seth.mpr and self._link.qp.dynamic_mpr and self._link.peer.dynamic_mpr:
            self._mpr = min(seth.mpr, self._link.peer.mpr) * MPR_UNIT
        if seth.pr:
            rtt = self.prober.on_answer(seth.probe_id, seth.m, now)
            marked = False
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
        self.reverse.confirm(entry.port, entry.ev)
        i = seq & window.mask
        if window.holds(seq) and window.entry[i] is entry and window.copies[i] == packet.rtx + 1:
            rtt = now - window.sent_at[i]
        else:
            rtt = ((now // self._tick - state.tx_timestamp) & 0xFFFF) * self._tick
        if rtt <= 0:
            return None
        self.highest_rtt.add(rtt, now, self.cc.base_rtt_ns)
        return rtt

    def _infer(self, base: int, now: int) -> None:
        cc, window = self.cc, self.window
        guard = max(c.LOSS_GUARD_MIN_PACKETS, int(c.LOSS_GUARD_BDP * cc.bdp_bytes / self._mtu))
        for seq, rule in infer(window, self.highest_rtt.value, base, guard, cc.base_rtt_ns, now):
            i = seq & window.mask
            entry = window.entry[i]
            self.lost_inferred += 1
            self._link.report(
                LossInferred(
                    now,
                    self._link.qpn,
                    seq & PSN_MASK,
                    entry.ev,
                    entry.plane,
                    rule,
                    window.sent_at[i],
                )
            )
            cc.on_loss(window.size_of(seq), now)
            self._give_up(seq)
            heapq.heappush(self._lost, seq)
            self.evs.feed(entry, EvInput.LOSS, now)

    def _give_up(self, seq: int) -> None:
        """The copy in the network does not count any more. What it made of its EV is settled by
        whoever calls; suspicion ends."""
        window = self.window
        window.entry[seq & window.mask].suspect = False
        window.flag[seq & window.mask] = LOST
        window.lost_count += 1

    # --- NACK ----------------------------------------------------------------------------------

    def on_nack(self, packet: Packet, now: int) -> None:
        """Section 4.6. NACKs for what is not outstanding are ignored."""
        neth = packet.neth
        if neth is None:
            return
        window = self.window
        seq = unwrap(neth.nack_psn, window.una)
        if not window.una <= seq < window.next:
            return
        i = seq & window.mask
        reason = neth.nack_reason
        entry = self.evs.by_ev.get(neth.entropy)
        self.nacks += 1
        self._link.report(
            NackReceived(
                now,
                self._link.qpn,
                neth.nack_psn,
                neth.entropy,
                entry.plane if entry is not None else -1,
                reason,
            )
        )
        if reason == NackReason.UNEXP_EVENT:
            self._link.fail(Status.REMOTE_OPERATION_ERROR, "NACK UNEXP_EVENT", now)
            return
        if reason == NackReason.TRIMMED and entry is not None:
            self.evs.feed(entry, EvInput.NACK_TRIMMED, now)
        if not window.flag[i] & OUT or window.entry[i] is not entry:
            return  # of a copy that counts as lost already
        trimmed = reason in _TRIMS
        sent_at = window.sent_at[i]
        self.cc.on_nack(window.size_of(seq), trimmed, max(1, now - sent_at), now)
        self._give_up(seq)
        if trimmed and not c.TRIM_COUNTS_AS_RETRY:
            heapq.heappush(self._lost, seq)
            return
        window.flag[i] = 0  # neither out nor waiting, until the time has come
        window.lost_count -= 1
        again_at = now + self.cc.base_rtt_ns
        heapq.heappush(self._delayed, (again_at, seq))
        self._link.timers.at(again_at)
        if not self.rto.count_retry(sent_at, now):
            self._link.fail(Status.RETRY_EXCEEDED, "retry counter exceeded", now)

    # --- transport ACK -------------------------------------------------------------------------

    def on_ack(self, packet: Packet, now: int) -> None:
        """Transport ACK or NAK (section 4.4)."""
        aeth = packet.aeth
        if aeth is None:
            return
        window = self.window
        if aeth.syndrome != Syndrome.ACK:
            status = _NAK_STATUS.get(aeth.syndrome)
            if status is not None:
                self._link.fail(status, f"NAK {aeth.syndrome:#x}", now)
            return
        seq = unwrap(packet.psn, window.una - 1)
        if seq >= window.next:
            self.bad_sacks += 1
            return
        if seq >= window.una:  # the SACK was lost: an ACK says as much
            window.acknowledge(seq, window.una, 0)
            if window.undone:
                self.cc.undo_loss(window.undone)
                window.undone = 0
            self.rto.progress()
            if window.una == window.next:
                self.destination.settle()
        messages = self._messages
        if messages and messages[0].last_seq <= seq:
            self.rto.progress()
            self._ack_due = None
        while messages and messages[0].last_seq <= seq:
            self._complete(messages.popleft(), Status.SUCCESS, now)
        self._await_ack(now)

    def _complete(self, message: SendMessage, status: Status, now: int) -> None:
        if message.imm is not None and message.first_seq < self.window.next:
            self._imm_inflight -= 1
        if status is Status.SUCCESS:
            self.acked_bytes += message.length
        self._link.report(Completion(now, self._link.qpn, message.wr_id, status, message.length))
        message.source = _NOTHING

    def _await_ack(self, now: int) -> None:
        """Start or stop waiting for a transport ACK that alone is missing."""
        window = self.window
        messages = self._messages
        if messages and window.una > messages[0].last_seq and window.una == window.next:
            if self._ack_due is None:
                self._ack_due = now + self.rto.interval
                self._link.timers.at(self._ack_due)
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
        if self.window.una != self.window.next:
            stalled = self._stall_due()
            if due is None or stalled < due:
                return stalled
        return due

    def _stall_wait(self) -> int:
        cc = self.cc
        return c.STALL_PROBE_RTTS * max(cc.base_rtt_ns, int(cc.rtt_mean_ns)) << self._stalls

    def _stall_due(self) -> int:
        """When packets are out and nothing was heard for too long: the SACK was lost, or the peer
        holds one back because the window closed after a packet that did not ask for it."""
        return max(self._heard_at, self.last_sent) + self._stall_wait()

    def on_deadline(self, now: int) -> None:
        window, rto = self.window, self.rto
        delayed = self._delayed
        while delayed and delayed[0][0] <= now:
            _, seq = heapq.heappop(delayed)
            if seq >= window.una and not window.acked >> (seq - window.una) & 1:
                self._give_up(seq)
                heapq.heappush(self._lost, seq)
        if self._ack_due is not None and now >= self._ack_due:
            sent = self._ack_due
            self._ack_due = None
            if not rto.count_retry(sent, now):
                self._link.fail(Status.RETRY_EXCEEDED, "retry counter exceeded", now)
                return
            self._resend_last = True
            self._ack_due = now + rto.interval
        probe = False
        while (seq_or_none := rto.expired(now)) is not None:
            if not self._time_out(seq_or_none, now):
                return
            probe = c.PROBE_WITH_RTO
        if window.una != window.next and now >= self._stall_due():
            self._stalls = min(self._stalls + 1, STALLS_MAX)
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
        self._link.report(
            RtoExpired(
                now,
                self._link.qpn,
                seq & PSN_MASK,
                entry.ev,
                entry.plane,
                sent_at,
                self.rto.retries,
            )
        )
        self.cc.on_loss(window.size_of(seq), now)
        self._give_up(seq)
        heapq.heappush(self._lost, seq)
        self.evs.feed(entry, EvInput.RTO, now)
        if not alive:
            self._link.fail(Status.RETRY_EXCEEDED, "retry counter exceeded", now)
        return alive

    def flush(self, status: Status, now: int) -> None:
        """The QP failed: complete everything outstanding, the first with the cause."""
        while self._messages:
            self._complete(self._messages.popleft(), status, now)
            status = Status.FLUSHED
        self._unsent.clear()
        self._lost.clear()
        self._delayed.clear()
        self._ack_due = None
        self._resend_last = False
        window = self.window
        window.una = window.next
        window.acked = 0
        window.lost_count = 0
        self.destination.bound_inflight()


_NOTHING = memoryview(b"")
