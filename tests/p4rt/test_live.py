"""A real switch, p4runtime-shell as it is on PyPI, real packets."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.switch_kinds import KINDS, expected

ROOT = Path(__file__).resolve().parents[2]

pytestmark = [
    pytest.mark.net,
    pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root"),
]


@pytest.fixture(scope="module", params=KINDS)
def seen(request: pytest.FixtureRequest, tmp_path_factory) -> dict[str, Any]:
    """What `live` saw, and the kind of switch."""
    kind: str = request.param
    directory = tmp_path_factory.mktemp("live")
    command = ["unshare", "-n", "-m", sys.executable, "-m", "tests.p4rt.live", str(directory), kind]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 0, done.stderr
    return {"kind": kind, **json.loads(done.stdout)}


def expect(seen: dict[str, Any], what: str, value: Any) -> Any:
    return expected(seen["kind"], what, value)


def test_the_shell_programs_the_switch(seen: dict[str, Any]) -> None:
    assert "DONE" in seen["shell"]
    assert seen["shell"].count("READ field_id") == 2
    # The one write that had to fail, and no other.
    words = expect(seen, "words of an entry that exists", "table I.acl: the entry exists")
    assert seen["shell"].count(f"At index 0: ALREADY_EXISTS, '{words}'") == 1
    assert seen["shell"].count("Error(s) during Write") == 1


def test_packets_go_where_the_tables_say(seen: dict[str, Any]) -> None:
    assert seen["known"] == [2]
    assert seen["default"] == [3]
    assert seen["flood"] == [2, 3]
    assert seen["mirror"] == [2, 3]
    assert seen["dropped_then_known"] == [2]


def test_packet_in_and_out(seen: dict[str, Any]) -> None:
    assert seen["packet_in"] is True
    assert seen["packet_in_metadata"] == [[1, "01"], [2, "00"]]
    assert seen["packet_out"] == [3]


def test_counters_and_registers(seen: dict[str, Any]) -> None:
    assert seen["direct_counter"] == [3, 180]
    assert seen["counter"] == 7
    assert seen["register"] == expect(seen, "registers", "01fe")


def test_watch_port(seen: dict[str, Any]) -> None:
    assert set(seen["spread"]) == {2, 3}
    assert seen["spread_down"] == [3] * 16
    words = "watch_port 99: the switch has no such port"
    found = words if words in (seen["bad_watch"] or "") else seen["bad_watch"]
    assert found == expect(seen, "port to watch that is not there", words)


def test_ledger_and_end(seen: dict[str, Any]) -> None:
    assert seen["status"] == expect(seen, "status after SIGTERM", 0)
    if seen["kind"] == "bmv2":
        return  # accounts for packets in other ways: tests.bmv2
    totals = seen["stats"]["totals"]
    assert totals["received"] + totals["copies"] == (
        totals["sent"] + totals["packet_in"] + totals["dropped"] + totals["held"]
    )
    assert seen["stats"]["ports"]["1"]["drops"]["pipeline"] == 1
