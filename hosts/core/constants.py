"""The choices of reference section 9 (and a few unpublished figures) as named constants.

What vendors may answer differently is in `interop`, in named profiles; `interop.CHOICES` lists all
33 points. What is fixed on the wire is in `hosts.wire.constants`.
"""

from __future__ import annotations

from hosts.wire.constants import Syndrome

# --- 4.1, 4.2: windows -------------------------------------------------------------------------
MPR_DEFAULT = 32  # x 128 PSNs
MPR_MIN = 8
MPR_MAX = 255  # one octet in SETH
WRITE_IMM_LIMIT_DEFAULT = 32
WRITE_IMM_LIMIT_SYNDROME = Syndrome.NAK_INVALID_REQUEST  # #9
MESSAGE_BYTES_MIN = 1  # #26: a zero-length write is refused when posted
MESSAGE_BYTES_MAX = 2**32 - 1
FIRST_MSN = 0  # #33: of MSN and RQMSN
SVC_TIME_DEFAULT = False  # #24: service time added to the reflected stamp

# --- 4.5: SACK generation (#14) ----------------------------------------------------------------
SACK_THRESHOLD_BYTES = 16 * 1024
SACK_MIN_ADD_BYTES = 1024
SACK_BITMAP_BITS = 64
ACK_PSN_OFFSET_MIN = -(2**15)
ACK_PSN_OFFSET_MAX = 2**15 - 1

# --- 4.6: loss inference (#15) and RTO (#16, #17) ----------------------------------------------
LOSS_GUARD_MIN_PACKETS = 3
LOSS_GUARD_BDP = 1.0  # packets SACKed beyond a hole before it counts as lost, in BDPs
LOSS_AGE_RTTS = 3  # a hole out for this many of the highest RTTs needs no guard
STALL_PROBE_RTTS = 2  # nothing heard for this long with packets out: a probe asks for a SACK
RTO_UNIT_NS = 1024  # 1.024 us x 2^t
RTO_T_DEFAULT = 8
RTO_T_MAX = 24
RTO_LINEAR_DEFAULT = 7
RTO_LINEAR_MAX = 7
RTO_EXP_DEFAULT = 25
RTO_EXP_UNLIMITED = 25
PROBE_WITH_RTO = True  # a reliability probe goes with the retransmission of an expired packet
TRIM_COUNTS_AS_RETRY = False

# --- 3.3, 3.4: entropy values (#12) -------------------------------------------------------------
EV_ACTIVE_DEFAULT = 128
EV_BACKUP_DEFAULT = 64  # half the active set
EV_MIN_ACTIVE_SHARE = 0.25  # floor below which nothing more is demoted, share of the active set
EV_RECOVERY_SUCCESSES = 3
EV_RECOVERY_CAP_NS = 100_000_000  # probe spacing doubles up to 100 ms (before time_scale)
EV_TRIAL_PROBES = 5  # unanswered probes of a backup EV before it is demoted
EV_PROBE_TIMEOUT_RTTS = 4  # a probe that is out longer than this many base RTTs has failed
EV_PROBE_TIMEOUT_NS = 2_000_000  # of a probe on demand (before time_scale), as in the public API

# --- 6: control plane --------------------------------------------------------------------------
REVERSE_PROBE_RTTS = 1  # one probe per plane and RTT while inbound data and no outbound
PORT_STATUS_TRIES = 3

# --- 5: congestion control ---------------------------------------------------------------------
SEND_GATE_NEEDS_MTU = True  # #30: inflight + MTU <= cwnd
PENALTY_MAX = 127  # rcv_cwnd_pen has 7 bits
