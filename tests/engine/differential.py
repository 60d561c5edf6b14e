"""Random programs, entries and packets for a comparison with simple_switch.

A program is bmv2 JSON of every construct that p4c emits for v1model, put together at random
but with a meaning that is defined: no division of negative numbers, no look at the last
element of an empty stack, no time. What a packet has gone through is written into the header
`dbg` by egress, so that differences show in the frames.
"""

from __future__ import annotations

import random
from typing import Any

from tests.engine.programs import ALIASES, STANDARD, Json, assign, const, fld, op

PORTS = (1, 2, 3, 4)
WIDTHS = (1, 3, 7, 8, 9, 16, 24, 31, 32, 33, 48, 63, 64, 65, 100, 128, 129, 200)
HASHES = ("crc32", "crc16", "csum16", "xor16", "identity", "crc32_custom", "crc16_custom",
          "crcCCITT", "cksum16", "xor32", "xxh64", "crc8_custom", "crc64_custom",
          "toeplitz")  # fmt: skip
SEEN = [("standard_metadata", f) for f in
        ("ingress_port", "egress_port", "instance_type", "packet_length", "parser_error",
         "checksum_error", "egress_rid", "mcast_grp")]  # fmt: skip
ERRORS = ("NoError", "PacketTooShort", "NoMatch", "StackOutOfBounds", "HeaderTooShort",
          "ParserTimeout", "ParserInvalidArgument", "Own")  # fmt: skip

Fields = list[tuple[str, int, bool]]


def hexed(value: int, width: int) -> str:
    """A hexstr as long as the field's bytes."""
    return f"0x{value:0{2 * ((width + 7) // 8)}x}"


def outer(e: Json) -> Json:
    """An expression as a parameter: bmv2 wants it wrapped once more than inside another one."""
    if e["type"] == "local":
        return {"type": "runtime_data", "value": e["value"]}
    if e["type"] == "expression":
        return {"type": "expression", "value": e}
    return e


def padded(fields: Fields) -> Fields:
    rest = -sum(w for _, w, _ in fields) % 8
    return [*fields, ("pad", rest, False)] if rest else fields


