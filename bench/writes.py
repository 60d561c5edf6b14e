"""Table writes per second through P4Runtime, into a switch of its own process.

Routes of the fabric program are inserted and deleted in batches of 500, as a controller does
that brings a fabric up. The requests are built beforehand: the figure is the server's.
"""

from __future__ import annotations

import queue
import tempfile
import time
from pathlib import Path
from typing import Any

import grpc
from google.protobuf import text_format
from p4.config.v1 import p4info_pb2
from p4.v1 import p4runtime_pb2, p4runtime_pb2_grpc

from bench.startup import FABRIC
from softswitch.p4.api import compile_program
from softswitch.spawn import SwitchArgs, SwitchFarm

ENTRIES, BATCH, ROUNDS = 10_000, 500, 3
DEVICE = 1


def requests(info: Any, kind: int) -> list[Any]:
    """Write requests for all entries."""
    table = next(t for t in info.tables if t.preamble.name == "FabricIngress.route")
    action = next(a for a in info.actions if a.preamble.name == "FabricIngress.forward")
    out = []
    for first in range(0, ENTRIES, BATCH):
        request = p4runtime_pb2.WriteRequest(device_id=DEVICE)
        request.election_id.low = 1
        for n in range(first, first + BATCH):
            update = request.updates.add(type=kind)
            entry = update.entity.table_entry
            entry.table_id = table.preamble.id
            match = entry.match.add(field_id=1)
            match.lpm.value = (0xFD << 120 | n << 64).to_bytes(16, "big")
            match.lpm.prefix_len = 64
            call = entry.action.action
            call.action_id = action.preamble.id
            for param in action.params:
                call.params.add(param_id=param.id, value=bytes([1 + n % 200]))
        out.append(request)
    return out


def measure(address: str, info: Any) -> float:
    """Updates per second, the best of several rounds."""
    with grpc.insecure_channel(address) as channel:
        stub = p4runtime_pb2_grpc.P4RuntimeStub(channel)
        outbox: queue.Queue[Any] = queue.Queue()
        hello = p4runtime_pb2.StreamMessageRequest()
        hello.arbitration.device_id = DEVICE
        hello.arbitration.election_id.low = 1
        outbox.put(hello)
        stream = stub.StreamChannel(iter(outbox.get, None))
        next(stream)
        kinds = (p4runtime_pb2.Update.INSERT, p4runtime_pb2.Update.DELETE)
        work = [request for kind in kinds for request in requests(info, kind)]
        best = 0.0
        for _ in range(ROUNDS):
            begin = time.monotonic()
            for request in work:
                stub.Write(request)
            best = max(best, len(work) * BATCH / (time.monotonic() - begin))
        outbox.put(None)
        stream.cancel()
        return best


def run() -> dict[str, Any]:
    """Start a switch, write, end it."""
    with tempfile.TemporaryDirectory() as tmp, SwitchFarm() as farm:
        program, p4info = compile_program(FABRIC, Path(tmp))
        info = text_format.Parse(p4info.read_text(), p4info_pb2.P4Info())
        argv = (
            str(program), "--p4info", str(p4info), "--device-id", str(DEVICE),
            "--grpc-server-addr", "127.0.0.1:0", "-L", "off",
        )  # fmt: skip
        process = farm.start([SwitchArgs("writes", argv)], timeout=60)["writes"]
        return {"entries": ENTRIES, "batch": BATCH, "updates_per_s": measure(process.addr, info)}
