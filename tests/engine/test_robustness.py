"""Hostile input: names, malformed JSON, damaged packets; missing compiler; memory errors."""

from __future__ import annotations

import copy
import json
import random
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from softswitch.engine import BuildError, Engine, EngineError, InvalidValue, ProgramError, build
from softswitch.engine.build import CSRC, build_program, build_shared
from softswitch.engine.cgen import generate
from softswitch.engine.engine import compile_program
from softswitch.engine.native import RUNTIME
from softswitch.engine.program import Program
from tests.engine.differential import RandomProgram
from tests.engine.frames import EXAMPLE, mrc
from tests.engine.programs import Build, assign, const, forwarder

EVIL = '"; system("id"); /* \n#define u64 int\n */ \\'


def rename(node: Any, names: dict[str, str]) -> Any:
    if isinstance(node, dict):
        return {names.get(k, k) if k in names else k: rename(v, names) for k, v in node.items()}
    if isinstance(node, list):
        return [rename(v, names) for v in node]
    return names.get(node, node) if isinstance(node, str) else node


def test_names_never_reach_the_c_source() -> None:
    program = json.loads(EXAMPLE.read_text())
    names: set[str] = set()
    for section in ("header_types", "headers", "actions", "counter_arrays", "register_arrays"):
        names |= {x["name"] for x in program[section]}
    for t in program["header_types"]:
        names |= {f[0] for f in t["fields"]}
    for p in program["pipelines"]:
        for section in ("tables", "conditionals", "action_profiles"):
            names |= {x["name"] for x in p[section]}
    keep = {f[0] for f in next(t for t in program["header_types"] if t["id"] == 1)["fields"]}
    keep |= {"standard_metadata", "type", "op", "len"}  # some are words of the format too
    mapped = {n: n + EVIL for n in names - keep}
    evil = generate(Program(rename(program, mapped)))
    assert evil == generate(Program(program)), "names make no difference at all"
    assert not re.search(r"system|spray|trims|occupancy", evil)


def mutate(r: random.Random, node: Any) -> Any:
    """One random change somewhere."""
    if isinstance(node, dict) and node and r.random() < 0.95:
        key = r.choice(list(node))
        what = r.random()
        if what < 0.1:
            del node[key]
        elif what < 0.2:
            node[key] = r.choice([None, -1, 2**40, "x", [], {}, True, "0xzz", [1, 2], 1.5])
        else:
            node[key] = mutate(r, node[key])
        return node
    if isinstance(node, list) and node and r.random() < 0.95:
        i = r.randrange(len(node))
        what = r.random()
        if what < 0.1:
            del node[i]
        elif what < 0.15:
            node.append(copy.deepcopy(node[i]))
        else:
            node[i] = mutate(r, node[i])
        return node
    return r.choice([None, -1, 0, 7, 2**33, "", "eth", "0x1", "-0x5", [], {}, node, True])


def refusal(program: Any) -> str | None:
    """The message of ProgramError, None when the program is accepted; nothing else escapes."""
    try:
        compile_program(program)
    except ProgramError as e:
        return str(e)
    return None


def test_damaged_json_is_refused_in_one_line_or_means_something() -> None:
    r = random.Random(1)
    good = [EXAMPLE.read_text(), json.dumps(RandomProgram(1, packets=1).json)]
    refused = 0
    for i in range(1200):
        program = json.loads(good[i % 4 == 0])
        for _ in range(r.randint(1, 3)):
            program = mutate(r, program)
        message = refusal(program)
        refused += message is not None
        assert message is None or (message and "\n" not in message)
    assert refused > 500


def test_damaged_json_that_is_accepted_runs() -> None:
    """What the checks let through compiles, and loses no packet from sight."""
    r = random.Random(4)
    ran = 0
    while ran < 3:
        program = json.loads(json.dumps(RandomProgram(r.randrange(50), packets=1).json))
        for _ in range(3):
            program = mutate(r, program)
        if refusal(program) is not None:
            continue
        ran += 1
        engine = Engine(program)
        for p in (1, 2):
            engine.add_port(p)
        for _ in range(300):
            engine.receive(1, r.randbytes(r.randint(1, 400)), 0)
        engine.frames_to_send(0)
        t = engine.totals()
        assert t.received == 300
        assert t.received + t.copies == t.sent + t.packet_in + t.dropped + t.held


def test_casts_within_casts_do_not_double_the_code() -> None:
    def nested(depth: int) -> int:
        e: dict[str, Any] = {"type": "field", "value": ["h", "a"]}
        for i in range(depth):
            what = "sat_cast" if i % 2 else "usat_cast"
            e = {"type": "expression", "value": {"op": what, "left": e, "right": const(40 - i)}}
        b = Build()
        b.header("h", [("a", 64, True), ("b", 64)])
        b.run("ingress", "x", [assign("h", "b", e)])
        return len(generate(Program(b.json())))

    assert nested(30) - nested(20) < 2 * (nested(20) - nested(10))


