"""The sending half of a requestor: posted messages to packets (sections 4.2, 4.6, 5.3).

What comes back, and time, are in `requestor`.
"""

from __future__ import annotations

import heapq
from collections import deque
from typing import TYPE_CHECKING, Final

from hosts.core import constants as c
from hosts.core.ev.evset import PLANE_LEAD_PACKETS
from hosts.core.messages import FIRST, MIDDLE, SendMessage, nominal_size
from hosts.core.qpcc import STATES, QpccState
from hosts.core.rto import RtoTimers
from hosts.core.sendwindow import LOST, OUT, RETX, SendWindow
from hosts.wire.constants import MPR_UNIT, PSN_MASK, Ecn

if TYPE_CHECKING:
    from hosts.core.ev.evset import EvEntry, EvSet
    from hosts.core.link import Link
    from hosts.core.qpcc import Destination

_ECT: Final = int(Ecn.ECT0)


class Sender:
    """Messages, window and what leaves next. `listed`: on the scheduler's list of Ready ones.

    messages  posted and not completed, in order
    lost      heap of numbers to send again, some obsolete (`window.flag` says)
    parked    waits at the destination for the window to open
    mpr       PSNs that may be outstanding, the peer's limit
    """

    __slots__ = (
        "_dqp",
        "_dscp",
        "_dscp_retx",
        "_edge",
        "_first_bytes",
        "_flows",
        "_gate",
        "_imms",
        "_pmtu",
        "_post_seq",
        "_posted",
        "_threshold",
        "_tick",
        "_unsent",
        "cc",
        "destination",
        "evs",
        "imm_inflight",
        "last_sent",
        "link",
        "listed",
        "lost",
        "messages",
        "mpr",
        "mtu",
        "parked",
        "rcvd",
        "resend_last",
        "retransmitted",
        "rto",
        "sent_bytes",
        "sent_packets",
        "stalls",
        "window",
    )

    def __init__(self, link: Link, first_psn: int, evs: EvSet, destination: Destination) -> None:
        config, peer = link.config, link.peer
        self.link = link
        self.evs = evs
        self.destination = destination
        self.cc = destination.cc
        self._pmtu = min(config.pmtu, peer.pmtu)
        self.mtu = nominal_size(self._pmtu)
        self._tick = config.tick_ns
        self._dqp = peer.qpn
        self._flows = link.flows
        self._threshold = link.agreement.peer_threshold
        self._edge = int(not link.agreement.send_inclusive)  # #7
        self._gate = self.mtu if c.SEND_GATE_NEEDS_MTU else 1  # #30
        self.mpr = peer.mpr * MPR_UNIT
        self.window = SendWindow(first_psn, self.mpr, self.mtu)
        self.rto = RtoTimers(link.qp.rto, config.time_scale, self.window)
        trimmable = peer.trim_nack
        self._dscp = config.dscp.trimmable if trimmable else config.dscp.no_trim
        self._dscp_retx = config.dscp.trimmable_retx if trimmable else config.dscp.no_trim
        self.messages: deque[SendMessage] = deque()
        self._unsent: deque[SendMessage] = deque()  # posted, last packet not sent yet
        self.lost: list[int] = []
        self._post_seq = first_psn
        self._posted = 0
        self._imms = 0
        self.imm_inflight = 0
        self.rcvd = 0  # newest rcvd_bytes of the peer, units of 256
        self._first_bytes = 0  # nominal bytes of first copies
        self.resend_last = False  # the last packet once more, for its transport ACK
        self.stalls = 0  # probes sent since the last progress
        self.listed = False
        self.parked = False
        self.last_sent = -1  # when data was last sent
        self.sent_packets = self.sent_bytes = self.retransmitted = 0

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
        self.messages.append(message)
        self._unsent.append(message)
        return message

    def clear(self) -> None:
        """Forget what was to be sent, and what is out."""
        self._unsent.clear()
        self.lost.clear()
        self.resend_last = False
        window = self.window
        if window.unack_psn != window.next:
            self.destination.busy -= 1
        window.unack_psn = window.next
        window.acked = 0
        window.lost_count = 0

    @property
    def outstanding(self) -> int:
        """Messages posted and not completed."""
        return len(self.messages)

    # --- sending -------------------------------------------------------------------------------

    def has_work(self) -> bool:
        """Something could be sent if the congestion window allows it."""
        return self.window.lost_count > 0 or self.resend_last or self._may_send_new()

    def _may_send_new(self) -> bool:
        unsent = self._unsent
        if not unsent:
            return False
        window = self.window
        if window.next - window.unack_psn + self._edge >= self.mpr:
            return False
        message = unsent[0]
        return (
            message.imm is None
            or window.next != message.first_seq
            or self.imm_inflight < self.link.peer.write_imm_limit
        )

    def window_open(self) -> bool:
        """Also true when the window only seems closed (see `Destination.settle`)."""
        cc = self.cc
        return cc.inflight + self._gate <= cc.cwnd or (
            cc.inflight > 0 and self.destination.settle()
        )

    def settle(self) -> None:
        """Everything sent has arrived: rcvd_bytes of the peer is known without a SACK."""
        self.rcvd = (self._first_bytes + 255 >> 8) & 0xFFFFFF

    def ready(self) -> bool:
        return self.resend_last or (self.window_open() and self.has_work())

    @property
    def qpcc_state(self) -> QpccState:
        """Section 5.5."""
        return STATES[self.has_work(), self.window_open(), self.window.next > self.window.unack_psn]

    def next_frame(self, port: int, now: int) -> bytes | None:
        """The next data frame that leaves on `port` at `now`; None: nothing for this port.

        The hot path of a sender: what is called once elsewhere is written out here.
        """
        cc = self.cc
        if cc.inflight + self._gate > cc.cwnd and not self.window_open():
            return self._again(port, now) if self.resend_last else None
        window = self.window
        if window.lost_count:
            return self._retransmit(port, now)
        unsent = self._unsent
        seq, una = window.next, window.unack_psn
        if not unsent or seq - una + self._edge >= self.mpr:
            return self._again(port, now) if self.resend_last else None
        message = unsent[0]
        imm = message.imm
        first = message.first_seq
        if imm is not None and seq == first:
            if self.imm_inflight >= self.link.peer.write_imm_limit:
                return self._again(port, now) if self.resend_last else None
            self.imm_inflight += 1
            # Taken back when no EV can be had below: nothing is sent then.
        evs = self.evs
        plane = evs.planes[port]
        entry = None
        if (
            not plane.masked
            and plane.active
            and (plane.sent - evs.min_sent < PLANE_LEAD_PACKETS or evs.may_send(port))
        ):
            entry = evs.pick(port, now)
        if entry is None:
            if imm is not None and seq == first:
                self.imm_inflight -= 1
            return None
        if seq - una > window.mask >> 1:
            window.grow()
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
            self.destination.busy += 1
            self.link.timers.at(now + min(self.stall_wait(), self.rto.base_ns))
        mtu = self.mtu
        if seq != message.last_seq:
            size = mtu
            more = seq + 1 - una + self._edge < self.mpr
            opcode = MIDDLE if seq != first else FIRST
            imm = None
        else:
            unsent.popleft()
            size = message.last_size
            more = self._may_send_new()
            opcode = message.last_opcode if seq != first else message.only_opcode
        inflight = cc.inflight = cc.inflight + size
        self._first_bytes += size
        rto = self.rto
        if rto.retries and rto.backed_off:
            self.link.timers.at(rto.arm(seq, now))
        self.last_sent = now
        offset = (seq - first) * self._pmtu
        payload = message.source[offset : offset + self._pmtu]
        self.sent_packets += 1
        self.sent_bytes += len(payload)
        cwnd = cc.cwnd
        return self._flows[port].data(
            opcode,
            self._dscp,
            _ECT,
            entry.ev,
            self._dqp,
            seq & PSN_MASK,
            not more or cwnd - inflight < mtu or cwnd < self._threshold,
            0,
            message.rqmsn,
            message.msn,
            now // self._tick & 0xFFFF,
            message.va + offset,
            message.rkey,
            message.length,
            payload,
            imm,
        )

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
        ask = not more or cwnd - cc.inflight < self.mtu or cwnd < self._threshold
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
        window, lost = self.window, self.lost
        flag, mask, una = window.flag, window.mask, window.unack_psn
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
        self.link.timers.at(self.rto.arm(seq, now))
        self.retransmitted += 1
        self.last_sent = now
        return self._frame(
            message, seq, message.opcode(seq), entry, self._dscp_retx, 1, self.has_work(), now
        )

    def _again(self, port: int, now: int) -> bytes | None:
        """Everything is SACKed but the transport ACK is missing: the last packet once more. When
        something else is out meanwhile, its ACK will speak for all."""
        window = self.window
        if window.unack_psn != window.next:
            self.resend_last = False
            return None
        seq = window.next - 1
        if not self.evs.planes[port].usable:
            return None
        entry = self.evs.pick_again(port, now, window.entry[seq & window.mask], 0)
        if entry is None:
            return None
        self.resend_last = False
        message = window.message[seq & window.mask]
        self.retransmitted += 1
        return self._frame(message, seq, message.opcode(seq), entry, self._dscp_retx, 1, False, now)

    def stall_wait(self) -> int:
        """How long to hear nothing before a probe asks for a SACK."""
        cc = self.cc
        return c.STALL_PROBE_RTTS * max(cc.base_rtt_ns, int(cc.rtt_mean_ns)) << self.stalls
