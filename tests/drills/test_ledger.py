"""Packet conservation per link direction and in switches."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from drills.ledger import Ledger, Snapshot, build
from drills.view import End, FabricView, Link
from tests.drills.synthetic import port

HOST = End("h0", 1, "h0-p0", is_host=True)
DOWN = End("t0", 1, "t0-1")
UP = End("t0", 2, "t0-2")
FAR = End("t1", 1, "t1-1")
VIEW = FabricView(
    name="one",
    links={
        "h0:t0": Link("h0:t0", 0, HOST, DOWN, 100_000_000, 0),
        "t0:t1": Link("t0:t1", 0, UP, FAR, 100_000_000, 0),
    },
    pmtu=4096,
    time_scale=1,
    route=lambda _src, _dst, _plane, _ev: (),
)
KERNEL = dict.fromkeys(
    ("rx_packets", "tx_packets", "rx_dropped", "tx_dropped", "rx_errors", "tx_errors"), 0
)


def state(
    *,
    host: dict[str, int] | None = None,
    kernel: dict[str, Any] | None = None,
    totals: dict[str, int] | None = None,
    **ports: Any,
) -> Snapshot:
    names = {"down": ("t0", "1"), "up": ("t0", "2"), "far": ("t1", "1")}
    switches: dict[str, dict[str, Any]] = {"t0": {}, "t1": {}}
    for key, (switch, number) in names.items():
        switches[switch][number] = port(**ports.get(key, {}))
    interfaces = {name: dict(KERNEL) for name in ("h0-p0", "t0-1", "t0-2", "t1-1")}
    for name, values in (kernel or {}).items():
        interfaces[name].update(values)
    nic = {"rx_packets": 0, "tx_packets": 0, "sock_drops": 0, **(host or {})}
    return Snapshot(
        {
            "switches": switches,
            "totals": {"t0": totals or {}},
            "interfaces": interfaces,
            "nics": {"h0-p0": nic},
        }
    )


def book(end: Snapshot, start: Snapshot | None = None) -> Ledger:
    return build(VIEW, start or state(), end)


def row(ledger: Ledger, direction: str) -> Any:
    return next(item for item in ledger.wires if item.direction == direction)


def test_balanced() -> None:
    ledger = book(
        state(
            host={"tx_packets": 100},
            kernel={"h0-p0": {"tx_packets": 100}},
            down={"rx_packets": 100},
            up={"tx_packets": 90, "queue_full": 4, "port_down": 6},
            far={"rx_packets": 89, "rx_socket": 1, "pipeline": 89},
        )
    )
    assert ledger.balanced
    up = row(ledger, "t0 > t1")
    assert (up.sent, up.delivered) == (100, 89)
    assert {k: v for k, v in up.drops.items() if v} == {
        "queue_full": 4,
        "port_down": 6,
        "rx_socket": 1,
    }
    assert ledger.drops == {"queue_full": 4, "port_down": 6, "rx_socket": 1, "pipeline": 89}
    assert ledger.packets_lost == 100


def test_only_the_difference_counts() -> None:
    before = state(up={"tx_packets": 7}, far={"rx_packets": 5}, down={"rx_packets": 7})
    ledger = book(
        state(up={"tx_packets": 9}, far={"rx_packets": 7, "pipeline": 2}, down={"rx_packets": 9}),
        before,
    )
    assert row(ledger, "t0 > t1").sent == 2
    assert row(ledger, "t0 > t1").imbalance == 0


def test_a_frame_that_vanishes_on_a_wire() -> None:
    ledger = book(state(down={"rx_packets": 9}, up={"tx_packets": 9}, far={"rx_packets": 8}))
    assert row(ledger, "t0 > t1").imbalance == 1
    assert not ledger.balanced


def test_a_frame_that_appears_from_nowhere() -> None:
    ledger = book(state(far={"rx_packets": 1, "pipeline": 1}))
    assert row(ledger, "t0 > t1").imbalance == -1
    assert not ledger.balanced


def test_errors_in_opposite_directions_do_not_cancel() -> None:
    ledger = book(
        state(
            down={"rx_packets": 1},
            up={"tx_packets": 1, "rx_packets": 1, "pipeline": 1},
        )
    )
    assert ledger.imbalance > 0


def test_frames_still_held_are_not_lost() -> None:
    ledger = book(state(down={"rx_packets": 5}, totals={"held": 5}))
    first = next(item for item in ledger.switches if item.switch == "t0")
    assert (first.held, first.imbalance) == (5, 0)


def test_copies_and_frames_for_the_controller_are_counted() -> None:
    ledger = book(
        state(
            down={"rx_packets": 2},
            up={"tx_packets": 3},
            far={"rx_packets": 3, "pipeline": 3},
            totals={"copies": 2, "packet_in": 1},
        )
    )
    assert next(item for item in ledger.switches if item.switch == "t0").imbalance == 0


def test_any_cause_of_the_switch_counts() -> None:
    end = state(down={"rx_packets": 4})
    end.switches["t0"]["2"]["drops"].update(no_port=3, a_new_cause=1)
    first = next(item for item in book(end).switches if item.switch == "t0")
    assert first.imbalance == 0


def test_kernel_drops_explain_only_what_is_missing() -> None:
    """A kernel counts a frame as dropped that its own stack refused after the socket got it."""
    seen = {"t1-1": {"rx_packets": 9, "rx_dropped": 9}}
    ledger = book(
        state(
            down={"rx_packets": 9},
            up={"tx_packets": 9},
            far={"rx_packets": 9, "pipeline": 9},
            kernel=seen,
        )
    )
    assert row(ledger, "t0 > t1").drops.get("kernel", 0) == 0
    ledger = book(
        state(
            down={"rx_packets": 9},
            up={"tx_packets": 9},
            far={"rx_packets": 7, "pipeline": 7},
            kernel=seen,
        )
    )
    assert row(ledger, "t0 > t1").drops["kernel"] == 2
    assert row(ledger, "t0 > t1").imbalance == 0


def test_frames_a_host_does_not_want_are_named() -> None:
    ledger = book(
        state(
            down={"tx_packets": 5},
            host={"rx_packets": 4},
            kernel={"h0-p0": {"rx_packets": 5}},
            up={"rx_packets": 5},
            far={"tx_packets": 5},
        )
    )
    assert row(ledger, "t0 > h0").drops["not_mrc"] == 1
    assert row(ledger, "t0 > h0").imbalance == 0
    assert "not_mrc" not in ledger.drops


def test_absent_counters_are_a_problem() -> None:
    empty = Snapshot({"switches": {}, "interfaces": {}, "nics": {}})
    assert not build(VIEW, empty, empty).balanced


def test_idle_rows_are_left_out_of_the_stored_form() -> None:
    stored = book(state(up={"rx_packets": 1, "pipeline": 1}, far={"tx_packets": 1})).to_json()
    assert [item["direction"] for item in stored["links"]] == ["t1 > t0"]


@given(
    st.integers(0, 10**6), st.integers(0, 500), st.integers(0, 500), st.integers(0, 500),
    st.integers(0, 5),
)  # fmt: skip
def test_what_is_reported_missing_is_what_is_missing(
    sent: int, full: int, down: int, socket: int, unseen: int
) -> None:
    ledger = book(
        state(
            down={"rx_packets": sent + full + down},
            up={"tx_packets": sent, "queue_full": full, "port_down": down},
            far={
                "rx_packets": sent - socket - unseen,
                "rx_socket": socket,
                "pipeline": sent - socket - unseen,
            },
        )
    )
    assert row(ledger, "t0 > t1").imbalance == unseen
