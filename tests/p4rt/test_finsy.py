"""finsy, a second independent client, as it is on PyPI, in an environment of its own.

finsy needs another protobuf than the lab, so its environment is made once, in the cache (or is
named by MRCLAB_FINSY_PYTHON). Where it cannot be made, because there is no network, the test
is skipped and says so.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import text_format

from softswitch.engine.build import cache_dir
from softswitch.p4rt import Device, P4RuntimeServer
from tests.p4rt.real import PORTS, compiled, frame, new_engine
from tests.waiting import wait_for

FINSY = "finsy==0.30.0"
PIP_SECONDS = 60
CLIENT = Path(__file__).with_name("finsy_client.py")

pytestmark = pytest.mark.slow


def run(*command: str, seconds: float) -> None:
    subprocess.run(command, check=True, capture_output=True, text=True, timeout=seconds)


def finsy_python() -> str:
    """A Python that has finsy; skips when there is none and none can be made."""
    given = os.environ.get("MRCLAB_FINSY_PYTHON")
    if given:
        return given
    name = f"{FINSY.replace('==', '-')}-py{sys.version_info[0]}.{sys.version_info[1]}"
    home = cache_dir() / name
    python = home / "bin" / "python"
    if python.exists():
        return str(python)
    home.parent.mkdir(parents=True, exist_ok=True)
    made = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=home.parent))
    try:
        run(sys.executable, "-m", "venv", str(made), seconds=30)
        pip = (str(made / "bin" / "python"), "-m", "pip", "--disable-pip-version-check")
        quick = ("--quiet", "--retries", "0", "--timeout", "10")
        run(*pip, "install", *quick, FINSY, seconds=PIP_SECONDS)
    except (subprocess.SubprocessError, OSError) as error:
        shutil.rmtree(made, ignore_errors=True)
        text = (getattr(error, "stderr", None) or str(error)).strip().splitlines()
        pytest.skip(f"no environment with {FINSY}: {text[-1] if text else error}")
    try:
        made.rename(home)  # another run may have been faster; then it is gone with us
    except OSError:
        shutil.rmtree(made, ignore_errors=True)
    return str(python)


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What finsy saw, and under "out" what came out of the switch."""
    python = finsy_python()
    files = tmp_path_factory.mktemp("finsy")
    info, program = compiled()
    (files / "p4info.txtpb").write_text(text_format.MessageToString(info))
    (files / "full.json").write_bytes(program)
    engine = new_engine()
    for port in PORTS:
        engine.add_port(port)
        engine.set_port_up(port, True, 0)
    device = Device(1, engine, scratch=new_engine, priority_queues=2)
    server = P4RuntimeServer(device)
    address = server.start("127.0.0.1:0")
    client = subprocess.Popen(
        [python, str(CLIENT), address, str(files / "p4info.txtpb"), str(files / "full.json")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={key: value for key, value in os.environ.items() if key != "PYTHONPATH"},
    )
    now = engine._lib.mrc_clock
    out: list[Any] = []
    last = ""
    try:
        assert client.stdout is not None
        for last in client.stdout:
            words = last.split()
            if words[:2] == ["do", "send"]:
                engine.receive(int(words[2]), bytes.fromhex(words[3]), now())
            elif words[:2] == ["do", "wait"]:
                engine.on_deadline(now() + 2 * 10**9)
            elif words[:2] == ["do", "out"]:

                def came() -> bool:
                    out.extend(engine.frames_to_send(now() + 10**6))
                    return bool(out)

                wait_for("the packet out", came)
        status = client.wait(30)
        assert client.stderr is not None
        assert status == 0, client.stderr.read()
    finally:
        client.kill()
        client.wait()
        server.stop()
        engine.close()
    return {**json.loads(last), "out": out}


def test_finsy_takes_the_switch(seen: dict[str, Any]) -> None:
    assert (seen["primary"], seen["version"]) == (True, "1.4.1")


def test_finsy_reads_what_it_wrote(seen: dict[str, Any]) -> None:
    for what in ("l2", "acl", "strings", "group", "ecmp", "one shot", "multicast", "clone"):
        assert seen[what] == [True], what
    assert seen["route"] == 1
    assert seen["again"] == ["UNKNOWN", {"0": "ALREADY_EXISTS"}]
    assert seen["in use"] == "FAILED_PRECONDITION"
    assert (seen["deleted"], seen["left"]) == (0, 0)
    assert seen["arrays"] == [0x1234, -3, 5, 3]
    assert (seen["all counters"], seen["value set"]) == (16, 1)


def test_finsy_hears_the_data_plane(seen: dict[str, Any]) -> None:
    assert seen["packet in"] == [3, True]
    assert [tuple(item) for item in seen["out"]] == [(4, frame(1, 1))]
    assert seen["digest"] == [{"src": 0x55, "port": 2, "type": 0x88B5}]
    assert seen["idle"] == [["who", "smac"]]
