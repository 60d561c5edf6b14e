"""Random v1model programs that know what they compute."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Sequence

from tests.p4.random_code import STACK, WIDTHS, Code, Scope, variable
from tests.p4.random_nodes import (
    BOOL,
    Exit,
    Expr,
    Function,
    Place,
    Return,
    State,
    Stmt,
    Type,
    Undefined,
    bit,
    join,
    literal,
    run_all,
)


class Program(Code):
    """A random program: `text`, and `run` which says what a packet becomes."""

    def __init__(self, seed: int, size: int = 12) -> None:
        self.rng = random.Random(seed)
        self.size = size
        self.count = 0
        rng = self.rng
        widths = [*rng.sample(WIDTHS, 4), 8]
        self.types = [bit(w) for w in widths]
        self.types += [Type("int", rng.choice(WIDTHS)) for _ in range(2)]
        self.meta = [(f"f{i}", t) for i, t in enumerate([*self.types, *self.types, BOOL])]
        self.header = self._padded([rng.choice(self.types) for _ in range(5)], "h")
        self.element = self._padded([bit(8), rng.choice(self.types)], "e")
        self.out = self._padded([t for _, t in self.meta], "o")
        self.fields = {
            **{f"hdr.{h}": self.header for h in "abc"},
            **{f"hdr.s[{i}]": self.element for i in range(STACK)},
            "hdr.o": self.out,
        }
        self.functions: list[Function] = []
        self.controls: list[Function] = []
        self.locals: list[str] = []
        base = self._base()
        for _ in range(3):
            self.functions.append(self._function(base))
        extracted = ("m.", "hdr.a", "hdr.b")
        parser = Scope([p for p in base if p.text.startswith(extracted)], where="parser")
        self.start = self._body(parser, 3)
        self.key = self.expr(parser, bit(8), 2)
        self.second = self._body(parser, 3)
        self.actions = [self._action(base) for _ in range(2)]
        control = Scope(list(base))
        self.apply = [
            self._fill(Scope(base[:9]), f"hdr.{x}") for x in ("c", "s[2]", "s[3]", "s[0]", "s[1]")
        ]
        self.apply += self._body(control, size)

    def _padded(self, types: Sequence[Type], name: str) -> list[tuple[str, Type]]:
        fields = [(f"{name}{i}", t) for i, t in enumerate(types)]
        bits = sum(t.width for t in types)
        return [*fields, ("pad", bit(8 - bits % 8))] if bits % 8 else fields

    def _base(self) -> list[Place]:
        found = [variable(f"m.{n}", t) for n, t in self.meta]
        rare = self.rng.choice(("hdr.c", "hdr.s[2]"))
        for header in ("hdr.a", "hdr.a", "hdr.b", "hdr.s[0]", rare):
            found += [variable(f"{header}.{n}", t) for n, t in self.fields[header]]
        return found

    def table(self, scope: Scope, size: int) -> Stmt:
        rng = self.rng
        name = self.fresh("t")
        kinds = rng.choice([["exact"], ["ternary"], ["lpm"], ["range"], ["exact", "ternary"]])
        keys = [self.expr(Scope(self._base()), bit(8), 2) for _ in kinds]
        actions = [self._table_action() for _ in range(2)]
        entries: list[tuple[list[Callable[[int], bool]], Function, list[Expr], int]] = []
        texts: list[str] = []
        for _ in range(4):
            made = [_match(kind, rng) for kind in kinds]
            action = rng.choice(actions)
            args = [literal(rng.getrandbits(t.width), t) for _, t, _ in action.params]
            texts.append(
                f"({', '.join(m[0] for m in made)}): "
                f"{action.name}({', '.join(a.text for a in args)});"
            )
            entries.append(([m[1] for m in made], action, args, made[-1][2]))
        if kinds == ["exact"] and len({t.split(":")[0] for t in texts}) < len(texts):
            texts, entries = texts[:1], entries[:1]
        if kinds == ["lpm"]:
            texts, entries = texts[:1], entries[:1]
        key_text = " ".join(
            f'{k.text}: {kind} @name("k{i}");'
            for i, (k, kind) in enumerate(zip(keys, kinds, strict=True))
        )
        self.locals += [a.text() for a in actions]
        default = actions[0]
        args0 = [literal(rng.getrandbits(t.width), t) for _, t, _ in default.params]
        self.locals.append(
            f"table {name} {{ key = {{ {key_text} }} actions = {{ "
            f"{' '.join(a.name + ';' for a in actions)} }} const default_action = "
            f"{default.name}({', '.join(a.text for a in args0)}); "
            f"const entries = {{ {' '.join(texts)} }} }}"
        )
        yes, no = (self._body(scope, size // 3) for _ in range(2))
        by_action = rng.random() < 0.5

        def run(s: State) -> None:
            values = [k.get(s) for k in keys]
            if any(value is None for value in values):
                raise Undefined
            hit, chosen, args = False, default, args0
            for tests, action, given, _ in entries:
                if all(t(int(x or 0)) for t, x in zip(tests, values, strict=True)):
                    hit, chosen, args = True, action, given
                    break
            chosen.call(s, args)
            run_all(yes if (chosen is actions[0] if by_action else hit) else no, s)

        if by_action:
            text = (
                f"switch ({name}.apply().action_run) {{ {actions[0].name}: {{ {join(yes)} }} "
                f"default: {{ {join(no)} }} }}"
            )
        else:
            text = f"if ({name}.apply().hit) {{ {join(yes)} }} else {{ {join(no)} }}"
        return Stmt(text, run)

    def _table_action(self) -> Function:
        scope = Scope(self._base(), where="action")
        name = self.fresh("ta")
        params: list[tuple[str, Type, str]] = []
        for i in range(self.rng.randrange(3)):
            params.append((f"{name}p{i}", self.rng.choice(self.types), ""))
            scope.values.append(variable(f"{name}p{i}", params[-1][1]).expr())
        return Function(name, params, None, self._body(scope, 2))

    # ---- the whole

    def text(self) -> str:
        """The program in P4."""

        def header(name: str, fields: Sequence[tuple[str, Type]]) -> str:
            return f"header {name} {{ {' '.join(f'{t} {n};' for n, t in fields)} }}"

        meta = " ".join(f"{t} {n};" for n, t in self.meta)
        export = " ".join(
            f"hdr.o.{o} = {f'(bit<1>)m.{n}' if t == BOOL else f'm.{n}'};"
            for (n, t), (o, _) in zip(self.meta, self._exported(), strict=False)
        )
        pad = " ".join(f"hdr.o.{n} = 0;" for n, _ in self._exported()[len(self.meta) :])
        return f"""#include <core.p4>
