"""Command lines of the switch processes."""

from __future__ import annotations

from pathlib import Path

import pytest

from softswitch.options import parse_args
from tests.topologies.fabrics import two_plane
from topologies.bmv2 import Bmv2Backend, bmv2_arguments, queue_settings, thrift_port
from topologies.switches import BuiltinBackend, SwitchError, grpc_address


def test_builtin_arguments_are_accepted(tmp_path: Path) -> None:
    backend = BuiltinBackend(tmp_path, seed=5)
    for switch in two_plane().switches.values():
        arguments = backend.arguments(switch)
        options = parse_args(list(arguments.argv))
        assert options.interfaces == {n: p.ifname for n, p in switch.ports.items()}
        assert options.device_id == switch.device_id
        assert options.grpc_addr == grpc_address(switch)
        assert (options.cpu_port, options.drop_port, options.priority_queues) == (510, 511, 2)
        assert options.no_p4
        assert options.seed == 5000 + switch.device_id


def test_seeds_stay_in_64_bits(tmp_path: Path) -> None:
    switch = two_plane().switch("p0t0-0")
    assert parse_args(list(BuiltinBackend(tmp_path, seed=2**63).arguments(switch).argv)).seed >= 0


def test_nothing_shares_a_port() -> None:
    switches = two_plane().switches.values()
    ports = [grpc_address(s) for s in switches] + [f"127.0.0.1:{thrift_port(s)}" for s in switches]
    assert len(set(ports)) == len(ports)
    assert grpc_address(two_plane().switch("p0t0-0")) == "127.0.0.1:9559"


def test_bmv2_command_line() -> None:
    switch = two_plane().switch("p0t1-0")
    assert " ".join(bmv2_arguments(switch, Path("log"))) == (
        "simple_switch_grpc --no-p4 --device-id 3 -i 1@p0t1-0-1 -i 2@p0t1-0-2 "
        "--thrift-port 20003 --notifications-addr ipc://log/p0t1-0.ipc --log-file log/p0t1-0 "
        "--log-level warn "
        "-- --grpc-server-addr 127.0.0.1:9561 --cpu-port 510 --drop-port 511 --priority-queues 2"
    )


def test_bmv2_settings() -> None:
    plan = two_plane()
    settings = queue_settings(plan.switch("p0t1-0"), plan.spec.data_frame_bytes)
    # (port, priority, packets, packets per second); 50 Mb/s, a quarter of it for control
    assert settings[:2] == [(1, 0, 90, 1488), (1, 1, 1000, 12207)]
    assert len(settings) == 4


def test_bmv2_that_is_absent_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SwitchError, match="simple_switch_grpc is not on the PATH; use --switch"):
        Bmv2Backend(tmp_path).start(two_plane())
