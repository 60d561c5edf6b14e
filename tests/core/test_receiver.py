"""What a receiver that runs short says, dynamic windows, service time, QP states, many QPs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hosts.core.config import CcConfig, ConfigError, EvConfig, QpConfig, ReceiverConfig, RtoConfig
from hosts.core.endpoint import EndpointError
from hosts.core.events import Completion, EvState, QpState, QpStateChange, RecvCompletion, Status
from hosts.core.faults import named
from hosts.core.qp import TRANSITIONS, QpInput, next_state
from hosts.core.receiver import ReceiveBuffer
from hosts.wire.constants import NackReason, Opcode, Syndrome
from tests.core.duo import DELAY, RATE, Duo, endpoint, qp_config


def reasons(duo):
    return {NackReason(p.neth.nack_reason) for p in duo.packets(0, Opcode.NACK)}


def deliver(duo, data, count=1, at=0):
    duo.write(data, wr_id=len(duo.completions()), at=at)
    assert len(duo.run_until_complete(count)) == count
    assert duo.good()
    assert bytes(duo.region.memory[at : at + len(data)]) == data


# --- NACKs ---------------------------------------------------------------------------------------


def test_a_full_buffer_refuses_and_nothing_is_lost():
    receiver = ReceiverConfig(drain_bps=RATE // 20, buffer_bytes=4096, penalty_from=0.99)
    duo = Duo(endpoint(0), endpoint(1, receiver=receiver))
    deliver(duo, bytes(range(256)) * 64)
    assert reasons(duo) == {NackReason.NO_PKT_BUFFER}
    assert duo.stats(0).lost_inferred == 0  # refused is not lost: no EV is blamed
    assert all(e.state is EvState.GOOD for e in duo.ends[0].ev_table(duo.qpns[0]))


def test_no_more_tracking_and_no_more_messages():
    for receiver, reason in (
        (ReceiverConfig(ooo_packets=3), NackReason.NO_BITMAP),
        (ReceiverConfig(open_messages=2), NackReason.NO_RESOURCE),
    ):
        duo = Duo(endpoint(0), endpoint(1, receiver=receiver))
        dropped: list[bytes] = []

        def first_is_lost(target, port, frame, dropped=dropped):
            if target == 1 and frame[62] in (0xC6, 0xCA) and not dropped:
                dropped.append(frame)
                return []
            return [frame]

        duo.filter = first_is_lost
        for i in range(8):
            duo.write(bytes([i + 1]) * 500, wr_id=i, at=500 * i)
        assert len(duo.run_until_complete(8)) == 8
        assert duo.good()
        assert reasons(duo) == {reason}


def test_retries_of_refusals_run_out():
    """Recoverable NACKs count as retries (trims do not)."""
    receiver = ReceiverConfig(drain_bps=1, buffer_bytes=300)
    qp = qp_config(rto=RtoConfig(t=4, linear=2, exp=1))
    duo = Duo(endpoint(0), endpoint(1, receiver=receiver), qp)
    duo.write(bytes(2000))
    (done,) = duo.run_until_complete()
    assert done.status is Status.RETRY_EXCEEDED
    assert duo.stats(0).state is QpState.ERROR


@pytest.mark.parametrize(
    ("fault", "status"),
    [
        ("fail_placing", Status.REMOTE_OPERATION_ERROR),
        ("fail_tracking", Status.REMOTE_OPERATION_ERROR),
    ],
)
def test_internal_failure(fault, status):
    duo = Duo(endpoint(0), endpoint(1, faults=named([fault])))
    duo.ends[1].post_recv(duo.qpns[1], 9)
    for i in range(3):
        duo.write(bytes(20_000), wr_id=i)
    done = duo.run_until_complete(3)
    assert [e.status for e in done] == [Status.SUCCESS, status, Status.FLUSHED]
    if fault == "fail_placing":
        ack = duo.packets(0, Opcode.ACK)[-1]
        assert ack.aeth.syndrome == Syndrome.NAK_REMOTE_OPERATION
    else:
        assert reasons(duo) == {NackReason.UNEXP_EVENT}
    (flushed,) = [e for e in duo.events[1] if type(e) is RecvCompletion]
    assert (flushed.wr_id, flushed.status) == (9, Status.FLUSHED)


# --- windows -------------------------------------------------------------------------------------


def test_penalty_grows_with_the_buffer_and_is_taken_back():
    buffer = ReceiveBuffer(ReceiverConfig(drain_bps=8_000_000_000, buffer_bytes=1000), 0)
    assert buffer.feedback(0) == (0, 0)  # never penalised: nothing to restore
    assert buffer.admit(250, 0)
    assert buffer.feedback(0) == (0, 0)
    assert buffer.admit(375, 0)
    assert buffer.feedback(0) == (63, 0)
    assert buffer.admit(375, 0)
    assert buffer.feedback(0) == (127, 0)
    assert not buffer.admit(1, 0)
    assert buffer.feedback(900) == (0, 1)  # a byte per nanosecond has left


def test_senders_obey_the_penalty():
    """64 through one round trip about halves the window; 0 with restore_cwnd brings it back."""
    cc = CcConfig("nscc", 4 * DELAY, {"max_wnd_bdps": 8.0})
    duo = Duo(endpoint(0), endpoint(1), qp_config(cc=cc))
    deliver(duo, bytes(30_000))
    before = duo.stats(0).cwnd
    duo.ends[1].set_receiver_penalty(127)
    deliver(duo, bytes(30_000), 2)
    assert duo.stats(0).cwnd < before / 4
    assert {p.cc_state.rcv_cwnd_pen for p in duo.packets(0, Opcode.SACK)} == {0, 127}
    duo.ends[1].set_receiver_penalty(0)
    deliver(duo, bytes(3_000), 3)
    assert duo.packets(0, Opcode.SACK)[-1].cc_state.restore_cwnd == 1
    assert duo.stats(0).cwnd == pytest.approx(before, rel=0.05)


def test_dynamic_window_follows_the_newest_sack():
    qp = qp_config(
        mpr=16, dynamic_mpr=True, cc=CcConfig("fixed", 30_000, {"window_bytes": 1 << 30})
    )
    duo = Duo(endpoint(0), endpoint(1), qp)
    duo.region = duo.ends[1].register_memory(1 << 20)
    duo.write(bytes(1000))
    duo.run_until_complete()
    duo.ends[1].set_receive_window(duo.qpns[1], 2)
    duo.write(bytes(1000), wr_id=1)
    duo.run_until_complete(2)
    duo.filter = lambda target, port, frame: []
    duo.write(bytes(600_000), wr_id=2)
    duo.run(duo.now + 50_000_000)
    assert duo.stats(0).outstanding_packets == 2 * 128 - 1
    with pytest.raises(EndpointError, match=r"must be 1\.\.16"):
        duo.ends[1].set_receive_window(duo.qpns[1], 17)
    plain = Duo(endpoint(0), endpoint(1))
    with pytest.raises(EndpointError, match="not dynamic"):
        plain.ends[1].set_receive_window(plain.qpns[1], 8)


def test_the_buffer_shrinks_a_dynamic_window():
    buffer = ReceiveBuffer(ReceiverConfig(drain_bps=8, buffer_bytes=10 * 256 * 128), 0)
    assert buffer.window(8, 256, 0) == 8
    assert buffer.admit(7 * 256 * 128, 0)
    assert buffer.window(8, 256, 0) == 3
    assert buffer.admit(3 * 256 * 128, 0)
    assert buffer.window(8, 256, 0) == 1


# --- service time --------------------------------------------------------------------------------


@pytest.mark.parametrize("svc_time", [False, True])
def test_service_time_is_added_to_the_reflected_stamp(svc_time):
    """A SACK that waits for a busy port says how long it was kept."""
    duo = Duo(endpoint(0, ports=1), endpoint(1, ports=1),
              qp_config(svc_time=svc_time, ev=EvConfig(active=4, backup=0)))  # fmt: skip
    back = duo.ends[0].register_memory(1 << 16)
    b = duo.ends[1]
    b.post_write(duo.qpns[1], 0, bytes(8_000), back.va, back.rkey)
    duo.now = 1000
    duo.write(bytes(200))
    duo.run()
    stamps = [p.cc_state.tx_timestamp for p in duo.packets(0, Opcode.SACK)]
    sent = [p.tx_timestamp for p in duo.packets(1, Opcode.WRITE_ONLY)]
    stay = (stamps[0] - sent[0]) * 128
    assert (stay > 1000) is svc_time
    assert stay < 4000


# --- QP states -----------------------------------------------------------------------------------


@pytest.mark.parametrize("state", QpState)
@pytest.mark.parametrize("what", QpInput)
def test_qp_table(state, what):
    assert next_state(state, what) == TRANSITIONS.get((state, what))
    if what is QpInput.FAIL and state is not QpState.ERROR:
        assert next_state(state, what) is QpState.ERROR


def test_a_qp_lives_twice():
    """RTS -> ERROR -> RESET -> INIT -> RTR -> RTS, with a new first PSN and nothing left over."""
    duo = Duo(endpoint(0), endpoint(1))
    deliver(duo, bytes(5000))
    duo.write(bytes(9000), wr_id=1)
    infos = []
    for side, end in enumerate(duo.ends):
        qpn = duo.qpns[side]
        with pytest.raises(EndpointError, match="reset is not possible in RTS"):
            end.reset_qp(qpn, duo.now)
        end.fail_qp(qpn, duo.now)
        with pytest.raises(EndpointError, match="cannot initialise in state ERROR"):
            end.init_qp(qpn, duo.now)
        end.reset_qp(qpn, duo.now)
        infos.append(end.init_qp(qpn, duo.now, replace(qp_config(), first_psn=5)))
    for side, end in enumerate(duo.ends):
        end.ready_to_receive(duo.qpns[side], infos[1 - side], duo.now)
        with pytest.raises(EndpointError, match="cannot write in state RTR"):
            end.post_write(duo.qpns[side], 0, b"x", 0, 0)
        end.ready_to_send(duo.qpns[side], duo.now)
    duo.pump()
    flushed = [e for e in duo.events[0] if type(e) is Completion]
    assert [e.status for e in flushed] == [Status.SUCCESS, Status.FLUSHED]
    changes = [e.new for e in duo.events[0] if type(e) is QpStateChange]
    assert changes[-5:] == [
        QpState.ERROR, QpState.RESET, QpState.INIT, QpState.RTR, QpState.RTS,
    ]  # fmt: skip
    duo.write(bytes([7]) * 5000, wr_id=2)
    duo.run_until_complete(3)
    assert duo.completions()[-1].status is Status.SUCCESS
    assert bytes(duo.region.memory[:5000]) == bytes([7]) * 5000
    duo.run()
    assert [end.next_deadline() for end in duo.ends] == [None, None]


def test_completed_before_a_nak_is_completed():
    """The messages that a NAK's PSN covers did arrive, even when their ACK was lost."""
    duo = Duo(endpoint(0), endpoint(1))
    duo.filter = lambda target, port, frame: (
        [] if frame[62] == Opcode.ACK and frame[74] == Syndrome.ACK else [frame]
    )
    duo.write(bytes(300))
    duo.run(100_000)
    duo.ends[0].post_write(duo.qpns[0], 1, bytes(300), duo.region.va, 1)  # no such R_Key
    done = duo.run_until_complete(2)
    assert [e.status for e in done] == [Status.SUCCESS, Status.REMOTE_ACCESS_ERROR]


