"""P4Runtime: entries written and read per second, start and memory of switch processes.

A switch process as a lab starts it, on loopback and without interfaces, runs the fabric's
program; the client is a bare gRPC stub with requests that are serialised beforehand, so that
the figures are the switch's. Writes go to the table `route` (LPM) in batches of BATCH and one
by one; the machine is shared by client and switch. Start is the time from nothing to
"listening" with the program loaded and its machine code cached. Memory is the proportional
share (PSS) and what is the process's alone (private).
"""

from __future__ import annotations

import itertools
import queue
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
from google.protobuf import text_format
from p4.config.v1 import p4info_pb2
from p4.v1 import p4runtime_pb2, p4runtime_pb2_grpc

from softswitch.p4 import compile_program
from softswitch.spawn import SwitchArgs, SwitchFarm

ROOT = Path(__file__).resolve().parent.parent
PROGRAM = ROOT / "p4src" / "mrc_fabric.p4"
TABLE = "FabricIngress.route"
ENTRIES = 10_000
BATCH = 1000
SINGLES = 3000
FARM = 64
STARTS = 3


def memory_mib(pid: int) -> dict[str, float]:
    """PSS and private memory of a process in MiB."""
    text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    found = {key: int(kb) / 1024 for key, kb in re.findall(r"^(\w+):\s+(\d+) kB", text, re.M)}
    return {"pss": found["Pss"], "private": found["Private_Dirty"] + found["Private_Clean"]}


class Client:
    """The primary of device 1, with serialised requests."""

    def __init__(self, address: str, info: Any) -> None:
        self.info = info
        options = [("grpc.max_receive_message_length", -1)]
        self._channel = grpc.insecure_channel(address, options)
        self._stub = p4runtime_pb2_grpc.P4RuntimeStub(self._channel)
        self.write_call = self._channel.unary_unary("/p4.v1.P4Runtime/Write", bytes, bytes)
        self._out: queue.SimpleQueue[Any] = queue.SimpleQueue()
        hello = p4runtime_pb2.StreamMessageRequest()
        hello.arbitration.device_id = 1
        hello.arbitration.election_id.low = 1
        self._out.put(hello)
        self._stream = self._stub.StreamChannel(iter(self._out.get, None))
        next(self._stream)
        self._table = next(t for t in info.tables if t.preamble.name == TABLE)

    def close(self) -> None:
        self._out.put(None)
        self._stream.cancel()
        self._channel.close()

    def update(self, number: int, kind: int) -> Any:
        """An update of route entry `number`."""
        update = p4runtime_pb2.Update(type=kind)
        entry = update.entity.table_entry
        entry.table_id = self._table.preamble.id
        match = entry.match.add(field_id=1).lpm
        match.value = (0xFD << 120 | number << 64).to_bytes(16, "big")
        match.prefix_len = 64
        ref = self._table.action_refs[0].id
        action = next(a for a in self.info.actions if a.preamble.id == ref)
        entry.action.action.action_id = ref
        for param in action.params:
            entry.action.action.params.add(param_id=param.id, value=b"\1")
        return update

    def requests(self, kind: int, count: int, size: int, atomicity: int = 0) -> list[bytes]:
        """Serialised WriteRequests for entries 0..count-1 in batches."""
        out = []
        for first in range(0, count, size):
            request = p4runtime_pb2.WriteRequest(device_id=1, atomicity=atomicity)
            request.election_id.low = 1
            request.updates.extend(
                self.update(n, kind) for n in range(first, min(first + size, count))
            )
            out.append(request.SerializeToString())
        return out

    def rate(self, kind: int, count: int, size: int, atomicity: int = 0) -> float:
        """Entries per second, one request after the other."""
        requests = self.requests(kind, count, size, atomicity)
        return count / timed(lambda: [self.write_call(item) for item in requests])

    def outstanding_rate(self, kind: int, count: int) -> float:
        """Entries per second, one per request and all requests at once."""
        requests = self.requests(kind, count, 1)

        def run() -> None:
            for call in [self.write_call.future(item) for item in requests]:
                call.result()

        return count / timed(run)

    def read_rate(self) -> float:
        """Entries per second of a wildcard read, without decoding them."""
        request = p4runtime_pb2.ReadRequest(device_id=1)
        request.entities.add().table_entry.table_id = self._table.preamble.id
        call = self._channel.unary_stream("/p4.v1.P4Runtime/Read", bytes, bytes)
        return ENTRIES / timed(lambda: list(call(request.SerializeToString())))


