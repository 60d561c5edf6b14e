"""One host: its turns and what guards them."""

from __future__ import annotations

import pytest

from hosts.agent.control import Later
from hosts.agent.settings import parse
from softswitch.engine.net import records
from virtualtime.host import NEVER, VirtualHost, virtual_config

MAC = "02:00:00:00:00:01"
CONFIG = {
    "seed": 1,
    "ports": [
        {"port": 1, "interface": "x", "mac": MAC, "gateway_mac": MAC, "ip": "fd00::1",
         "rate_bps": 100_000_000_000}
    ],
    "qp": {"cc": {"name": "nscc", "base_rtt_ns": 10_000, "params": {}}},
}  # fmt: skip
S = 1_000_000_000


@pytest.fixture
def host() -> VirtualHost:
    settings = parse(virtual_config(CONFIG, 1000, 50_000_000), {})
    return VirtualHost("h0", settings, {1: 7}, None, S)


def test_the_configuration_is_exact(host: VirtualHost) -> None:
    endpoint = host.settings.endpoint
    assert (endpoint.catch_up_ns, endpoint.ahead_ns) == (0, 0)
    assert host.settings.sample_interval_ns == 50_000


def test_an_idle_host_wakes_for_its_samples_only(host: VirtualHost) -> None:
    assert host.wake == S + 50_000
    host.run(S + 120_000, [])
    assert host.wake == S + 150_000
    assert host.outgoing == []


def test_what_is_sent_at_once_goes_out_as_records(host: VirtualHost) -> None:
    reply = host.handle(
        {"op": "send_raw", "dst": "fd00::2", "plane": 0, "evs": [5], "size": 100, "count": 2}, S
    )
    host.run(S + 1, [])
    found = records(memoryview(b"".join(host.outgoing)))
    assert [(t, nic) for t, nic, _ in found] == [(S, 7)] * 2
    assert isinstance(reply, Later)
    assert reply.reply == {"ok": True, "sent": 2, "errors": 0}


def test_a_port_without_carrier_refuses(host: VirtualHost) -> None:
    host.set_carrier(1, False, S)
    assert not host.port_up(1)
    assert not host.nics[1].send(b"x")
    assert host.nics[1].stats()["tx_errors"] == 1
    host.set_carrier(1, True, S)
    assert host.port_up(1)


@pytest.mark.sources
def test_an_endpoint_that_never_rests_is_reported(host: VirtualHost, capsys) -> None:
    host.endpoint.next_deadline = lambda: S  # type: ignore[method-assign]
    host.wake = S
    host.run(S + 10, [])
    assert host.errors == 1
    assert "again and again" in capsys.readouterr().err
    assert S < host.wake < NEVER
