"""Many switches, fast: fork them from one process that has everything imported.

Importing gRPC and protobuf costs a switch most of its start-up time; a fork costs a
millisecond. One *nursery* process (`python -m softswitch.spawn CONFIG.json`) imports
once, forks a child per switch and prints one JSON line for each event:

    {"event": "ready", "name": "p0t0-0", "device_id": 1, "pid": 7, "addr": "127.0.0.1:9559",
     "ctl": "/run/p0t0-0.sock"}
    {"event": "error", "name": "p0t0-1", "error": "--grpc-server-addr 127.0.0.1:1: in use"}
    {"event": "exit", "name": "p0t0-0", "pid": 7, "status": -9}

CONFIG.json is {"switches": [{"name": "p0t0-0", "argv": ["--no-p4", "-i", "1@veth0"]}]}.
When one switch cannot start, the others are ended and the exit status is 2. Children die
with the nursery and the nursery with its parent, even by SIGKILL.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any, NoReturn

from softswitch.options import SwitchOptions, UsageError, parse_args
from softswitch.process import die_with_parent, set_name

NURSERY = ["-m", "softswitch.spawn"]
"""How Python runs the nursery."""
_GRACE = 3.0
"""Seconds between SIGTERM and SIGKILL."""


class SpawnError(Exception):
    """A switch did not start. One line, with the name of the switch."""


@dataclass(frozen=True)
class SwitchArgs:
    """One switch to start. `argv` as for `python -m softswitch`."""

    name: str
    argv: tuple[str, ...]


@dataclass(frozen=True)
class SwitchProcess:
    """A switch that listens. `addr` is HOST:PORT of P4Runtime, `ctl` the side channel."""

    name: str
    device_id: int
    pid: int
    addr: str
    ctl: str | None


class SwitchFarm:
    """A set of running switches; a context manager that ends them.

    `on_exit(name, status)` is called from a thread when a switch ends by itself; negative
    statuses are signals, as in `subprocess`.
    """

    def __init__(self, on_exit: Callable[[str, int], None] | None = None) -> None:
        self.processes: dict[str, SwitchProcess] = {}
        self._on_exit = on_exit
        self._nursery: subprocess.Popen[str] | None = None
        self._stopping = False
        self._thread: threading.Thread | None = None

    def __enter__(self) -> SwitchFarm:
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()

    @property
    def pid(self) -> int | None:
        """Process id of the nursery, the parent of all switches."""
        return self._nursery.pid if self._nursery else None

    def start(
        self, switches: Sequence[SwitchArgs], timeout: float = 30.0
    ) -> dict[str, SwitchProcess]:
        """Start all and wait until all listen; SpawnError (and nothing left) otherwise."""
        if self._nursery is not None:
            raise SpawnError("the farm has been started already")
        names = [item.name for item in switches]
        for name in names:
            if names.count(name) > 1:
                raise SpawnError(f"{name}: two switches of that name")
        if not switches:
            return {}
        config = {"switches": [{"name": item.name, "argv": item.argv} for item in switches]}
        nursery = subprocess.Popen(
            [sys.executable, *NURSERY, "-"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(_import_path())},
            start_new_session=True,  # Ctrl-C is for the caller, who ends us when he wants to
        )
        self._nursery = nursery
        try:
            _send_config(nursery, config)
            self._await_ready(nursery, set(names), time.monotonic() + timeout, timeout)
        except BaseException:
            self.stop()
            raise
        self._thread = threading.Thread(target=self._watch, name="switch-farm", daemon=True)
        self._thread.start()
        return dict(self.processes)

    def _await_ready(
        self, nursery: subprocess.Popen[str], missing: set[str], deadline: float, timeout: float
    ) -> None:
        output = nursery.stdout
        if output is None:
            raise SpawnError("the nursery has no output")
        lines = _Lines(output.fileno())
        self._lines = lines
        while missing:
            line = lines.next(deadline)
            if line is None:
                raise SpawnError(f"not ready after {timeout:g} s: {', '.join(sorted(missing))}")
            if not line:
                raise SpawnError(f"the nursery of the switches ended ({nursery.wait()})")
            event = json.loads(line)
            if event["event"] == "ready":
                missing.discard(event["name"])
                del event["event"]
                self.processes[event["name"]] = SwitchProcess(**event)
            elif event["event"] == "error":
                name = event["name"]
                raise SpawnError(f"{name}: {event['error']}" if name else event["error"])
            else:
                raise SpawnError(f"{event['name']}: ended at start, status {event['status']}")

    def _watch(self) -> None:
        while line := self._lines.next(None):
            event = json.loads(line)
            if event["event"] == "exit" and not self._stopping:
                self.processes.pop(event["name"], None)
                if self._on_exit is not None:
                    self._on_exit(event["name"], event["status"])

    def stop(self, timeout: float = 10.0) -> None:
        """End all switches and wait for them. Idempotent."""
        nursery, self._nursery = self._nursery, None
        self._stopping = True
        if nursery is None:
            return
        if nursery.stdin is not None:
            with contextlib.suppress(OSError):
                nursery.stdin.close()
        try:
            nursery.wait(timeout)
        except subprocess.TimeoutExpired:
            nursery.kill()
            nursery.wait()
        if self._thread is not None:
            self._thread.join(timeout)
        if nursery.stdout is not None:
            nursery.stdout.close()
        self.processes.clear()


def _import_path() -> list[str]:
    """sys.path for the nursery: this package may not be installed."""
    root = str(Path(__file__).resolve().parent.parent)
    inherited = os.environ.get("PYTHONPATH", "")
    return [root, *(item for item in inherited.split(os.pathsep) if item and item != root)]


def _send_config(nursery: subprocess.Popen[str], config: dict[str, Any]) -> None:
    """One line; the pipe then stays open: its end tells the nursery that we are gone."""
    if nursery.stdin is None:
        raise SpawnError("the nursery has no input")
    try:
        nursery.stdin.write(json.dumps(config) + "\n")
        nursery.stdin.flush()
    except OSError as error:
        raise SpawnError(f"the nursery of the switches ended at once ({error})") from None


class _Lines:
    """Lines of a file descriptor, with a deadline."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._buffer = b""

    def next(self, deadline: float | None) -> bytes | None:
        """The next line; b"" at the end, None when the deadline (monotonic) has passed."""
        while b"\n" not in self._buffer:
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            if not select.select([self._fd], [], [], left)[0]:
                return None
            chunk = os.read(self._fd, 1 << 16)
            if not chunk:
                return b""
            self._buffer += chunk
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line


