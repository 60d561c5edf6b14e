"""Run a program on bmv2's simple_switch, packets in and out through pcap files.

No privileges needed. simple_switch and simple_switch_CLI must be on the PATH.
"""

from __future__ import annotations

import json
import shutil
import socket
import struct
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.waiting import wait_for

PCAP_HEADER = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1)
START_SECONDS = 6
"""simple_switch begins with the packet files this long after its start: tables come first."""


def available() -> bool:
    return bool(shutil.which("simple_switch") and shutil.which("simple_switch_CLI"))


def _free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


def write_pcap(path: Path, packets: Sequence[tuple[int, bytes]]) -> None:
    """Packets with their time in microseconds."""
    out = [PCAP_HEADER]
    for us, data in packets:
        out.append(struct.pack("<IIII", us // 1_000_000, us % 1_000_000, len(data), len(data)))
        out.append(data)
    path.write_bytes(b"".join(out))


def read_pcap(path: Path) -> list[bytes]:
    data = path.read_bytes() if path.exists() else b""
    out, at = [], 24
    while at + 16 <= len(data):
        size = struct.unpack_from("<I", data, at + 8)[0]
        if at + 16 + size > len(data):
            break
        out.append(data[at + 16 : at + 16 + size])
        at += 16 + size
    return out


def _listens(port: int) -> bool:
    with socket.socket() as s:
        return s.connect_ex(("127.0.0.1", port)) == 0


def _runs(proc: subprocess.Popen[bytes], tmp: Path) -> bool:
    if proc.poll() is not None:
        raise RuntimeError((tmp / "bmv2.log").read_text()[-500:])
    return True


def run(
    program: Mapping[str, Any],
    commands: Sequence[str],
    packets: Sequence[tuple[int, bytes]],
    ports: Sequence[int],
    tmp: Path,
    *,
    priority_queues: int = 2,
    gap_us: int = 1000,
    read: Sequence[str] = (),
    start_seconds: int = START_SECONDS,
) -> tuple[dict[int, list[bytes]], str]:
    """(frames by port, output of the `read` commands issued at the end)."""
    source = tmp / "program.json"
    source.write_text(json.dumps(program))
    for p in ports:
        mine = [(1_000_000 + i * gap_us, data) for i, (q, data) in enumerate(packets) if q == p]
        write_pcap(tmp / f"p{p}_in.pcap", mine)
    thrift = _free_port()
    args = ["simple_switch", "--use-files", str(start_seconds), "--thrift-port", str(thrift)]
    args += ["--device-id", str(thrift)]  # a name of its own for what it listens on
    for p in ports:
        args += ["-i", f"{p}@p{p}"]
    args += [str(source), "--", "--priority-queues", str(priority_queues)]
    log = (tmp / "bmv2.log").open("w")
    proc = subprocess.Popen(args, cwd=tmp, stdout=log, stderr=subprocess.STDOUT)
    try:
        began = time.monotonic()
        wait_for("simple_switch listens", lambda: _runs(proc, tmp) and _listens(thrift))
        if commands:
            cli(thrift, commands)
        if time.monotonic() - began > start_seconds:
            raise RuntimeError("the tables took longer than simple_switch waits for packets")
        played = began + start_seconds + len(packets) * gap_us / 1e6 + 0.3
        sizes, since = -1, began

        def settled() -> bool:
            nonlocal sizes, since
            outputs = [path for p in ports if (path := tmp / f"p{p}_out.pcap").exists()]
            now, size = time.monotonic(), sum(path.stat().st_size for path in outputs)
            if size != sizes:
                sizes, since = size, now
            return _runs(proc, tmp) and now >= played and now - since >= 0.5

        wait_for("all packets are played and no more come out", settled, played - began + 20)
        text = cli(thrift, read) if read else ""
    finally:
        proc.terminate()
        proc.wait(timeout=10)
        log.close()
    return {p: read_pcap(tmp / f"p{p}_out.pcap") for p in ports}, text


def cli(thrift: int, commands: Sequence[str]) -> str:
    done = subprocess.run(
        ["simple_switch_CLI", "--thrift-port", str(thrift)],
        input="\n".join([*commands, ""]),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    text = done.stdout + done.stderr
    for bad in ("Invalid", "Error", "error", "Unknown"):
        if bad in text:
            raise RuntimeError(f"simple_switch_CLI: {text[-600:]}")
    return text