#include <v1model.p4>
{header("H", self.header)}
{header("S", self.element)}
{header("O", self._exported())}
struct headers {{ H a; H b; H c; S[{STACK}] s; O o; }}
struct meta {{ {meta} }}
{chr(10).join(f.text() for f in self.functions)}
parser P(packet_in pkt, out headers hdr, inout meta m, inout standard_metadata_t sm) {{
  state start {{ pkt.extract(hdr.a); pkt.extract(hdr.b); {join(self.start)}
    transition select({self.key.text}) {{ 0 .. 90: more; 91 &&& 0xf3: accept; 200: elements;
      _: more; }} }}
  state more {{ {join(self.second)} transition elements; }}
  state elements {{ pkt.extract(hdr.s.next); pkt.extract(hdr.s.next); transition accept; }}
}}
control VC(inout headers hdr, inout meta m) {{ apply {{ }} }}
control CC(inout headers hdr, inout meta m) {{ apply {{ }} }}
control I(inout headers hdr, inout meta m, inout standard_metadata_t sm) {{
  {chr(10).join(f.text() for f in self.actions)}
  {chr(10).join(self.locals)}
  apply {{ sm.egress_spec = 1; {chr(10).join(s.text for s in self.apply)} }}
}}
control E(inout headers hdr, inout meta m, inout standard_metadata_t sm) {{
  apply {{ hdr.o.setValid(); {export} {pad} }}
}}
control D(packet_out pkt, in headers hdr) {{ apply {{ pkt.emit(hdr); }} }}
V1Switch(P(), VC(), I(), E(), CC(), D()) main;
"""

    def _exported(self) -> list[tuple[str, Type]]:
        return [(n, bit(1) if t == BOOL else t) for n, t in self.out]

    def run(self, packet: bytes) -> tuple[bytes, bytes]:
        """What comes out, and a mask of the bits the language defines; raises Undefined."""
        s = State(valid=dict.fromkeys(self.fields, False))
        for name, type_ in self.meta:
            s.values[f"m.{name}"] = (type_.kind == "bool" and False) or 0
        stream = _Stream(packet)
        self._parse(s, stream)
        with contextlib.suppress(Exit, Return):
            run_all(self.apply, s)
        s.valid["hdr.o"] = True
        for (name, _), (out, _) in zip(self.meta, self._exported(), strict=False):
            s.values[f"hdr.o.{out}"] = s.values[f"m.{name}"]
        value, mask, bits = 0, 0, 0
        self.fields["hdr.o"] = self._exported()
        for name, fields in self.fields.items():
            if not s.valid[name]:
                continue
            for part, type_ in fields:
                found = s.values.get(f"{name}.{part}")
                if (name, part) == ("hdr.o", "pad"):
                    found = 0
                full = (1 << type_.width) - 1
                value = value << type_.width | (0 if found is None else int(found) & full)
                mask = mask << type_.width | (0 if found is None else full)
                bits += type_.width
        rest = packet[stream.at // 8 :]
        return value.to_bytes(bits // 8, "big") + rest, mask.to_bytes(bits // 8, "big") + (
            b"\xff" * len(rest)
        )

    def _parse(self, s: State, stream: _Stream) -> None:
        stream.extract(s, "hdr.a", self.header)
        stream.extract(s, "hdr.b", self.header)
        run_all(self.start, s)
        key = self.key.get(s)
        if key is None:
            raise Undefined
        if 0 <= key <= 90 or (key & 0xF3 != 91 & 0xF3 and key != 200):
            run_all(self.second, s)
        elif key & 0xF3 == 91 & 0xF3:
            return
        stream.extract(s, "hdr.s[0]", self.element)
        stream.extract(s, "hdr.s[1]", self.element)


class _Stream:
    def __init__(self, packet: bytes) -> None:
        self.value = int.from_bytes(packet, "big")
        self.left = len(packet) * 8
        self.at = 0

    def extract(self, s: State, header: str, fields: Sequence[tuple[str, Type]]) -> None:
        s.valid[header] = True
        for name, type_ in fields:
            self.left -= type_.width
            self.at += type_.width
            raw = type_.wrap(self.value >> self.left)
            s.values[f"{header}.{name}"] = bool(raw) if type_ == BOOL else raw


def _match(kind: str, rng: random.Random) -> tuple[str, Callable[[int], bool], int]:
    a, b = sorted((rng.getrandbits(8), rng.getrandbits(8)))
    if kind == "exact":
        return str(a), lambda x: x == a, 0
    if kind == "range":
        return f"{a} .. {b}", lambda x: a <= x <= b, 0
    if kind == "ternary":
        mask = rng.choice([0xFF, 0x0F, 0x81, 0])
        return f"{a} &&& {mask}", lambda x: x & mask == a & mask, 0
    length = rng.randrange(9)
    mask = (0xFF00 >> length) & 0xFF
    return f"{a} &&& {mask}", lambda x: x & mask == a & mask, length