# -- the nursery ------------------------------------------------------------------------


class _Nursery:
    """Forks the switches and reaps them; runs in the process of its own."""

    def __init__(self, lifeline: int | None) -> None:
        """`lifeline`: a descriptor whose end means that the parent is gone."""
        self._lifeline = lifeline
        self._children: dict[int, str] = {}
        self._reports: dict[int, str] = {}
        self._failed = False
        self._ended = False
        self._wake, wake_end = os.pipe()
        os.set_blocking(wake_end, False)
        signal.set_wakeup_fd(wake_end, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGTERM, self._end)
        signal.signal(signal.SIGINT, self._end)

    def _end(self, *_: object) -> None:
        self._ended = True

    def run(self, switches: Sequence[tuple[str, SwitchOptions]]) -> int:
        """Start all, report, and stay until told to end; the exit status."""
        self._import_all()
        for name, options in switches:
            self._fork(name, options)
        try:
            while self._children and not self._ended and not self._failed:
                self._step(None)
        finally:
            self._end_children()
        return 2 if self._failed else 0

    @staticmethod
    def _import_all() -> None:
        import softswitch.switch  # noqa: F401
        from softswitch.engine import EngineError, native

        # Reading the runtime's declarations is half of what a child would have to do. Where
        # it cannot be built, each switch says so by itself.
        with contextlib.suppress(EngineError):
            native.runtime()
        gc.collect()
        gc.freeze()

    def _fork(self, name: str, options: SwitchOptions) -> None:
        receive, send = os.pipe()
        parent = os.getpid()
        sys.stdout.flush()
        pid = os.fork()
        if pid == 0:
            os.close(receive)
            _child(name, options, send, parent)
        os.close(send)
        self._children[pid] = name
        self._reports[receive] = name

    def _step(self, timeout: float | None) -> None:
        watched = [self._wake, *self._reports]
        if self._lifeline is not None:
            watched.append(self._lifeline)
        ready, _, _ = select.select(watched, [], [], timeout)
        for fd in ready:
            if fd == self._wake:
                os.read(fd, 512)
            elif fd == self._lifeline:
                if not os.read(fd, 512):
                    self._ended = True
            else:
                self._report(fd)
        self._reap()

    def _report(self, fd: int) -> None:
        name = self._reports.pop(fd)
        data = b""
        while chunk := os.read(fd, 1 << 16):
            data += chunk
        os.close(fd)
        if data:
            event = json.loads(data)
            if event["event"] == "error":
                self._failed = True
            _emit({**event, "name": name})

    def _reap(self) -> None:
        while self._children:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            name = self._children.pop(pid, None)
            for fd, owner in list(self._reports.items()):
                if owner == name:
                    self._report(fd)
            if name is not None and not self._ended and not self._failed:
                code = os.waitstatus_to_exitcode(status)
                _emit({"event": "exit", "name": name, "pid": pid, "status": code})

    def _end_children(self) -> None:
        self._ended = True
        for number, seconds in ((signal.SIGTERM, _GRACE), (signal.SIGKILL, _GRACE)):
            for pid in self._children:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, number)
            self._lifeline = None
            deadline = time.monotonic() + seconds
            self._reap()
            while self._children and time.monotonic() < deadline:
                self._step(max(0.0, deadline - time.monotonic()))
            if not self._children:
                return


