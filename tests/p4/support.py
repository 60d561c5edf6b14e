"""A v1model program around the part under test, and a reader of bmv2 JSON that runs it.

`Machine` evaluates the emitted JSON the way bmv2 documents it (unbounded integers, masks where
the compiler put them), so that tests compare behaviour and not text. Tables always miss.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from softswitch.p4 import P4Error, compile_text
from softswitch.p4.api import Compiled

SKELETON = """
#include <core.p4>
#include <v1model.p4>
header H {{ bit<8> a; bit<8> b; bit<16> c; bit<32> d; bit<64> e; bit<128> w; int<8> s; }}
header B {{ bit<8> x; }}
{types}
struct headers {{ H h; H g; B[4] st; }}
struct meta {{ bit<8> x; bit<32> y; bool t; int<16> i; {meta} }}
{top}
parser P(packet_in pkt, out headers hdr, inout meta m, inout standard_metadata_t sm) {{
  {parser}
}}
control VC(inout headers hdr, inout meta m) {{ apply {{ {verify} }} }}
control I(inout headers hdr, inout meta m, inout standard_metadata_t sm) {{
  {locals}
  apply {{ {apply} }}
}}
control E(inout headers hdr, inout meta m, inout standard_metadata_t sm) {{
  {elocals}
  apply {{ {eapply} }}
}}
control CC(inout headers hdr, inout meta m) {{ apply {{ {update} }} }}
control D(packet_out pkt, in headers hdr) {{ apply {{ pkt.emit(hdr); }} }}
V1Switch(P(), VC(), I(), E(), CC(), D()) main;
"""
START = "state start { pkt.extract(hdr.h); transition accept; }"


def source(**parts: str) -> str:
    """The text of a whole program; parts: types, meta, top, parser, locals, apply, ..."""
    names = (
        "types", "meta", "top", "locals", "apply", "elocals", "eapply", "verify", "update",
    )  # fmt: skip
    filled = {n: parts.get(n, "") for n in names}
    return SKELETON.format(parser=parts.get("parser", START), **filled)


def compiled(**parts: str) -> Compiled:
    """Compile a program made of parts."""
    return compile_text(source(**parts), Path("test.p4"))


def refused(**parts: str) -> str:
    """The message a program is refused with."""
    with pytest.raises(P4Error) as caught:
        compiled(**parts)
    return str(caught.value)


def tables(document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """All tables of a document, by name."""
    return {t["name"]: t for p in document["pipelines"] for t in p["tables"]}


def action(document: dict[str, Any], name: str) -> dict[str, Any]:
    """The first action of that name."""
    return next(a for a in document["actions"] if a["name"] == name)


def find(document: dict[str, Any], op: str) -> list[dict[str, Any]]:
    """All primitives with that op, in order."""
    return [p for a in document["actions"] for p in a["primitives"] if p["op"] == op]


class Machine:
    """Fields, header validity, and the pipelines of one document."""

    def __init__(self, document: dict[str, Any], fields: dict[tuple[str, str], int]) -> None:
        self.document = document
        self.fields = dict(fields)
        self.valid: set[str] = set()
        self.types = {h["name"]: h["fields"] for h in document["header_types"]}
        self.headers = {h["name"]: h["header_type"] for h in document["headers"]}
        self.actions = {a["id"]: a for a in document["actions"]}
        self.exited = False
        self.trace: list[str] = []

    def width(self, header: str, field: str) -> tuple[int, bool]:
        for name, bits, *rest in self.types[self.headers[header]]:
            if name == field:
                return bits, bool(rest and rest[0])
        raise KeyError((header, field))

    def read(self, header: str, field: str) -> int:
        if field == "$valid$":
            return int(header in self.valid)
        return self.fields.get((header, field), 0)

    def write(self, header: str, field: str, value: int) -> None:
        bits, signed = self.width(header, field)
        value &= (1 << bits) - 1
        if signed and value >> (bits - 1):
            value -= 1 << bits
        self.fields[header, field] = value

    # ---- expressions

    def value(self, j: dict[str, Any], args: list[int]) -> Any:
        kind, value = j["type"], j["value"]
        if kind == "field":
            return self.read(*value)
        if kind == "hexstr":
            return int(value, 16)
        if kind == "bool":
            return value
        if kind in ("local", "runtime_data"):
            return args[value]
        if kind == "header":
            return value
        assert kind == "expression", kind
        if "type" in value:
            return self.value(value, args)
        return self.operation(value, args)

    def operation(self, e: dict[str, Any], args: list[int]) -> Any:
        op = e["op"]
        if op == "?":
            return self.value(e["left"] if self.value(e["cond"], args) else e["right"], args)
        if op == "access_field":
            header = self.value(e["left"], args)
            return self.read(header, self.types[self.headers[header]][e["right"]][0])
        if op == "dereference_header_stack":
            return f"{e['left']['value']}[{self.value(e['right'], args)}]"
        right = self.value(e["right"], args)
        if op in ("d2b", "b2d", "not", "~"):
            assert isinstance(right, bool) == (op in ("b2d", "not")), (op, e)
            if op in ("d2b", "not"):
                return (right != 0) == (op == "d2b")
            return int(right) if op == "b2d" else ~right
        left = self.value(e["left"], args)
        if op in ("and", "or"):
            assert isinstance(left, bool)
            assert isinstance(right, bool)
            return (left and right) if op == "and" else (left or right)
        assert not isinstance(left, bool), e
        assert not isinstance(right, bool), e
        if op == "two_comp_mod":
            left &= (1 << right) - 1
            return left - (1 << right) if left >> (right - 1) else left
        if op == "usat_cast":
            return max(0, min(left, (1 << right) - 1))
        if op == "sat_cast":
            return max(-(1 << (right - 1)), min(left, (1 << (right - 1)) - 1))
        operators: dict[str, Callable[[int, int], Any]] = {
            "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.floordiv,
            "%": operator.mod, "&": operator.and_, "|": operator.or_, "^": operator.xor,
            "<<": operator.lshift, ">>": operator.rshift, "==": operator.eq, "!=": operator.ne,
            "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
        }  # fmt: skip
        return operators[op](left, right)

    # ---- actions

    def run_action(self, ident: int, args: list[int]) -> None:
        body = self.actions[ident]["primitives"]
        pc = 0
        while pc < len(body):
            p = body[pc]
            params = p["parameters"]
            pc += 1
            if p["op"] == "_jump":
                pc = int(params[0]["value"], 16)
            elif p["op"] == "_jump_if_zero":
                if self.value(params[0], args) == 0:
                    pc = int(params[1]["value"], 16)
            else:
                self.primitive(p["op"], params, args)

    def primitive(self, op: str, params: list[dict[str, Any]], args: list[int]) -> None:
        self.trace.append(op)
        if op == "assign":
            self.store(params[0], self.value(params[1], args), args)
        elif op == "exit":
            self.exited = True
        elif op == "add_header":
            self.valid.add(self.value(params[0], args))
        elif op == "remove_header":
            self.valid.discard(self.value(params[0], args))
        elif op == "assign_header":
            to, source_ = (self.value(x, args) for x in params)
            for name, *_ in self.types[self.headers[to]]:
                self.write(to, name, self.read(source_, name))
            (self.valid.add if source_ in self.valid else self.valid.discard)(to)

    def store(self, target: dict[str, Any], value: int, args: list[int]) -> None:
        assert not isinstance(value, bool), target
        if target["type"] == "field":
            header, field = target["value"]
            self.write(header, field, value)
            return
        access = target["value"]["value"]
        assert access["op"] == "access_field"
        header = self.value(access["left"], args)
        self.write(header, self.types[self.headers[header]][access["right"]][0], value)

    # ---- pipelines

    def run(self, name: str = "ingress") -> Machine:
        pipeline = next(p for p in self.document["pipelines"] if p["name"] == name)
        found = {t["name"]: t for t in pipeline["tables"]}
        conditions = {c["name"]: c for c in pipeline["conditionals"]}
        node = pipeline["init_table"]
        steps = 0
        while node is not None and not self.exited:
            steps += 1
            assert steps < 10_000
            if node in conditions:
                c = conditions[node]
                test = self.value(c["expression"], [])
                assert isinstance(test, bool)
                node = c["true_next" if test else "false_next"]
                continue
            table = found[node]
            default = table["default_entry"]
            args = [int(x, 16) for x in default["action_data"]]
            self.run_action(default["action_id"], args)
            self.trace.append(f"table {node}")
            following = table["next_tables"]
            if "__MISS__" in following:
                node = following["__MISS__"]
            else:
                node = following[self.actions[default["action_id"]]["name"]]
        return self


def execute(fields: dict[tuple[str, str], int] | None = None, **parts: str) -> Machine:
    """Compile the parts and run ingress on these fields, header h being valid."""
    machine = Machine(compiled(**parts).json, fields or {})
    machine.valid.add("h")
    return machine.run()
