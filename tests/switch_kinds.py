"""The two kinds of switch, as processes that a test reaches by P4Runtime.

`KINDS` parametrizes a test or fixture with both; bmv2 is skipped where it is not on the PATH.
`LiveSwitch` is one process of either kind, without interfaces, so without root. Where bmv2
does not do what the specification (or our switch, where that leaves a choice) does,
`BMV2` says so, in one place: tests write what they expect as ``expect("what", value)``.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import grpc
import pytest
from p4.v1 import p4runtime_pb2_grpc

from softswitch.bmv2.process import SWITCH_GRPC, free_port
from softswitch.p4rt.status import Code
from tests.waiting import wait_for

ROOT = Path(__file__).resolve().parents[1]
CPU_PORT = 510

KINDS = [
    "builtin",
    pytest.param(
        "bmv2",
        marks=[
            pytest.mark.bmv2,
            pytest.mark.skipif(
                shutil.which(SWITCH_GRPC) is None, reason=f"{SWITCH_GRPC} is not on the PATH"
            ),
        ],
    ),
]

BMV2: dict[str, Any] = {
    # Not there at all.
    "registers": Code.UNIMPLEMENTED,
    "value sets": Code.UNIMPLEMENTED,
    "atomic writes": [Code.UNIMPLEMENTED],
    "RECONCILE_AND_COMMIT": Code.UNKNOWN,
    "is_const of a const entry": False,
    "StreamError": [],
    # Refused, with a code that says less.
    "bad JSON": Code.UNKNOWN,
    "entry in a full table": Code.UNKNOWN,
    "delete a member in use": Code.UNKNOWN,
    "delete a group in use": Code.UNKNOWN,
    "index past the end": Code.UNKNOWN,
    "rates the wrong way": Code.UNKNOWN,
    "write to another device": Code.PERMISSION_DENIED,
    "read of another device": Code.FAILED_PRECONDITION,
    "insert into const": Code.UNKNOWN,
    "entry to no group": Code.INVALID_ARGUMENT,
    "clones cut short": Code.UNKNOWN,
    # Taken where it should be refused.
    "empty value": Code.OK,
    "full range": Code.OK,
    "port to watch that is not there": None,
    "stream of another device": None,
    "unknown role": None,
    "write in a role": Code.OK,
    # Different.
    "the primary left": Code.OK,  # the next one becomes primary by itself
    "program after a refused one": Code.UNKNOWN,  # until it is started again
    # A member without a port to watch is read with that of another member: written again.
    "updates to what is there": [0, 8, 0],
    "words of an entry that exists": "Match entry exists, use MODIFY if you wish to change action",
    "status after SIGTERM": -15,
}
"""What bmv2 does instead, by the name that the test gives to what it expects."""


def expected(kind: str, what: str, value: Any = Code.OK) -> Any:
    """`value`, or what bmv2 is known to do instead."""
    return BMV2.get(what, value) if kind == "bmv2" else value


def command(kind: str) -> list[str]:
    """How a switch of this kind is started; the flags that follow are the same for both."""
    if kind == "builtin":
        return [sys.executable, "-m", "softswitch"]
    found = shutil.which(SWITCH_GRPC)
    assert found is not None
    return [found]


class LiveSwitch:
    """A process without a program; `folder` gets its output. `ports`: number -> interface;
    `flags` are further ones of our switch, which bmv2 does not know."""

    def __init__(
        self,
        kind: str,
        folder: Path,
        device_id: int = 1,
        ports: Mapping[int, str] | None = None,
        flags: Sequence[str] = (),
    ) -> None:
        self._extra = [
            w for number, name in (ports or {}).items() for w in ("-i", f"{number}@{name}")
        ]
        self._extra += flags if kind == "builtin" else []
        self.kind = kind
        self.device_id = device_id
        self._folder = folder
        self._start()

    def _start(self) -> None:
        folder, device_id, kind = self._folder, self.device_id, self.kind
        self.address = f"127.0.0.1:{free_port()}"
        self._output = folder / f"{kind}-{device_id}.out"
        flags = ["--no-p4", "--device-id", str(device_id), "--log-level", "off"]
        # Both take these; ours has no use for them.
        sockets = ["--thrift-port", str(free_port())]
        sockets += ["--notifications-addr", f"ipc://{folder}/{device_id}.ipc"]
        target = ["--grpc-server-addr", self.address, "--cpu-port", str(CPU_PORT)]
        target += ["--priority-queues", "2"]
        with self._output.open("wb") as output:
            self.process = subprocess.Popen(
                [*command(kind), *flags, *sockets, *self._extra, "--", *target],
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )
        self.channel = grpc.insecure_channel(self.address)
        self.stub = p4runtime_pb2_grpc.P4RuntimeStub(self.channel)

    def ready(self) -> LiveSwitch:
        """Wait until it listens; apart from starting, so that several start at once."""
        channel = grpc.channel_ready_future(self.channel)

        def listens() -> bool:
            assert self.process.poll() is None, self._output.read_text(errors="replace")[-500:]
            return bool(channel.done())

        wait_for(f"{self.kind} listens", listens, 60)
        return self

    def expect(self, what: str, value: Any = Code.OK) -> Any:
        """`value`, or what bmv2 is known to do instead."""
        return expected(self.kind, what, value)

    def restart(self) -> None:
        """Another process, without a program, at another address."""
        self.close()
        self._start()
        self.ready()

    def close(self) -> None:
        self.channel.close()
        self.process.kill()
        self.process.wait()
