"""The choices of reference section 9 (and a few unpublished figures) as named constants.

What vendors may answer differently is in `interop`, in named profiles; `interop.CHOICES` lists all
33 points. What is fixed on the wire is in `hosts.wire.constants`.
"""

from __future__ import annotations

from typing import Final

from hosts.wire.constants import Syndrome

# --- 4.1, 4.2: windows -------------------------------------------------------------------------
MPR_DEFAULT: Final = 32  # x 128 PSNs
MPR_MIN: Final = 8
MPR_MAX: Final = 255  # one octet in SETH
WRITE_IMM_LIMIT_DEFAULT: Final = 32
WRITE_IMM_LIMIT_SYNDROME: Final = Syndrome.NAK_INVALID_REQUEST  # #9
MESSAGE_BYTES_MIN: Final = 1  # #26: a zero-length write is refused when posted
MESSAGE_BYTES_MAX: Final = 2**32 - 1
FIRST_MSN: Final = 0  # #33: of MSN and RQMSN
SVC_TIME_DEFAULT: Final = False  # #24: service time added to the reflected stamp

# --- 4.5: SACK generation (#14) ----------------------------------------------------------------
SACK_THRESHOLD_BYTES: Final = 16 * 1024
SACK_MIN_ADD_BYTES: Final = 1024
SACK_BITMAP_BITS: Final = 64
ACK_PSN_OFFSET_MIN: Final = -(2**15)
ACK_PSN_OFFSET_MAX: Final = 2**15 - 1

# --- 4.6: loss inference (#15) and RTO (#16, #17) ----------------------------------------------
LOSS_GUARD_MIN_PACKETS: Final = 3
LOSS_GUARD_BDP: Final = 1.0  # packets SACKed beyond a hole before it counts as lost, in BDPs
LOSS_AGE_RTTS: Final = 3  # a hole out for this many of the highest RTTs needs no guard
STALL_PROBE_RTTS: Final = 2  # nothing heard for this long with packets out: a probe asks for a SACK
RTO_UNIT_NS: Final = 1024  # 1.024 us x 2^t
RTO_T_DEFAULT: Final = 8
RTO_T_MAX: Final = 24
RTO_LINEAR_DEFAULT: Final = 7
RTO_LINEAR_MAX: Final = 7
RTO_EXP_DEFAULT: Final = 25
RTO_EXP_UNLIMITED: Final = 25
PROBE_WITH_RTO: Final = True  # a reliability probe goes with an expired packet sent again
TRIM_COUNTS_AS_RETRY: Final = False

# --- 3.3, 3.4: entropy values (#12) -------------------------------------------------------------
EV_ACTIVE_DEFAULT: Final = 128
EV_BACKUP_DEFAULT: Final = 64  # half the active set
EV_MIN_ACTIVE_SHARE: Final = 0.25  # of the active set: below it nothing more is demoted
EV_RECOVERY_SUCCESSES: Final = 3
EV_RECOVERY_CAP_NS: Final = 100_000_000  # probe spacing doubles up to 100 ms (before time_scale)
EV_TRIAL_PROBES: Final = 5  # unanswered probes of a backup EV before it is demoted
EV_PROBE_TIMEOUT_RTTS: Final = 4  # a probe that is out longer than this many base RTTs has failed
EV_PROBE_TIMEOUT_NS: Final = 2_000_000  # of a probe on demand, before time_scale (public API)

# --- 6: control plane --------------------------------------------------------------------------
REVERSE_PROBE_RTTS: Final = 1  # one probe per plane and RTT while inbound data and no outbound
PORT_STATUS_TRIES: Final = 3

# --- 5: congestion control ---------------------------------------------------------------------
SEND_GATE_NEEDS_MTU: Final = True  # #30: inflight + MTU <= cwnd
PENALTY_MAX: Final = 127  # rcv_cwnd_pen has 7 bits
