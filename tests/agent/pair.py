"""Two agents in network namespaces of their own, joined by veth pairs; one per plane."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
from pathlib import Path
from typing import Any

from hosts.agent.client import AgentClient

ROOT = Path(__file__).resolve().parents[2]
MTU = 4096 + 256


def run(*argv: str) -> None:
    subprocess.run(argv, check=True, capture_output=True, text=True)


class AgentProcess:
    """An agent whose namespace exists before it starts: `start` lets it go."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        self.socket = folder / f"{name}.sock"
        self.config = folder / f"{name}.json"
        self.events = folder / f"{name}.jsonl"
        command = (
            f"read go && exec '{sys.executable}' -m hosts.agent --name {name} "
            f"--config '{self.config}' --socket '{self.socket}' --events '{self.events}'"
        )
        self.process = subprocess.Popen(
            ["unshare", "--net", "sh", "-c", f"echo made; {command}"],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.line() == "made", self.errors()

    @property
    def pid(self) -> int:
        return self.process.pid

    def line(self) -> str:
        """The next line of its output, within ten seconds."""
        assert self.process.stdout is not None
        ready, _, _ = select.select([self.process.stdout], [], [], 10)
        assert ready, f"{self.name} says nothing"
        return self.process.stdout.readline().strip()

    def errors(self) -> str:
        assert self.process.stderr is not None
        return self.process.stderr.read()

    def ip(self, *argv: str) -> None:
        run("nsenter", "-t", str(self.pid), "-n", "ip", *argv)

    def start(self, config: dict[str, Any]) -> AgentClient:
        self.config.write_text(json.dumps(config))
        assert self.process.stdin is not None
        self.process.stdin.write("go\n")
        self.process.stdin.flush()
        said = self.line()
        assert said, self.errors()
        assert json.loads(said)["ready"] is True
        return AgentClient(self.socket)

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()

    def read_events(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.events.read_text().splitlines()]


def port_config(side: int, plane: int, rate_bps: int) -> dict[str, Any]:
    return {
        "port": plane + 1,
        "interface": f"v{plane}",
        "mac": mac(side, plane),
        "gateway_mac": mac(1 - side, plane),
        "ip": f"fd00:{plane}::{side + 1}",
        "rate_bps": rate_bps,
    }


def mac(side: int, plane: int) -> str:
    return f"02:00:00:00:{plane:02x}:{side + 1:02x}"


class Pair:
    """`a` and `b` are clients; end() in a finally."""

    def __init__(
        self, folder: Path, planes: int = 2, rate_bps: int = 100_000_000, **config: Any
    ) -> None:
        self.processes: list[AgentProcess] = []
        try:
            self.processes = [AgentProcess(name, folder) for name in ("a", "b")]
            for plane in range(planes):
                self._wire(plane)
            self.clients = [
                process.start(
                    {
                        "seed": side + 1,
                        "time_scale": 100,
                        "ports": [port_config(side, p, rate_bps) for p in range(planes)],
                        "qp": {
                            "ev": {"active": 16, "backup": 8},
                            "rto": {"t": 8, "linear": 3, "exp": 5},
                            "cc": {"base_rtt_ns": 2_000_000},
                        },
                        **config,
                    }
                )
                for side, process in enumerate(self.processes)
            ]
        except BaseException:
            self.end()
            raise
        self.a, self.b = self.clients

    def _wire(self, plane: int) -> None:
        name = f"v{plane}"
        first, second = self.processes
        first.ip(
            *("link", "add", name, "mtu", str(MTU), "type", "veth"),
            *("peer", "name", name, "mtu", str(MTU), "netns", str(second.pid)),
        )
        for side, process in enumerate(self.processes):
            process.ip("link", "set", name, "address", mac(side, plane))
            process.ip("addr", "add", f"fd00:{plane}::{side + 1}/64", "dev", name, "nodad")
            process.ip("link", "set", name, "up")

    def end(self) -> None:
        for process in self.processes:
            process.end()


def root() -> bool:
    """Whether namespaces can be made here."""
    return os.geteuid() == 0
