from __future__ import annotations

import queue
import socket

import pytest
from p4.v1 import p4runtime_pb2

from controller import client as client_module
from controller.client import SwitchClient
from controller.counters import Count
from controller.entities import Action, Codec, TableEntry
from controller.errors import ConnectError, PrimaryLost, WriteError
from controller.p4names import P4Names
from controller.reconcile import Update
from controller.session import Pipeline, SwitchSession
from tests.controller.info import Builder


def connect(switch, election_id=5, on_lost=None) -> SwitchClient:
    return SwitchClient("t0", switch.address, 1, election_id, on_lost or (lambda reason: None))


def small_pipeline() -> Pipeline:
    builder = Builder().action("C.stop").table("C.t", {"k": ("exact", 16)}, ["C.stop"])
    builder.counter("C.seen", 8)
    config = p4runtime_pb2.ForwardingPipelineConfig(p4info=builder.message)
    config.cookie.cookie = 77
    return Pipeline(config, Codec(P4Names(builder.message)), 77)


def insert(key: int) -> Update:
    return Update("INSERT", TableEntry("C.t", {"k": key}, Action("C.stop")))


def test_a_newer_controller_wins_and_the_older_is_told(switch):
    lost: queue.Queue[str] = queue.Queue()
    old = connect(switch, 5, lost.put)
    new = connect(switch, 6)
    reason = lost.get(timeout=5)
    assert reason == "t0: another controller took over (election id 6)"
    with pytest.raises(PrimaryLost, match="Not primary"):
        old.push_pipeline(p4runtime_pb2.ForwardingPipelineConfig())
    old.close()
    new.close()


def test_an_older_controller_is_refused_at_once(switch):
    new = connect(switch, 6)
    with pytest.raises(ConnectError, match=r"another controller is the primary \(election id 6\)"):
        connect(switch, 5)
    new.close()


def test_no_switch_there():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    with pytest.raises(ConnectError) as error:
        SwitchClient("t0", address, 1, 5, lambda reason: None)
    assert str(error.value).startswith(f"t0: {address}: UNAVAILABLE")
    assert "\n" not in str(error.value)


def test_a_switch_that_says_nothing(switch, monkeypatch):
    monkeypatch.setattr(client_module, "HANDSHAKE_TIMEOUT", 0.1)
    switch.silent = True
    with pytest.raises(ConnectError, match=r"did not answer in 0\.1 s"):
        connect(switch)


def test_a_switch_that_dies_is_a_loss(switch):
    lost: queue.Queue[str] = queue.Queue()
    client = connect(switch, on_lost=lost.put)
    switch.stop()
    assert "the stream to the switch broke" in lost.get(timeout=5)
    client.close()
    client.close()


def test_closing_is_not_a_loss(switch):
    lost: list[str] = []
    client = connect(switch, on_lost=lost.append)
    client.close()
    assert lost == []


def test_the_pipeline_is_pushed_once(switch):
    client = connect(switch)
    session = SwitchSession(client, small_pipeline())
    assert session.ensure_pipeline() is True
    assert session.ensure_pipeline() is False
    assert switch.pushes == 1
    session.close()


def test_refused_updates_are_shown_and_successes_between_them_are_not(switch):
    session = SwitchSession(connect(switch), small_pipeline())
    switch.refuse = {1, 3}
    with pytest.raises(WriteError) as error:
        session.write([insert(k) for k in range(5)])
    assert str(error.value) == (
        "t0: 2 of 5 updates refused: "
        "INSERT C.t [k=0x1] -> C.stop(): RESOURCE_EXHAUSTED: Full; "
        "INSERT C.t [k=0x3] -> C.stop(): RESOURCE_EXHAUSTED: Full"
    )
    assert len(switch.store) == 3
    session.close()


def test_many_refusals_are_cut_short(switch):
    session = SwitchSession(connect(switch), small_pipeline())
    switch.refuse = set(range(9))
    with pytest.raises(WriteError, match="and 4 more"):
        session.write([insert(k) for k in range(9)])
    session.close()


def test_large_writes_are_split(switch, monkeypatch):
    monkeypatch.setattr("controller.session.BATCH", 4)
    session = SwitchSession(connect(switch), small_pipeline())
    session.write([insert(k) for k in range(10)])
    assert [len(types) for types in switch.writes] == [4, 4, 2]
    session.close()


def test_counters_are_read_by_name(switch):
    pipeline = small_pipeline()
    session = SwitchSession(connect(switch), pipeline)
    id_ = pipeline.codec.names.counter("C.seen").id
    switch.counters[id_, 3] = (7, 700)
    assert session.read_counters([("C.seen", 3), ("C.seen", 4)]) == {
        ("C.seen", 3): Count(7, 700),
        ("C.seen", 4): Count(),
    }
    session.close()