def timed(work: Callable[[], object]) -> float:
    """Seconds that `work` takes."""
    begin = time.monotonic()
    work()
    return time.monotonic() - begin


@contextmanager
def switch(json: Path, info: Path) -> Iterator[tuple[str, int, float]]:
    """(address, pid, seconds to listen) of a switch process of its own."""
    begin = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, "-m", "softswitch", "--device-id", "1", "--p4info", str(info),
         str(json), "--", "--grpc-server-addr", "127.0.0.1:0", "--cpu-port", "510"],
        stdout=subprocess.PIPE, text=True, cwd=ROOT,
    )  # fmt: skip
    try:
        if process.stdout is None or not (line := process.stdout.readline()):
            raise RuntimeError("the switch did not start")
        yield line.split()[-1], process.pid, time.monotonic() - begin
    finally:
        process.terminate()
        process.wait()


def writes(json: Path, info_path: Path) -> dict[str, Any]:
    """Entries per second of one switch."""
    info = text_format.Parse(info_path.read_text(), p4info_pb2.P4Info())
    update = p4runtime_pb2.Update
    modes = p4runtime_pb2.WriteRequest
    with switch(json, info_path) as (address, pid, _):
        client = Client(address, info)
        try:
            out: dict[str, Any] = {
                "batch_size": BATCH,
                "insert_per_second": client.rate(update.INSERT, ENTRIES, BATCH),
                "modify_per_second": client.rate(update.MODIFY, ENTRIES, BATCH),
                "read_per_second": client.read_rate(),
                "mib_with_10000_entries": memory_mib(pid)["pss"],
                "delete_per_second": client.rate(update.DELETE, ENTRIES, BATCH),
                "insert_rollback_mode_per_second": client.rate(
                    update.INSERT, ENTRIES, BATCH, modes.ROLLBACK_ON_ERROR
                ),
            }
            client.rate(update.DELETE, ENTRIES, BATCH)
            out["insert_atomic_mode_per_second"] = client.rate(
                update.INSERT, ENTRIES, BATCH, modes.DATAPLANE_ATOMIC
            )
            client.rate(update.DELETE, ENTRIES, BATCH)
            out["one_by_one_per_second"] = client.rate(update.INSERT, SINGLES, 1)
            client.rate(update.DELETE, SINGLES, BATCH)
            out["one_per_request_outstanding_per_second"] = client.outstanding_rate(
                update.INSERT, SINGLES
            )
        finally:
            client.close()
    return out


def start(json: Path, info: Path) -> dict[str, Any]:
    """Start and memory of one switch by itself; the best of STARTS, the first may be cold."""
    seconds, memory = [], {}
    for _ in range(STARTS):
        with switch(json, info) as (_, pid, took):
            seconds.append(took)
            memory = memory_mib(pid)
    return {
        "first_seconds": seconds[0],
        "warm_seconds": min(seconds),
        "mib_pss": memory["pss"],
        "mib_private": memory["private"],
    }


def farm(json: Path, info: Path) -> dict[str, Any]:
    """FARM switches forked from one nursery."""
    ports = itertools.count(20_000)
    arguments = [
        SwitchArgs(
            f"s{number}",
            ("--device-id", str(number), "--p4info", str(info), str(json), "--",
             "--grpc-server-addr", f"127.0.0.1:{next(ports)}", "--cpu-port", "510",
             "--priority-queues", "2"),
        )
        for number in range(1, FARM + 1)
    ]  # fmt: skip
    with SwitchFarm() as switches:
        begin = time.monotonic()
        processes = switches.start(arguments, timeout=180)
        seconds = time.monotonic() - begin
        memory = [memory_mib(process.pid) for process in processes.values()]
    return {
        "switches": FARM,
        "seconds": seconds,
        "mib_pss_per_switch": sum(item["pss"] for item in memory) / FARM,
        "mib_private_per_switch": sum(item["private"] for item in memory) / FARM,
    }


def run() -> dict[str, Any]:
    """All of it."""
    with tempfile.TemporaryDirectory() as scratch:
        json, info = compile_program(PROGRAM, Path(scratch), compiler="builtin")
        return {"writes": writes(json, info), "start": start(json, info), "farm": farm(json, info)}


__all__ = ["run"]
