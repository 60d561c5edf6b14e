"""Flags of simple_switch_grpc."""

from __future__ import annotations

from pathlib import Path

import pytest

from softswitch.options import UsageError, parse_args, usage


def test_a_bmv2_command_line() -> None:
    line = (
        "--device-id 3 -i 1@veth0 --interface=2@veth1 --thrift-port 9090 --log-console -L warn "
        "--no-p4 -- --grpc-server-addr 127.0.0.1:9000 --cpu-port 510 --priority-queues 2"
    )
    options = parse_args(line.split())
    assert options.device_id == 3
    assert options.interfaces == {1: "veth0", 2: "veth1"}
    assert options.grpc_addr == "127.0.0.1:9000"
    assert (options.cpu_port, options.drop_port, options.priority_queues) == (510, 511, 2)
    assert options.no_p4
    assert options.log_console
    assert options.log_level == "warn"
    assert len(options.notices) == 1


def test_target_flags_before_the_dashes_and_defaults() -> None:
    options = parse_args(["prog.json", "--ctl", "/tmp/x", "-i1@a", "--seed", "0x10"])
    assert options.program == Path("prog.json")
    assert options.grpc_addr == "0.0.0.0:9559"
    assert options.interfaces == {1: "a"}
    assert options.seed == 16
    assert options.priority_queues == 1
    assert options.cpu_port is None


def test_roles_and_the_size_of_statuses() -> None:
    line = "--no-p4 -- --role shell --role monitor --grpc-status-size 65536"
    options = parse_args(line.split())
    assert options.roles == ("shell", "monitor")
    assert options.status_limit == 65536
    assert parse_args(["--no-p4"]).roles == ()


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("--no-p4 --role=", "--role: '' is not the name of a role"),
        ("--no-p4 --grpc-status-size 5", "--grpc-status-size: 5 is not in 1024..67108864"),
        ("", "a program is needed"),
        ("a.json b.json", "one program only"),
        ("a.json --no-p4", "--no-p4 starts without a program"),
        ("--no-p4 --devce-id 1", "--devce-id: unknown flag; did you mean --device-id?"),
        ("--no-p4 --zzz", "--zzz: unknown flag; --help lists"),
        ("--no-p4 -x", "-x: unknown flag"),
        ("--no-p4 --device-id", "--device-id: a value is needed"),
        ("--no-p4 --device-id x", "--device-id: 'x' is not a number"),
        ("--no-p4 --device-id -1", "--device-id: -1 is not in"),
        ("--no-p4 --cpu-port 512", "--cpu-port: 512 is not in 1..511"),
        ("--no-p4 --cpu-port 511", "is the drop port"),
        ("--no-p4 -i 1@a --cpu-port 1", "port 1 has an interface"),
        ("--no-p4 -i 1@a -i 1@b", "port 1 is given twice"),
        ("--no-p4 -i 1@a -i 2@a", "interface a is given twice"),
        ("--no-p4 -i a@1", "'a@1' is not PORT@INTERFACE"),
        ("--no-p4 -i 600@a", "port 600 is not in"),
        ("--no-p4 -i 1@averyveryverylongname", "is not an interface name"),
        ("--no-p4 --grpc-server-addr 9559", "is not HOST:PORT"),
        ("--no-p4 --grpc-server-addr h:99999", "is not HOST:PORT"),
        ("--no-p4 --priority-queues 9", "--priority-queues: 9 is not in 1..8"),
        ("--no-p4 --pcap .", "--pcap: not supported; capture with tcpdump"),
        ("--no-p4 --no-p4=1", "takes no value"),
        ("--no-p4 -- --device-id 1", "must come before the --"),
        ("--no-p4 --log-level loud", "is not one of trace"),
        ("--no-p4 --log-console --log-file x", "exclude each other"),
        ("--no-p4 --grpc-server-ssl", "needs --grpc-server-cert"),
        ("--no-p4 --p4info x", "goes with PROGRAM.json"),
    ],
)
def test_one_clear_line(line: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_args(line.split())
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_help_lists_every_flag() -> None:
    assert parse_args(["--help"]).action == "help"
    assert parse_args(["-v"]).action == "version"
    text = usage()
    for flag in ("--interface", "--cpu-port", "--ctl", "--thrift-port"):
        assert flag in text
