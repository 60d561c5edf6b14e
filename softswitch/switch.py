"""One running switch: engine, P4Runtime server and side channel, from start to end."""

from __future__ import annotations

import errno
import json
import logging
import socket
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import grpc
from google.protobuf import text_format
from p4.config.v1 import p4info_pb2

from softswitch.ctl import CtlError, CtlServer
from softswitch.engine import Engine
from softswitch.engine.types import EngineError
from softswitch.options import SwitchOptions, UsageError
from softswitch.p4rt import Device, P4RuntimeServer, ServerError
from softswitch.p4rt.server import server_credentials
from softswitch.p4rt.status import P4RTError

LOG = logging.getLogger("softswitch")

_LEVELS = {
    "trace": logging.DEBUG,
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warn": logging.WARNING,
    "error": logging.ERROR,
    "off": logging.CRITICAL + 1,
}


class Switch:
    """A switch of this process. `start` raises UsageError with one clear line."""

    def __init__(self, options: SwitchOptions) -> None:
        self.options = options
        self.address = options.grpc_addr
        """Where P4Runtime listens; the bound port once started."""
        self._engine: Engine | None = None
        self._server: P4RuntimeServer | None = None
        self._ctl: CtlServer | None = None

    def start(self) -> None:
        """Load the program, open the interfaces, listen."""
        try:
            self._start()
        except (EngineError, ServerError, CtlError) as error:
            self.stop()
            raise UsageError(str(error)) from None
        except BaseException:
            self.stop()
            raise

    def _start(self) -> None:
        options = self.options
        _setup_logging(options)
        for notice in options.notices:
            LOG.warning("%s", notice)
        program = None if options.program is None else load_program(options.program)
        p4info = None if options.p4info is None else load_p4info(options.p4info)
        interfaces = dict(options.interfaces or {})
        for port, name in interfaces.items():
            _check_interface(port, name)
        credentials = self._credentials()
        check_address(options.grpc_addr)
        engine = self._engine = self._new_engine()
        self._device = Device(
            options.device_id,
            engine,
            scratch=self._new_engine,
            priority_queues=options.priority_queues,
            roles=options.roles,
            port_names=interfaces,
        )
        if program is not None and p4info is not None and options.program is not None:
            try:
                self._device.commit(p4info, options.program.read_bytes(), None)
            except P4RTError as error:
                raise UsageError(f"{options.program}: {error.message}") from None
        elif program is not None:
            try:
                engine.load(program)
            except EngineError as error:
                raise UsageError(f"{options.program}: {error}") from None
        for port in interfaces:
            engine.add_port(port)
        engine.start(interfaces)
        self._server = P4RuntimeServer(
            self._device,
            packet_out=options.cpu_port is not None,
            status_limit=options.status_limit,
        )
        self.address = self._server.start(options.grpc_addr, credentials)
        if options.ctl is not None:
            ctl = CtlServer(engine, options.ctl, interfaces=interfaces, versions=versions())
            ctl.start()
            self._ctl = ctl
        LOG.info("device %d listens on %s", options.device_id, self.address)

    def _new_engine(self) -> Engine:
        options = self.options
        return Engine(
            seed=options.seed,
            priority_queues=options.priority_queues,
            cpu_port=options.cpu_port,
            drop_port=options.drop_port,
        )

    def _credentials(self) -> grpc.ServerCredentials | None:
        options = self.options
        if not options.grpc_ssl or options.grpc_key is None or options.grpc_cert is None:
            return None
        return server_credentials(
            options.grpc_key, options.grpc_cert, options.grpc_cacert, options.grpc_client_auth
        )

    def wait(self) -> None:
        """Block until the server is stopped."""
        if self._server is not None:
            self._server.wait()

    def stop(self) -> None:
        """End everything this object started. Idempotent."""
        if self._ctl is not None:
            self._ctl.close()
            self._ctl = None
        if self._server is not None:
            self._server.stop()
            self._server = None
        if self._engine is not None:
            engine, self._engine = self._engine, None
            engine.stop()
            engine.close()


def versions() -> dict[str, str]:
    """Versions of what a switch process is made of."""
    import google.protobuf

    return {"grpc": grpc.__version__, "protobuf": google.protobuf.__version__}


def load_program(path: Path) -> Mapping[str, Any]:
    """A bmv2 JSON file; UsageError says what is wrong with it and where."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None
    try:
        program = json.loads(data)
    except json.JSONDecodeError as error:
        raise UsageError(f"{path}:{error.lineno}:{error.colno}: not JSON: {error.msg}") from None
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path}: not JSON: {error}") from None
    if not isinstance(program, dict) or "pipelines" not in program:
        raise UsageError(f"{path}: not a bmv2 JSON: it has no 'pipelines'")
    return program


def load_p4info(path: Path) -> Any:
    """A P4Info in text format."""
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: {getattr(error, 'strerror', None) or error}") from None
    p4info = p4info_pb2.P4Info()
    try:
        text_format.Parse(text, p4info, allow_unknown_field=True)
    except text_format.ParseError as error:
        raise UsageError(f"{path}:{error}: not a P4Info in text format") from None
    return p4info


def _check_interface(port: int, name: str) -> None:
    try:
        socket.if_nametoindex(name)
    except OSError:
        raise UsageError(f"-i {port}@{name}: there is no interface {name}") from None


def check_address(address: str) -> None:
    """Say why an address cannot be listened on: gRPC itself does not."""
    host, _, port = address.rpartition(":")
    host = host.strip("[]")
    try:
        infos = socket.getaddrinfo(host, int(port), type=socket.SOCK_STREAM)
    except OSError as error:
        raise UsageError(f"--grpc-server-addr {address}: {error.strerror}") from None
    family, kind, protocol, _, target = infos[0]
    with socket.socket(family, kind, protocol) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(target)
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                text = "the port is in use; give another one"
            else:
                text = error.strerror or str(error)
            raise UsageError(f"--grpc-server-addr {address}: {text}") from None


def _setup_logging(options: SwitchOptions) -> None:
    """Log to stdout, a file, or warnings to stderr."""
    root = logging.getLogger("softswitch")
    root.handlers.clear()
    root.propagate = False
    level = _LEVELS[options.log_level]
    handler: logging.Handler
    if options.log_file is not None:
        try:
            handler = logging.FileHandler(options.log_file)
        except OSError as error:
            raise UsageError(f"--log-file {options.log_file}: {error.strerror}") from None
    elif options.log_console:
        handler = logging.StreamHandler(sys.stdout)
    else:
        handler = logging.StreamHandler(sys.stderr)
        level = max(level, logging.WARNING)
    name = options.name or f"device {options.device_id}"
    handler.setFormatter(logging.Formatter(f"%(asctime)s {name} %(levelname)s %(message)s"))
    root.addHandler(handler)
    root.setLevel(level)