class RandomProgram:
    """`json`, simple_switch_CLI `commands`, `packets`; the same for the same seed."""

    def __init__(self, seed: int, packets: int = 250) -> None:
        self.r = random.Random(seed)
        self.types: list[Json] = []
        self.headers: list[Json] = []
        self.fields: dict[str, Fields] = {}
        self.actions: list[Json] = []
        self.registers: list[tuple[str, int, int]] = []
        self.params: list[tuple[str, int]] = []
        self._headers()
        self.calculations = self._calculations()
        for i in range(3):
            self.registers.append((f"reg{i}", self.r.randint(1, 9), self.r.choice(WIDTHS)))
        # bmv2 does not notice when it looks ahead past the end of a packet (the engine does, as
        # P4 demands), so programs that look ahead get packets with room for it
        self.ahead = seed % 2 == 1
        self.parser = self._parser()
        self.pipelines = [self._pipeline("ingress", 0), self._pipeline("egress", 1)]
        self.json = self._json()
        self.commands = [
            "set_queue_depth 10000", "mc_mgrp_create 1", "mc_node_create 7 2 3",
            "mc_node_associate 1 0", "mc_node_create 9 4", "mc_node_associate 1 1",
            "mirroring_add 5 4", "mirroring_add_mc 6 1",
        ]  # fmt: skip
        self.packets = [(self.r.choice(PORTS), self.packet(i)) for i in range(packets)]

    # -- headers

    def header(self, name: str, fields: Fields, *, metadata: bool = False, kind: str = "") -> int:
        kind = kind or f"{name}_t"
        if kind not in {t["name"] for t in self.types}:
            self.types.append(
                {"name": kind, "id": len(self.types), "fields": [list(f) for f in fields]}
            )
        self.headers.append(
            {"name": name, "id": len(self.headers), "header_type": kind, "metadata": metadata}
        )
        self.fields[name] = fields
        return len(self.headers) - 1

    def some_fields(self, count: int) -> Fields:
        out: Fields = []
        for i in range(count):
            w = self.r.choice(WIDTHS)
            out.append((f"f{i}", w, w > 1 and self.r.random() < 0.2))
        return padded(out)

    def _headers(self) -> None:
        self.header("standard_metadata", [(n, w, False) for n, w in STANDARD], metadata=True)
        numbers = [(f"m{w}", w, False) for w in WIDTHS]
        numbers += [(f"s{w}", w, True) for w in WIDTHS if w > 1]
        self.header("m", padded(numbers), metadata=True)
        self.header("first", [("kind", 8, False), ("more", 8, False)])
        for i in range(3):
            self.header(f"h{i}", self.some_fields(self.r.randint(1, 5)))
        element = self.some_fields(2)
        self.stack = [self.header(f"st[{i}]", element, kind="st_t") for i in range(3)]
        a, b = self.some_fields(2), self.some_fields(1)
        self.union = [self.header("u.a", a, kind="ua_t"), self.header("u.b", b, kind="ub_t")]
        self.union_stack = [
            [self.header(f"us[{i}].a", a, kind="ua_t"), self.header(f"us[{i}].b", b, kind="ub_t")]
            for i in range(2)
        ]
        self.header("vl", [("len", 8, False)])
        self.types[-1].update(
            fields=[["len", 8, False], ["data", "*"], ["tail", 16, False]], max_length=19
        )
        self.fields["vl"] = [("len", 8, False), ("tail", 16, False)]
        self.header("copy", self.fields["h0"], kind="h0_t")
        self.header("dbg", padded([(f"d{i}", 32, False) for i in range(len(SEEN))]
                                  + [(f"e{w}", w, False) for w in WIDTHS]))  # fmt: skip

    @property
    def plain(self) -> list[str]:
        return ["h0", "h1", "h2", "copy", "vl", "first"]

    # -- expressions

    def target(self) -> tuple[str, str, int]:
        name = self.r.choice([*self.plain, "m", "m", "m"])
        f, w, _ = self.r.choice(self.fields[name])
        return name, f, w

    def leaf(self) -> Json:
        if self.r.random() < 0.3:
            return const(self.r.choice([0, 1, 255, 1 << 40, self.r.getrandbits(130), -3]))
        if self.params and self.r.random() < 0.3:
            return {"type": "local", "value": self.r.randrange(len(self.params))}
        if self.r.random() < 0.1:
            return fld(*self.r.choice(SEEN[:1] + SEEN[3:6]))
        name, f, _ = self.target()
        return self.guarded(name, fld(name, f))

    def guarded(self, header: str, e: Json) -> Json:
        """Zero when the header is not valid: bmv2 then gives what an earlier packet left."""
        if header == "m":
            return e
        valid = op("d2b", None, fld(header, "$valid$"))
        return op("?", e, const(0), valid)

    def data(self, depth: int) -> Json:
        kind = self.r.choice(["+", "-", "*", "&", "|", "^", "~", "<<", ">>", "?", "two_comp_mod",
                              "usat_cast", "sat_cast", "b2d", "/", "%", "leaf", "at",
                              "last"])  # fmt: skip
        if depth <= 0 or kind == "leaf":
            return self.leaf()
        a, b = self.data(depth - 1), self.data(depth - 1)
        if kind in ("+", "-", "*", "&", "|", "^"):
            return op(kind, a, b)
        if kind == "~":
            return op("~", None, a)
        if kind in ("<<", ">>"):
            return op(kind, a, op("&", b, const(31)))
        if kind == "?":
            return op("?", a, b, self.boolean(depth - 1))
        if kind == "b2d":
            return op("b2d", None, self.boolean(depth - 1))
        if kind in ("/", "%"):
            mask = const((1 << self.r.choice(WIDTHS)) - 1)
            return op(kind, op("&", a, mask), const(self.r.choice([1, 3, 10, 1 << 20])))
        if kind == "at":
            i = self.r.randrange(3)
            stack = {"type": "header_stack", "value": "st"}
            place = op("dereference_header_stack", stack, const(i))
            return self.guarded(f"st[{i}]", op("access_field", place, 0))  # type: ignore[arg-type]
        if kind == "last":
            # bmv2 gives -1 for an empty stack, which is not defined in P4
            last = op("last_stack_index", None, {"type": "header_stack", "value": "st"})
            return op("&", last, const(3))
        return op(kind, a, const(max(2, self.r.choice(WIDTHS))))

    def boolean(self, depth: int) -> Json:
        kind = self.r.choice(["==", "!=", "<", "<=", ">", ">=", "and", "or", "not", "d2b", "valid",
                              "eq", "union"])  # fmt: skip
        if depth <= 0 or kind == "valid":
            name = self.r.choice([*self.plain, "st[1]", "u.a"])
            return op("d2b", None, fld(name, "$valid$"))
        if kind in ("and", "or"):
            return op(kind, self.boolean(depth - 1), self.boolean(depth - 1))
        if kind == "not":
            return op("not", None, self.boolean(depth - 1))
        if kind == "d2b":
            return op("d2b", None, self.data(depth - 1))
        if kind == "eq":
            pair = [{"type": "header", "value": n} for n in ("h0", "copy")]
            return op(self.r.choice(["==", "!="]), *pair)
        if kind == "union":
            return op("valid_union", None, {"type": "header_union", "value": "u"})
        return op(kind, self.data(depth - 1), self.data(depth - 1))

    # -- parser

    def _select(self, keys: list[tuple[Json, int]], targets: list[str | None]) -> Json:
        """Transitions over a key, with and without masks."""
        out: list[Json] = []
        for target in targets:
            value = mask = ""
            masked = self.r.random() < 0.6
            for _, w in keys:
                m = self.r.choice([0, 1, 3, 7]) & (1 << w) - 1 if masked else (1 << w) - 1
                value += hexed(self.r.getrandbits(2) & m, w)[2:]
                mask += hexed(m, w)[2:]
            out.append({"type": "hexstr", "value": "0x" + value,
                        "mask": "0x" + mask if masked else None, "next_state": target})  # fmt: skip
        last = self.r.choice(targets)
        out.append({"type": "default", "value": None, "mask": None, "next_state": last})
        return {"transition_key": [k for k, _ in keys], "transitions": out}

    def _parser(self) -> Json:
        """start, then states of which each leads further down, or repeats on the stack."""
        kinds = ["h0", "h1", "h2", "stack", "union", "union_stack", "vl", "skip", "check"]
        self.r.shuffle(kinds)
        names = [f"p_{k}" for k in kinds]
        states: list[Json] = []

        def state(name: str, ops: list[Json], select: Json) -> None:
            states.append({"name": name, "id": len(states), "parser_ops": ops, **select})

        def extract(kind: str, value: Any) -> Json:
            return {"op": "extract", "parameters": [{"type": kind, "value": value}]}

        def look(width: int) -> tuple[Json, int]:
            if not self.ahead:
                f, w, _ = self.r.choice(self.fields["m"])
                return fld("m", f), w
            return {"type": "lookahead", "value": [self.r.choice([0, 0, 3, 8]), width]}, width

        first = [(fld("first", "kind"), 8)]
        out = {"op": "set", "parameters": [fld("standard_metadata", "egress_spec"), const(2)]}
        state("start", [extract("regular", "first"), out],
              self._select(first, [self.r.choice(names) for _ in range(4)]))  # fmt: skip
        for i, kind in enumerate(kinds):
            later: list[str | None] = [*names[i + 1 :], None]
            targets = [self.r.choice(later) for _ in range(3)]
            keys: list[tuple[Json, int]] = [(fld("first", "more"), 8)]
            ops: list[Json] = []
            if kind in ("h0", "h1", "h2"):
                ops.append(extract("regular", kind))
                f, w, _ = self.r.choice(self.fields[kind])
                keys = [(fld(kind, f), w)]
            elif kind == "stack":
                ops.append(extract("stack", "st"))
                f, w, _ = self.fields["st[0]"][0]
                keys = [({"type": "stack_field", "value": ["st", f]}, w), look(8)]
                targets.append(names[i])
            elif kind == "union":
                ops.append(extract("regular", self.r.choice(["u.a", "u.b"])))
            elif kind == "union_stack":
                ops.append(extract("union_stack", ["us", self.r.choice(["a", "b"])]))
                keys = [look(self.r.choice([8, 12]))]
                targets.append(names[i])
            elif kind == "vl":
                bits = op("&", fld("vl", "len"), const(0xF8))
                ops.append({"op": "set", "parameters": [fld("vl", "len"), look(8)[0]]})
                place = {"type": "regular", "value": "vl"}
                ops.append({"op": "extract_VL", "parameters": [place, outer(bits)]})
            elif kind == "skip":
                bits = op("&", fld("first", "more"), const(0x18))
                ops.append({"op": "advance", "parameters": [outer(bits)]})
            else:
                ops.append({"op": "verify", "parameters": [
                    self.boolean(1), const(self.r.choice([2, 7]))]})  # fmt: skip
            for _ in range(self.r.randint(0, 2)):
                f, w, _ = self.r.choice(self.fields["m"])
                source = self.r.choice([look(self.r.choice(WIDTHS))[0], outer(self.data(1))])
                ops.append({"op": "set", "parameters": [fld("m", f), source]})
            state(names[i], ops, self._select(keys, targets))
        return {"name": "parser", "id": 0, "init_state": "start", "parse_states": states}

    # -- hashes and checksums

    def _input(self, payload: bool) -> list[Json]:
        out: list[Json] = []
        for _ in range(self.r.randint(1, 4)):
            name = self.r.choice(["h0", "h1", "h2", "m"])
            f, _, _ = self.r.choice(self.fields[name])
            out.append(fld(name, f))
        bits = sum(w for e in out for f, w, _ in self.fields[e["value"][0]] if f == e["value"][1])
        width = -bits % 8 + 8
        out.append({"type": "hexstr", "value": hexed(self.r.getrandbits(width), width),
                    "bitwidth": width})  # fmt: skip
        return [*out, {"type": "payload"}] if payload else out

    def _calculations(self) -> list[Json]:
        out = [{"name": f"calc{i}", "id": i, "algo": self.r.choice(HASHES),
                "input": self._input(False)} for i in range(3)]  # fmt: skip
        for name, payload in (("sum", False), ("paysum", True)):
            out.append({"name": name, "id": len(out), "algo": "csum16",
                        "input": self._input(payload)})  # fmt: skip
        return out

    # -- actions and tables

    def header_ref(self, name: str) -> Json:
        return {"type": "header", "value": name}

    def primitive(self, pipe: str) -> list[Json]:
        r = self.r
        what = r.choice(["assign"] * 8 + ["add", "remove", "copy", "push", "pop", "hash", "reg",
                        "count", "truncate", "drop", "again", "clone", "exit", "vl"])  # fmt: skip
        call = lambda name, *params: [{"op": name, "parameters": list(params)}]  # noqa: E731
        if what == "add":
            return call("add_header", self.header_ref(r.choice(self.plain[:4])))
        if what == "remove":
            return call("remove_header", self.header_ref(r.choice(self.plain)))
        if what == "copy":
            pair = r.sample(["h0", "copy"], 2)
            return call("assign_header", *(self.header_ref(n) for n in pair))
        if what in ("push", "pop"):
            return call(what, {"type": "header_stack", "value": "st"}, const(r.randint(1, 2)))
        if what == "hash":
            dst = fld("m", f"m{r.choice(WIDTHS)}")
            calc = {"type": "calculation", "value": f"calc{r.randrange(3)}"}
            base = const(r.choice([0, 5]))
            size = const(r.choice([1, 7, 1 << 16, 1 << 32]))
            return call("modify_field_with_hash_based_offset", dst, base, calc, size)
        if what == "reg" and pipe == "ingress":
            name, cells, _ = r.choice(self.registers)
            ref, index = {"type": "register_array", "value": name}, const(r.randrange(cells))
            if r.random() < 0.5:
                return call("register_write", ref, index, outer(self.data(1)))
            return call("register_read", fld("m", f"m{r.choice(WIDTHS)}"), ref, index)
        if what == "count":
            return call("count", {"type": "counter_array", "value": "cnt"}, const(r.randrange(4)))
        if what == "truncate" and r.random() < 0.3:
            return call("truncate", const(r.randint(60, 120)))
        if what == "drop" and r.random() < 0.2:
            return call("mark_to_drop", self.header_ref("standard_metadata"))
        if what == "exit" and r.random() < 0.3:
            return call("exit")
        if what == "vl":
            return call("assign_VL", fld("vl", "data"), fld("vl", "data"))
        if what in ("again", "clone") and r.random() < 0.4:
            field_list = const(r.randint(1, 2))
            if what == "clone":
                side = "clone_ingress_pkt_to_egress" if pipe == "ingress" else (
                    "clone_egress_pkt_to_egress")  # fmt: skip
                do = call(side, const(r.choice([5, 6, 99])), field_list)
            else:
                do = call("resubmit" if pipe == "ingress" else "recirculate", field_list)
            once = op("b2d", None, op("==", fld("standard_metadata", "instance_type"), const(0)))
            return [{"op": "_jump_if_zero", "parameters": [outer(once), None]}, *do]
        name, f, _ = self.target()
        return [assign(name, f, outer(self.data(2)))]

    def action(self, pipe: str, params: list[tuple[str, int]], more: list[Json]) -> int:
        self.params = params
        body: list[Json] = []
        for _ in range(self.r.randint(0, 4)):
            part = self.primitive(pipe)
            if part[0]["op"] == "_jump_if_zero":
                target = len(body) + len(part)
                part[0]["parameters"][1] = const(target)
            body += part
        body += more
        self.params = []
        self.actions.append({
            "name": f"a{len(self.actions)}", "id": len(self.actions), "primitives": body,
            "runtime_data": [{"name": n, "bitwidth": w} for n, w in params],
        })  # fmt: skip
        return len(self.actions) - 1

    def _key(self, kind: str) -> tuple[list[Json], list[tuple[str, str, int]]]:
        fields: list[tuple[str, str, int]] = []
        others = ["exact", "ternary"] if kind in ("ternary", "range") else ["exact"]
        kinds = [kind, *(self.r.choice(others) for _ in range(self.r.randint(0, 2)))]
        for k in kinds:
            if k == "exact" and self.r.random() < 0.3:
                fields.append((k, self.r.choice(self.plain), 0))
            else:
                name, f, w = self.target()
                while k == "lpm" and w % 8:  # bmv2 counts the padding of the field's bytes
                    name, f, w = self.target()
                fields.append((k, f"{name}.{f}", w))
        out = []
        for k, name, w in fields:
            head, _, f = name.partition(".")
            target = [head, f] if w else [head, "$valid$"]
            out.append({"match_type": k, "name": name, "target": target, "mask": None})
        return out, fields

    def _match(self, k: str, w: int) -> Json:
        w = w or 1
        low = self.r.choice([self.r.getrandbits(w), self.r.getrandbits(2) & (1 << w) - 1])
        if k == "exact":
            return {"match_type": k, "key": hexed(low, w)}
        if k == "lpm":
            n = self.r.choice([0, 1, w // 2, w])
            value = low >> (w - n) << (w - n)
            return {"match_type": k, "key": hexed(value, w), "prefix_length": n}
        if k == "ternary":
            m = self.r.choice([0, 1, self.r.getrandbits(w), (1 << w) - 1])
            return {"match_type": k, "key": hexed(low & m, w), "mask": hexed(m, w)}
        hi = self.r.randint(low, (1 << w) - 1)
        return {"match_type": k, "start": hexed(low, w), "end": hexed(hi, w)}

    def _table(self, pipe: str, n: int, forward: bool) -> Json:
        kind = self.r.choice(["exact", "lpm", "ternary", "range"])
        key, fields = self._key(kind)
        ids = []
        for _ in range(2):
            params = [(f"p{i}", self.r.choice(WIDTHS)) for i in range(self.r.randint(0, 2))]
            out = []
            if forward:
                port = self.r.choice([2, 3, 4, 511])
                out.append(assign("standard_metadata", "egress_spec", const(port)))
                if self.r.random() < 0.15:
                    out.append(assign("standard_metadata", "mcast_grp", const(1)))
            ids.append(self.action(pipe, params, out))

        def call(a: int) -> Json:
            return {"action_id": a, "action_const": False, "action_entry_const": False,
                    "action_data": [hexed(self.r.getrandbits(p["bitwidth"]), p["bitwidth"])
                                    for p in self.actions[a]["runtime_data"]]}  # fmt: skip

        entries, seen = [], set()
        for i in range(self.r.randint(0, 12)):
            match = [self._match(k, w) for k, _, w in fields]
            if repr(match) not in seen:
                seen.add(repr(match))
                entries.append({"match_key": match, "action_entry": call(self.r.choice(ids)),
                                "priority": i + 1})  # fmt: skip
        return {
            "name": f"{pipe}_t{n}", "id": n + (100 if pipe == "egress" else 0), "key": key,
            "match_type": kind, "type": "simple", "max_size": 1024,
            "with_counters": self.r.random() < 0.5, "support_timeout": False,
            "direct_meters": None, "action_ids": ids,
            "actions": [self.actions[a]["name"] for a in ids], "entries": entries,
            "default_entry": call(ids[0]),
        }  # fmt: skip

    def _pipeline(self, pipe: str, number: int) -> Json:
        tables = [self._table(pipe, n, pipe == "ingress" and n == 2) for n in range(3)]
        conditions, after = [], [t["name"] for t in tables[1:]]
        last: str | None = None
        if pipe == "egress":
            done = self._last()
            tables.append(done)
            last = done["name"]
        after.append(last)  # type: ignore[arg-type]
        for i, t in enumerate(tables[:3]):
            following = after[i]
            if i < 2 and self.r.random() < 0.5:
                name = f"{pipe}_c{i}"
                skip = after[i + 1]
                conditions.append({"name": name, "id": i + 10 * number,
                                   "expression": self.boolean(2),
                                   "true_next": following, "false_next": skip})  # fmt: skip
                following = name
            t["base_default_next"] = following
            way = self.r.random()
            if way < 0.3 and i < 2:
                t["next_tables"] = {"__HIT__": following, "__MISS__": after[i + 1]}
            else:
                t["next_tables"] = dict.fromkeys(t["actions"], following)
        return {"name": pipe, "id": number, "init_table": tables[0]["name"], "tables": tables,
                "action_profiles": [], "conditionals": conditions}  # fmt: skip

    def _last(self) -> Json:
        """At the end of egress: what there is to see goes into `dbg`."""
        body = [{"op": "add_header", "parameters": [self.header_ref("dbg")]}]
        body += [assign("dbg", f"d{i}", fld(*s)) for i, s in enumerate(SEEN)]
        body += [assign("dbg", f"e{w}", fld("m", f"m{w}")) for w in WIDTHS]
        self.actions.append({"name": "show", "id": len(self.actions), "runtime_data": [],
                             "primitives": body})  # fmt: skip
        a = len(self.actions) - 1
        return {
            "name": "tbl_show", "id": 999, "key": [], "match_type": "exact", "type": "simple",
            "max_size": 1024, "with_counters": False, "support_timeout": False,
            "direct_meters": None, "action_ids": [a], "actions": ["show"],
            "base_default_next": None, "next_tables": {"show": None},
            "default_entry": {"action_id": a, "action_const": True, "action_data": [],
                              "action_entry_const": True},
        }  # fmt: skip

    def _json(self) -> Json:
        r = self.r
        order = ["first", "h0", "h1", "h2", *(f"st[{i}]" for i in range(3)), "u.a", "u.b",
                 *(f"us[{i}].{k}" for i in range(2) for k in "ab"), "vl", "copy"]  # fmt: skip
        r.shuffle(order)
        copied = ["copy", self.fields["copy"][0][0]]
        sums: list[Json] = []
        for i, (name, update) in enumerate((("sum", False), ("sum", True), ("paysum", True),
                                            ("paysum", False))):  # fmt: skip
            sums.append({"name": f"cs{i}", "id": i, "type": "generic", "calculation": name,
                         "target": copied if update else [*self.target()[:2]],
                         "verify": not update, "update": update,
                         "if_cond": r.choice([None, self.boolean(1)])})  # fmt: skip
        kept = [fld("standard_metadata", "ingress_port"), *(fld("m", f) for f in
                ("m16", "s33", "m200"))]  # fmt: skip
        lists = [{"id": 1, "name": "fl1", "elements": kept},
                 {"id": 2, "name": "fl2", "elements": [fld("m", "m64")]}]  # fmt: skip
        return {
            "header_types": self.types, "headers": self.headers,
            "header_stacks": [{"name": "st", "id": 0, "header_type": "st_t", "size": 3,
                               "header_ids": self.stack}],
            "header_union_types": [{"name": "u_t", "id": 0,
                                    "headers": [["a", "ua_t"], ["b", "ub_t"]]}],
            "header_unions": [
                {"name": "u", "id": 0, "union_type": "u_t", "header_ids": self.union},
                *({"name": f"us[{i}]", "id": i + 1, "union_type": "u_t", "header_ids": ids}
                  for i, ids in enumerate(self.union_stack)),
            ],
            "header_union_stacks": [{"name": "us", "id": 0, "union_type": "u_t", "size": 2,
                                     "header_union_ids": [1, 2]}],
            "field_lists": lists, "errors": [[e, i] for i, e in enumerate(ERRORS)],
            "enums": [], "parsers": [self.parser], "parse_vsets": [],
            "deparsers": [{"name": "deparser", "id": 0, "order": [*order, "dbg"],
                           "primitives": []}],
            "meter_arrays": [], "counter_arrays": [
                {"name": "cnt", "id": 0, "size": 4, "is_direct": False}],
            "register_arrays": [{"name": n, "id": i, "size": s, "bitwidth": w}
                                for i, (n, s, w) in enumerate(self.registers)],
            "calculations": self.calculations, "learn_lists": [], "actions": self.actions,
            "pipelines": self.pipelines, "checksums": sums, "force_arith": [],
            "extern_instances": [], "field_aliases": ALIASES,
            "__meta__": {"version": [2, 23], "compiler": "random"},
        }  # fmt: skip

    # -- packets

    def packet(self, number: int) -> bytes:
        """Mostly small values, so that branches are taken; its number comes last."""
        size = self.r.choice([2, 20, 60, 100, 300, self.r.randint(1, 200)])
        size += 900 if self.ahead else 0
        few = (0, 1, 2, 3)
        body = bytes(self.r.choice((*few, self.r.getrandbits(8))) for _ in range(size))
        return body if size < 6 else body[:-2] + number.to_bytes(2, "big")