def _arrays(p: Any) -> None:
    sizes = [{"name": f"big{i}", "id": 50 + i, "size": 1 << 24, "bitwidth": 64} for i in range(9)]
    p["register_arrays"] += sizes


def _headers(p: Any) -> None:
    p["header_types"].append({"name": "w", "id": 99, "fields": [["x", 16000, False]]})
    p["headers"] += [
        {"name": f"w{i}", "id": 1000 + i, "header_type": "w", "metadata": False} for i in range(200)
    ]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda p: p["pipelines"][0].update(init_table="nope"), "unknown node 'nope'"),
        (lambda p: p["actions"][1]["primitives"][0].update(op="fly"), "'fly' is not supported"),
        (lambda p: p["__meta__"].update(version=[3, 0]), "version 3"),
        (lambda p: p["pipelines"][0]["conditionals"][0].update(true_next="node_2"), "loop"),
        (lambda p: p["register_arrays"][0].update(size=2**40), "register 'occupancy'"),
        (lambda p: p["register_arrays"][0].update(bitwidth=2**31), "register 'occupancy'"),
        (lambda p: p["counter_arrays"][0].update(size=-1), "counter .*'size' is -1"),
        (_arrays, "its arrays take 12079"),
        (_headers, "its headers take 4"),
        (lambda p: p["header_types"][2]["fields"][0].__setitem__(1, 47), "whole number of bytes"),
    ],
)
def test_refusals_say_what_and_where(change: Any, message: str) -> None:
    program = json.loads(EXAMPLE.read_text())
    change(program)
    with pytest.raises(ProgramError, match=message):
        Engine(program)


def test_a_refused_program_leaves_the_old_one_running() -> None:
    engine = Engine(forwarder(2))
    engine.add_port(1)
    engine.add_port(2)
    with pytest.raises(ProgramError):
        engine.load({"pipelines": [{"name": "sideways"}]})
    engine.receive(1, bytes(60), 0)
    assert len(engine.frames_to_send(0)) == 1


def test_every_cut_of_a_frame_and_noise() -> None:
    engine = Engine(json.loads(EXAMPLE.read_text()))
    for p in (0, 1):
        engine.add_port(p)
    r = random.Random(3)
    frame = mrc(200)
    n = 0
    for size in range(1, len(frame)):
        engine.receive(1, frame[:size], n)
        n += 1
    for _ in range(500):
        engine.receive(1, r.randbytes(r.randint(1, 9264)), n)
        n += 1
    t = engine.totals()
    assert t.received == n == t.sent + t.dropped + t.held
    for bad in (b"", bytes(9265)):
        with pytest.raises(InvalidValue):
            engine.receive(1, bad, n)


def test_closed_engine_says_so() -> None:
    engine = Engine(forwarder())
    engine.close()
    engine.close()
    for call in (lambda: engine.receive(1, b"x", 0), engine.events, lambda: engine.add_port(1)):
        with pytest.raises(EngineError, match="closed"):
            call()


def test_missing_compiler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    with pytest.raises(BuildError, match="no C compiler found: install gcc"):
        build_shared(["int x;"], "absent", directory=tmp_path)


def test_compile_errors_are_one_line(tmp_path: Path) -> None:
    with pytest.raises(BuildError, match=r"could not compile broken: .*error"):
        build_shared(["int x"], "broken", directory=tmp_path)
    assert not list(tmp_path.iterdir()), "nothing is left behind"


def test_cache_is_by_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = build_shared(["int x = 1;"], "thing", directory=tmp_path)
    assert build_shared(["int x = 2;"], "thing", directory=tmp_path) != first
    monkeypatch.setattr(build, "compiler", lambda: pytest.fail("compiled again"))
    assert build_shared(["int x = 1;"], "thing", directory=tmp_path) == first


