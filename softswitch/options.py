"""Command line of the switch: the flags of simple_switch_grpc and a few of our own.

Like bmv2, target flags may follow a `--`; unlike bmv2 they may also come before it.
Anything unknown is refused: a flag that silently does nothing costs somebody an hour.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

DEFAULT_GRPC_ADDR = "0.0.0.0:9559"
IFNAME_MAX = 15
PORT_MAX = 511
ROLE_MAX = 64
LOG_LEVELS = ("trace", "debug", "info", "warn", "error", "off")


class UsageError(Exception):
    """A command line that cannot be obeyed: one clear line."""


@dataclass
class SwitchOptions:
    """What one switch process is asked to do."""

    program: Path | None = None
    p4info: Path | None = None
    interfaces: dict[int, str] | None = None
    device_id: int = 0
    grpc_addr: str = DEFAULT_GRPC_ADDR
    grpc_ssl: bool = False
    grpc_cacert: Path | None = None
    grpc_cert: Path | None = None
    grpc_key: Path | None = None
    grpc_client_auth: bool = False
    cpu_port: int | None = None
    drop_port: int = PORT_MAX
    priority_queues: int = 1
    ctl: Path | None = None
    seed: int = 0
    no_p4: bool = False
    log_console: bool = False
    log_file: Path | None = None
    log_level: str = "info"
    name: str | None = None
    roles: tuple[str, ...] = ()
    """P4Runtime roles beside the default one; all have full pipeline access."""
    status_limit: int = 8192
    """Bytes of error status that P4Runtime clients accept (grpc.max_metadata_size)."""
    action: str = "run"
    """run, help, version or json-version."""
    notices: tuple[str, ...] = ()


def _number(low: int, high: int) -> Callable[[str, str], int]:
    def convert(flag: str, text: str) -> int:
        try:
            value = int(text, 0)
        except ValueError:
            raise UsageError(f"{flag}: '{text}' is not a number") from None
        if not low <= value <= high:
            raise UsageError(f"{flag}: {value} is not in {low}..{high}")
        return value

    return convert


def _path(flag: str, text: str) -> Path:
    if not text:
        raise UsageError(f"{flag}: a path is needed")
    return Path(text)


def _address(flag: str, text: str) -> str:
    host, colon, port = text.rpartition(":")
    if not colon or not host or not port.isdigit() or not int(port) <= 0xFFFF:
        raise UsageError(f"{flag}: '{text}' is not HOST:PORT")
    return text


def _level(flag: str, text: str) -> str:
    if text not in LOG_LEVELS:
        raise UsageError(f"{flag}: '{text}' is not one of {', '.join(LOG_LEVELS)}")
    return text


def _name(flag: str, text: str) -> str:
    return text


def _role(flag: str, text: str) -> str:
    if not text or not text.isprintable() or len(text) > ROLE_MAX:
        raise UsageError(f"{flag}: '{text}' is not the name of a role")
    return text


@dataclass(frozen=True)
class _Flag:
    field: str
    convert: Callable[[str, str], Any] | None = None
    """None: a switch that takes no value."""
    target: bool = False
    help: str = ""


_FLAGS: dict[str, _Flag] = {
    "--interface": _Flag("interfaces", _name, help="PORT@IFNAME: attach an interface (repeats)"),
    "--device-id": _Flag("device_id", _number(0, 2**64 - 1), help="P4Runtime device id [0]"),
    "--no-p4": _Flag("no_p4", help="start without a program; P4Runtime pushes one"),
    "--log-console": _Flag("log_console", help="log to stdout"),
    "--log-file": _Flag("log_file", _path, help="log to a file"),
    "--log-level": _Flag("log_level", _level, help="trace|debug|info|warn|error|off [info]"),
    "--grpc-server-addr": _Flag("grpc_addr", _address, True, f"[{DEFAULT_GRPC_ADDR}]"),
    "--grpc-server-ssl": _Flag("grpc_ssl", None, True, "serve with TLS"),
    "--grpc-server-cacert": _Flag("grpc_cacert", _path, True, "CA certificate, PEM"),
    "--grpc-server-cert": _Flag("grpc_cert", _path, True, "server certificate, PEM"),
    "--grpc-server-key": _Flag("grpc_key", _path, True, "server key, PEM"),
    "--grpc-server-with-client-auth": _Flag("grpc_client_auth", None, True, "ask clients for one"),
    "--cpu-port": _Flag("cpu_port", _number(1, PORT_MAX), True, "port of packet in and out"),
    "--drop-port": _Flag("drop_port", _number(0, PORT_MAX), True, "[511]"),
    "--priority-queues": _Flag("priority_queues", _number(1, 8), True, "queues per port [1]"),
    "--ctl": _Flag("ctl", _path, True, "UNIX socket of the side channel (softswitch.ctl)"),
    "--seed": _Flag("seed", _number(0, 2**64 - 1), True, "seed of random() and loss [0]"),
    "--p4info": _Flag("p4info", _path, True, "P4Info (text) that goes with the JSON"),
    "--role": _Flag("roles", _role, True, "P4Runtime role with full access (repeats)"),
    "--grpc-status-size": _Flag(
        "status_limit", _number(1024, 64 << 20), True, "error bytes that clients accept [8192]"
    ),
    "--name": _Flag("name", _name, True, "name of the process"),
}
_SHORT = {"-i": "--interface", "-L": "--log-level", "-h": "--help", "-v": "--version"}
_ACTIONS = {"--help": "help", "--version": "version", "--json-version": "json-version"}
_ACCEPTED: dict[str, tuple[bool, str]] = {
    # flag -> (takes a value, what a user should know)
    "--thrift-port": (True, "there is no Thrift server; use P4Runtime or --ctl"),
    "--nanolog": (True, "there is no nanomsg log"),
    "--notifications-addr": (True, "there are no nanomsg notifications; use P4Runtime"),
    "--log-flush": (False, ""),
    "--log-file-max-size": (True, ""),
    "--log-file-max-files": (True, ""),
    "--max-port-count": (True, ""),
    "--disable-swap": (False, ""),
    "--max-mc-groups": (True, ""),
    "--max-l1-entries": (True, ""),
    "--max-l2-entries": (True, ""),
}
_REFUSED = {
    "--pcap": "not supported; capture with tcpdump on the interface",
    "--use-files": "not supported; the engine runs without interfaces as a library",
    "--packet-in": "not supported (nanomsg)",
    "--restore-state": "not supported",
    "--debugger": "not supported",
    "--debugger-addr": "not supported",
    "--dump-packet-data": "not supported; capture with tcpdump on the interface",
    "--dp-grpc-server-addr": "not supported; attach interfaces with -i",
}

USAGE = "usage: python -m softswitch [options] PROGRAM.json | --no-p4"


def usage() -> str:
    """Help text."""
    lines = [USAGE, "", "options (those marked * may also follow a --):"]
    shorts = {long: short for short, long in _SHORT.items()}
    for name, flag in _FLAGS.items():
        short = f"{shorts[name]}, " if name in shorts else ""
        value = "" if flag.convert is None else " VALUE"
        mark = "*" if flag.target else " "
        lines.append(f" {mark} {short + name + value:<38} {flag.help}")
    lines.append("   --help, --version, --json-version")
    lines.append("accepted for bmv2's sake, without effect: " + ", ".join(_ACCEPTED))
    return "\n".join(lines)


def _unknown(flag: str) -> NoReturn:
    known = [*_FLAGS, *_ACTIONS, *_ACCEPTED, *_REFUSED]
    close = difflib.get_close_matches(flag, known, n=1)
    hint = f"; did you mean {close[0]}?" if close else "; --help lists the flags"
    raise UsageError(f"{flag}: unknown flag{hint}")


def parse_interface(flag: str, text: str) -> tuple[int, str]:
    """`3@veth0` -> (3, "veth0")."""
    number, at, name = text.partition("@")
    if not at or not number.isdigit() or not name:
        raise UsageError(f"{flag}: '{text}' is not PORT@INTERFACE, such as 1@veth0")
    if not int(number) <= PORT_MAX:
        raise UsageError(f"{flag}: port {number} is not in 0..{PORT_MAX}")
    if len(name) > IFNAME_MAX or "/" in name or any(char.isspace() for char in name):
        raise UsageError(f"{flag}: '{name}' is not an interface name")
    return int(number), name


def parse_args(argv: Sequence[str]) -> SwitchOptions:
    """Options of a command line without its program name; UsageError says what is wrong."""
    options = SwitchOptions(interfaces={})
    interfaces: dict[int, str] = {}
    positional: list[str] = []
    notices: list[str] = []
    words = list(argv)
    after_dashes = False
    while words:
        word = words.pop(0)
        if word == "--":
            after_dashes = True
            continue
        if not word.startswith("-") or word == "-":
            positional.append(word)
            continue
        if word[:2] in _SHORT and len(word) > 2 and word[1] != "-":
            words.insert(0, word[2:])
            word = word[:2]
        name, equals, inline = word.partition("=")
        name = _SHORT.get(name, name)
        if name in _ACTIONS:
            options.action = _ACTIONS[name]
            return options
        if name in _REFUSED:
            raise UsageError(f"{name}: {_REFUSED[name]}")

        def value(name: str = name, equals: str = equals, inline: str = inline) -> str:
            if equals:
                return inline
            if not words or (words[0].startswith("--") and words[0] != "-"):
                raise UsageError(f"{name}: a value is needed")
            return words.pop(0)

        if name in _ACCEPTED:
            takes_value, note = _ACCEPTED[name]
            if takes_value:
                value()
            if note:
                notices.append(f"{name} has no effect: {note}")
            continue
        flag = _FLAGS.get(name)
        if flag is None:
            _unknown(name)
        if after_dashes and not flag.target:
            raise UsageError(f"{name}: must come before the --")
        if flag.convert is None:
            if equals:
                raise UsageError(f"{name}: takes no value")
            setattr(options, flag.field, True)
        elif flag.field == "interfaces":
            port, ifname = parse_interface(name, value())
            if port in interfaces:
                raise UsageError(f"{name}: port {port} is given twice")
            if ifname in interfaces.values():
                raise UsageError(f"{name}: interface {ifname} is given twice")
            interfaces[port] = ifname
        elif flag.field == "roles":
            options.roles = (*options.roles, flag.convert(name, value()))
        else:
            setattr(options, flag.field, flag.convert(name, value()))
    options.interfaces = interfaces
    options.notices = tuple(notices)
    _check(options, positional)
    return options


def _check(options: SwitchOptions, positional: list[str]) -> None:
    """Rules that span flags."""
    if len(positional) > 1:
        raise UsageError(f"'{positional[1]}': one program only ('{positional[0]}' came first)")
    if positional and options.no_p4:
        raise UsageError(f"'{positional[0]}': --no-p4 starts without a program; give one of them")
    if not positional and not options.no_p4:
        raise UsageError("a program is needed: PROGRAM.json, or --no-p4")
    if positional:
        options.program = Path(positional[0])
    if options.p4info is not None and options.program is None:
        raise UsageError("--p4info: goes with PROGRAM.json, not with --no-p4")
    interfaces = options.interfaces or {}
    if options.cpu_port is not None:
        if options.cpu_port in interfaces:
            raise UsageError(f"--cpu-port: port {options.cpu_port} has an interface")
        if options.cpu_port == options.drop_port:
            raise UsageError(f"--cpu-port: {options.cpu_port} is the drop port; see --drop-port")
    if options.drop_port in interfaces:
        raise UsageError(f"--interface: port {options.drop_port} is the drop port")
    if options.log_console and options.log_file is not None:
        raise UsageError("--log-console and --log-file exclude each other")
    if options.grpc_ssl and (options.grpc_cert is None or options.grpc_key is None):
        raise UsageError("--grpc-server-ssl needs --grpc-server-cert and --grpc-server-key")
