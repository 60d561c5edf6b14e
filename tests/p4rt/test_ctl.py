"""The side channel over a fake engine."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from softswitch.ctl import CtlClient, CtlError, CtlServer, changed_config
from softswitch.engine.types import CounterValue, PortConfig
from tests.p4rt.fake import FakeEngine


class Side:
    def __init__(self, path: Path) -> None:
        engine: Any = FakeEngine()
        self.engine = engine
        self.engine.add_port(1)
        self.engine.add_port(2)
        self.engine.counters["I.trims"] = [CounterValue(1, 10), CounterValue(2, 20)]
        self.server = CtlServer(engine, path, interfaces={1: "veth0"})
        self.server.start()
        self.client = CtlClient(path)


@pytest.fixture
def side(tmp_path: Path) -> Iterator[Side]:
    out = Side(tmp_path / "ctl")
    yield out
    out.client.close()
    out.server.close()


def test_ports_and_settings(side: Side) -> None:
    ports = side.client.ports()
    assert ports[1]["name"] == "veth0"
    assert ports[2]["name"] is None
    assert ports[1]["config"]["rate_bps"] == 0
    config = side.client.set_port(1, rate_bps=100_000_000, queue_limits=[90, 64], loss=0.5)
    assert config == side.client.ports()[1]["config"]
    assert side.engine.port_config(1) == PortConfig(
        rate_bps=100_000_000, queue_limits=(90, 64), loss=0.5
    )
    # What is not named stays.
    side.client.set_port(1, blackhole=True)
    assert side.engine.port_config(1).loss == 0.5


def test_statistics_and_counters(side: Side) -> None:
    stats = side.client.stats(reset_max=True)
    assert stats["ports"][1]["drops"] == {"loss": 3}
    assert stats["ports"][1]["queue_depth_max"] == 5
    assert stats["fidelity"]["services"] == 1
    assert stats["now"] > 0
    assert side.client.counters(["I.trims"]) == {"I.trims": {"packets": [1, 2], "bytes": [10, 20]}}
    assert set(side.client.counters()) == {"I.trims"}
    assert side.client.version()["pid"] > 0


@pytest.mark.parametrize(
    ("port", "config", "message"),
    [
        (9, {}, "the switch has no port 9"),
        ("1", {}, "port: '1' is not an integer"),
        (1, {"rate": 1}, "config.rate: unknown setting; known are rate_bps"),
        (1, {"rate_bps": -1}, "config.rate_bps: -1 is not in"),
        (1, {"rate_bps": True}, "config.rate_bps: True is not an integer"),
        (1, {"loss": 1.5}, "config.loss: 1.5 is not in 0..1"),
        (1, {"loss": float("nan")}, "config.loss"),
        (1, {"queue_limits": []}, "config.queue_limits"),
        (1, {"queue_limits": [0]}, "config.queue_limits: 0 is not in"),
        (1, {"blackhole": 1}, "config.blackhole: 1 is not true or false"),
        (1, [], "config: a JSON object is needed"),
    ],
)
def test_refusals_name_the_field(side: Side, port: Any, config: Any, message: str) -> None:
    before = side.engine.port_config(1)
    with pytest.raises(CtlError) as caught:
        side.client.request("set_port", port=port, config=config)
    assert message in str(caught.value)
    assert side.engine.port_config(1) == before
    side.client.ports()


def test_unknown_counter(side: Side) -> None:
    with pytest.raises(CtlError, match="no counter x"):
        side.client.counters(["x"])


@given(st.binary(max_size=40))
def test_noise_is_answered(data: bytes) -> None:
    engine: Any = FakeEngine()
    assert CtlServer(engine, "/nowhere").answer(data)["ok"] is False


@given(st.dictionaries(st.sampled_from(["loss", "rate_bps", "queue_limits", "x"]), st.none()))
def test_nothing_is_taken_for_a_setting(changes: dict[str, Any]) -> None:
    if changes:
        with pytest.raises(CtlError):
            changed_config(PortConfig(), changes)


def test_long_lines_end_the_connection(side: Side) -> None:
    with socket.socket(socket.AF_UNIX) as raw:
        raw.settimeout(5)
        raw.connect(side.server.path)
        raw.sendall(b"x" * ((1 << 20) + 2))
        assert b"too long" in raw.recv(1000)


def test_paths(side: Side, tmp_path: Path) -> None:
    with pytest.raises(CtlError, match="longer than"):
        CtlClient(tmp_path / ("x" * 120))
    with pytest.raises(CtlError, match="in use"):
        CtlServer(side.engine, side.server.path).start()
    with pytest.raises(CtlError, match="No such file"):
        CtlClient(tmp_path / "absent").ports()
    # A socket left by a killed switch is no obstacle; a file of somebody's is.
    stale = socket.socket(socket.AF_UNIX)
    stale.bind(str(tmp_path / "stale"))
    stale.close()
    server = CtlServer(side.engine, tmp_path / "stale")
    server.start()
    server.close()
    (tmp_path / "file").write_text("precious")
    with pytest.raises(CtlError):
        CtlServer(side.engine, tmp_path / "file").start()
    assert (tmp_path / "file").read_text() == "precious"
    assert not (tmp_path / "stale").exists()