def fuzz_program() -> dict[str, Any]:
    """Stacks, variable length, wide fields and moving headers: all that touches bounds."""
    b = Build()
    b.header("a", [("kind", 8), ("n", 8), ("wide", 200), ("x", 40)])
    b.types.append({"name": "el_t", "id": 50, "fields": [["v", 13, False], ["last", 3, False]]})
    b.types.append(
        {
            "name": "opt_t",
            "id": 51,
            "fields": [["len", 8, False], ["rest", "*"], ["end", 8, False]],
            "max_length": 22,
        }
    )
    for i in range(3):
        b.headers.append(
            {"name": f"st[{i}]", "id": 60 + i, "header_type": "el_t", "metadata": False}
        )
    b.headers.append({"name": "opt", "id": 70, "header_type": "opt_t", "metadata": False})
    b.extra["header_stacks"] = [
        {"name": "st", "id": 0, "header_type": "el_t", "header_ids": [60, 61, 62]}
    ]
    b.emitted += ["st[0]", "st[1]", "st[2]", "opt"]
    b.extra["register_arrays"] = [{"name": "r", "id": 0, "size": 3, "bitwidth": 200}]
    runtime = {"type": "expression", "value": {"op": "dereference_header_stack",
               "left": {"type": "header_stack", "value": "st"},
               "right": {"type": "field", "value": ["a", "n"]}}}  # fmt: skip
    element = {"type": "expression", "value": {"op": "access_field", "left": runtime, "right": 0}}
    field_n = {"type": "field", "value": ["a", "n"]}
    b.run(
        "ingress",
        "mix",
        [
            assign("standard_metadata", "egress_spec", const(1)),
            {"op": "assign", "parameters": [element, field_n]},
            {"op": "register_write",
             "parameters": [{"type": "register_array", "value": "r"}, field_n,
                            {"type": "field", "value": ["a", "wide"]}]},
            {"op": "register_read",
             "parameters": [{"type": "field", "value": ["a", "wide"]},
                            {"type": "register_array", "value": "r"},
                            {"type": "field", "value": ["a", "kind"]}]},
            {"op": "push", "parameters": [{"type": "header_stack", "value": "st"}, field_n]},
            {"op": "pop", "parameters": [{"type": "header_stack", "value": "st"},
                                         {"type": "field", "value": ["a", "kind"]}]},
            {"op": "truncate", "parameters": [{"type": "field", "value": ["a", "x"]}]},
            {"op": "add_header", "parameters": [{"type": "header", "value": "st[2]"}]},
        ],
    )  # fmt: skip
    program = b.json()
    loop = {"type": "expression", "value": {"op": "&", "left": {"type": "field", "value":
            ["opt", "len"]}, "right": const(0xFF)}}  # fmt: skip
    program["header_types"].append({"name": "look_t", "id": 52, "fields": [["len", 8, False]]})
    states = program["parsers"][0]["parse_states"]
    states[0]["transition_key"] = [{"type": "field", "value": ["a", "kind"]}]
    states[0]["transitions"] = [
        {"type": "hexstr", "value": "0x01", "mask": "0x01", "next_state": "stack"},
        {"type": "hexstr", "value": "0x02", "mask": "0x02", "next_state": "opt"},
        {"type": "default", "value": None, "mask": None, "next_state": None},
    ]
    states.append(
        {
            "name": "stack",
            "id": 1,
            "parser_ops": [
                {"op": "extract", "parameters": [{"type": "stack", "value": "st"}]}
            ],
            "transition_key": [
                {"type": "stack_field", "value": ["st", "last"]},
                {"type": "lookahead", "value": [3, 70]},
            ],
            "transitions": [
                {"type": "hexstr", "value": "0x07" + "00" * 9, "mask": "0x07" + "00" * 9,
                 "next_state": "opt"},
                {"type": "default", "value": None, "mask": None, "next_state": "stack"},
            ],
        }
    )  # fmt: skip
    states.append(
        {
            "name": "opt",
            "id": 2,
            "parser_ops": [
                {"op": "set", "parameters": [{"type": "field", "value": ["opt", "len"]},
                                             {"type": "lookahead", "value": [0, 8]}]},
                {"op": "advance", "parameters": [
                    {"type": "expression", "value": {"op": "&", "left": loop,
                                                     "right": const(0x18)}}]},
                {"op": "extract_VL", "parameters": [{"type": "regular", "value": "opt"}, loop]},
            ],
            "transition_key": [],
            "transitions": [
                {"type": "default", "value": None, "mask": None, "next_state": None}
            ],
        }
    )  # fmt: skip
    return program


SANITIZE = (
    "-g", "-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all",
)  # fmt: skip


@pytest.fixture(scope="module")
def fuzzer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The runtime with fuzz.c's main, under sanitizers; it loads a program built likewise."""
    try:
        return build_program(
            [*(CSRC / f for f in RUNTIME), Path(__file__).with_name("fuzz.c")], "fuzz",
            include=[CSRC], flags=SANITIZE, libs=["-ldl", "-lpthread"],
            directory=tmp_path_factory.mktemp("fuzz"),
        )  # fmt: skip
    except BuildError as e:
        if "sanitize" in str(e) or "lasan" in str(e):
            pytest.skip(f"no sanitizers here: {e}")
        raise


@pytest.mark.slow
@pytest.mark.parametrize("which", ["example", "bounds", "random"])
def test_random_packets_under_sanitizers(which: str, fuzzer: Path, tmp_path: Path) -> None:
    """The runtime and the generated C, compiled with address and undefined behaviour checks,
    over random and damaged packets on ports that come and go."""
    program = {
        "example": lambda: json.loads(EXAMPLE.read_text()),
        "bounds": fuzz_program,
        "random": lambda: RandomProgram(11, packets=1).json,
    }[which]()
    source = generate(Program(program))
    built = build_shared([source], "target", include=[CSRC], flags=SANITIZE, directory=tmp_path)
    (tmp_path / "seed").write_bytes(mrc(300))
    done = subprocess.run(
        [str(fuzzer), str(tmp_path / "seed"), "8000", str(built)],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
    assert "balanced" in done.stdout