def test_limits_of_a_qp():
    with pytest.raises(ConfigError, match="mpr 7"):
        QpConfig(mpr=7)
    with pytest.raises(ConfigError, match="write_imm_limit 0"):
        QpConfig(write_imm_limit=0)
    with pytest.raises(ConfigError, match="ooo_packets 0"):
        ReceiverConfig(ooo_packets=0)
    with pytest.raises(ConfigError, match="drain_bps"):
        ReceiverConfig(drain_bps=0)


# --- many QPs to one destination ---------------------------------------------------------------


def test_many_qps_share_a_window_fairly():
    """Section 5.5: one controller for all, Ready ones served round-robin."""
    a, b = endpoint(0), endpoint(1)
    duo = Duo(a, b)
    config = qp_config()
    qpns = [duo.qpns[0]]
    for _ in range(39):
        mine, theirs = a.create_qp(config), b.create_qp(config)
        a.connect_qp(mine.qpn, theirs, 0)
        b.connect_qp(theirs.qpn, mine, 0)
        qpns.append(mine.qpn)
    region = b.register_memory(1 << 20)
    for i, qpn in enumerate(qpns):
        a.post_write(qpn, i, bytes(20_000), region.va + 20_000 * i, region.rkey)
    duo.run(1_500_000)
    sent = [a.stats().qps[qpn].sent_packets for qpn in qpns]
    assert min(sent) > 0
    assert max(sent) - min(sent) <= 2
    assert a.stats().qps[qpns[0]].inflight <= 16_000
    duo.run()
    done = [e for e in duo.events[0] if type(e) is Completion]
    assert len(done) == len(qpns)
    assert all(e.status is Status.SUCCESS for e in done)


def test_idle_qps_cost_no_timers():
    a, b = endpoint(0), endpoint(1)
    duo = Duo(a, b)
    for _ in range(50):
        mine, theirs = a.create_qp(), b.create_qp()
        a.connect_qp(mine.qpn, theirs, 0)
        b.connect_qp(theirs.qpn, mine, 0)
    assert a.next_deadline() is None
    deliver(duo, bytes(10_000))
    duo.run()
    assert (a.next_deadline(), b.next_deadline()) == (None, None)