def _child(name: str, options: SwitchOptions, report: int, parent: int) -> NoReturn:
    """Body of a forked switch: never returns into the nursery's code."""
    status = 2
    try:
        die_with_parent(parent)
        set_name(name)
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD):
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
        _detach_streams(options)
        from softswitch.switch import Switch

        options.name = options.name or name
        switch = Switch(options)
        try:
            switch.start()
        except UsageError as error:
            _write(report, {"event": "error", "error": str(error)})
            os._exit(2)
        ready = SwitchProcess(
            name,
            options.device_id,
            os.getpid(),
            switch.address,
            None if options.ctl is None else os.fspath(options.ctl),
        )
        _write(report, {"event": "ready", **asdict(ready)})
        os.close(report)
        signal.sigwait({signal.SIGTERM})
        switch.stop()
        status = 0
    except BaseException as error:
        with contextlib.suppress(OSError):
            text = f"{type(error).__name__}: {error}"
            _write(report, {"event": "error", "error": text.splitlines()[0]})
    finally:
        os._exit(status)


def _detach_streams(options: SwitchOptions) -> None:
    """Leave the nursery's pipes alone: stdin is its lifeline, stdout its JSON lines."""
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(2 if options.log_console else null, 1)
    os.close(null)


def _write(fd: int, event: dict[str, Any]) -> None:
    os.write(fd, json.dumps(event).encode())


def _emit(event: dict[str, Any]) -> None:
    with contextlib.suppress(BrokenPipeError):
        sys.stdout.write(json.dumps(event) + "\n")
        sys.stdout.flush()


def read_config(text: str, source: str) -> list[tuple[str, SwitchOptions]]:
    """Switches of a CONFIG.json; UsageError names the switch that is wrong."""
    try:
        config = json.loads(text)
    except ValueError as error:
        raise UsageError(f"{source}: not JSON: {error}") from None
    switches = config.get("switches") if isinstance(config, dict) else None
    if not isinstance(switches, list) or not switches:
        raise UsageError(f"{source}: 'switches' must be a list with at least one switch")
    out: list[tuple[str, SwitchOptions]] = []
    for index, item in enumerate(switches):
        where = f"{source}: switches[{index}]"
        if not isinstance(item, dict) or set(item) != {"name", "argv"}:
            raise UsageError(f"{where}: needs exactly 'name' and 'argv'")
        name, argv = item["name"], item["argv"]
        if not isinstance(name, str) or not name:
            raise UsageError(f"{where}: 'name' must be text")
        if not isinstance(argv, list) or not all(isinstance(word, str) for word in argv):
            raise UsageError(f"{where} ({name}): 'argv' must be a list of words")
        if any(name == other for other, _ in out):
            raise UsageError(f"{where}: two switches are called {name}")
        try:
            options = parse_args(argv)
        except UsageError as error:
            raise UsageError(f"{name}: {error}") from None
        if options.action != "run":
            raise UsageError(f"{name}: --help and --version make no sense here")
        out.append((name, options))
    return out


def _read_input(argument: str, stdin: IO[bytes]) -> tuple[str, str, int | None]:
    """(text, source, lifeline) of the configuration."""
    if argument == "-":
        # One line, so that the pipe can stay open as the lifeline.
        return stdin.readline().decode(errors="replace"), "standard input", 0
    try:
        return Path(argument).read_text(), argument, None
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{argument}: {getattr(error, 'strerror', None) or error}") from None


def main(argv: Sequence[str] | None = None) -> int:
    """`python -m softswitch.spawn CONFIG.json`; `-` reads one line of it from stdin."""
    words = list(sys.argv[1:] if argv is None else argv)
    if len(words) != 1 or words[0] in ("-h", "--help"):
        print("usage: python -m softswitch.spawn CONFIG.json", file=sys.stderr)
        return 0 if words and words[0] in ("-h", "--help") else 2
    set_name("switch-nursery")
    try:
        # Unbuffered: what is not ours to read must stay in the pipe.
        with open(0, "rb", buffering=0, closefd=False) as stdin:
            text, source, lifeline = _read_input(words[0], stdin)
        if lifeline is None:
            die_with_parent(os.getppid(), signal.SIGTERM)
        switches = read_config(text, source)
    except UsageError as error:
        if words[0] == "-":
            _emit({"event": "error", "name": None, "error": str(error)})
        else:
            print(f"softswitch.spawn: {error}", file=sys.stderr)
        return 2
    return _Nursery(lifeline).run(switches)


if __name__ == "__main__":
    sys.exit(main())
