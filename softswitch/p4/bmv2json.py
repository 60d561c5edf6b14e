"""Model -> bmv2 JSON, keys in the order p4c writes them."""

from __future__ import annotations

from pathlib import PurePath
from typing import Any

from softswitch.p4 import types as t
from softswitch.p4.action_code import primitives
from softswitch.p4.diagnostics import Reporter, Span
from softswitch.p4.lower import values as v
from softswitch.p4.lower.model import Action, KeyValue, Model, Node, Pipeline, Table
from softswitch.p4.lower.values import Instance, hexstr, to_json, width

Json = dict[str, Any]
COMPILER = "mrclab softswitch.p4"
VERSION = [2, 23]


def write_json(model: Model, reporter: Reporter) -> Json:
    """The whole document."""
    return _Writer(model, reporter).document()


def _source_info(span: Span) -> Json:
    return {
        "filename": PurePath(span.file.name).name,
        "line": span.line,
        "column": span.column - 1,
        "source_fragment": span.text(),
    }


class _Writer:
    def __init__(self, model: Model, reporter: Reporter) -> None:
        self.model = model
        self.reporter = reporter
        self.table_ids = 0
        self.conditional_ids = 0

    def document(self) -> Json:
        m = self.model
        return {
            "header_types": m.header_types,
            "headers": [
                {
                    "name": h.name,
                    "id": h.id,
                    "header_type": h.type,
                    "metadata": h.metadata,
                    "pi_omit": True,
                }
                for h in m.headers
            ],
            "header_stacks": m.stacks,
            "header_union_types": m.union_types,
            "header_unions": m.unions,
            "header_union_stacks": m.union_stacks,
            "field_lists": self._located(m.field_lists),
            "errors": [list(e) for e in m.errors],
            "enums": m.enums,
            "parsers": [self._parser()],
            "parse_vsets": m.vsets,
            "deparsers": [self._deparser()],
            "meter_arrays": self._meters(),
            "counter_arrays": self._counters(),
            "register_arrays": self._registers(),
            "calculations": self._located(m.calculations),
            "learn_lists": self._located(m.learn_lists),
            "actions": [self._action(a) for a in m.actions],
            "pipelines": [self._pipeline(n, p) for n, p in enumerate(m.pipelines)],
            "checksums": self._located(m.checksums),
            "force_arith": self._copied(),
            "extern_instances": [],
            "field_aliases": m.aliases,
            "program": PurePath(m.name).name,
            "__meta__": {"version": VERSION, "compiler": COMPILER},
        }

    def _located(self, items: list[Json]) -> list[Json]:
        """Spans become source_info."""
        return [
            {k: _source_info(x) if isinstance(x, Span) else x for k, x in item.items()}
            for item in items
        ]

    def _copied(self) -> list[list[str]]:
        """Fields bmv2 has to decode though nothing names them: it copies numbers, not bytes."""
        fields = {h["name"]: h["fields"] for h in self.model.header_types}
        return [
            [h.name, f[0]]
            for h in self.model.headers
            if any(h.name.startswith((f"{name}[", f"{name}.")) for name in self.model.copied)
            for f in fields[h.type]
        ]

    # ---- parser, deparser

    def _parser(self) -> Json:
        states = [
            {
                "name": s.name,
                "id": n,
                "parser_ops": s.ops,
                "transitions": s.transitions,
                "transition_key": s.key,
            }
            for n, s in enumerate(self.model.states)
        ]
        return {
            "name": "parser",
            "id": 0,
            "init_state": self.model.init_state,
            "parse_states": states,
        }

    def _deparser(self) -> Json:
        result: Json = {"name": "deparser", "id": 0}
        if self.model.deparser_span is not None:
            result["source_info"] = _source_info(self.model.deparser_span)
        result["order"] = self.model.deparser_order
        result["primitives"] = [
            {"op": p.op, "parameters": p.parameters, "source_info": _source_info(p.span)}
            for p in self.model.deparser_ops
        ]
        return result

    # ---- externs

    def _externs(self, *names: str) -> list[Instance]:
        found: list[Instance] = []
        for group in (self.model.global_externs, *(b.externs for b in self.model.blocks)):
            found += [i for i in group if _kind(i) in names]
        return found

    def _bound_table(self, instance: Instance) -> Table | None:
        for block in self.model.blocks:
            for table in block.tables:
                if instance in (table.counter, table.meter):
                    return table
        return None

    def _meters(self) -> list[Json]:
        result: list[Json] = []
        for meter in self._externs("meter", "direct_meter"):
            entry: Json = {
                "name": meter.name,
                "id": len(result),
                "source_info": _source_info(meter.span),
            }
            direct = _kind(meter) == "direct_meter"
            table = self._bound_table(meter) if direct else None
            if direct and table is None:
                self.reporter.warn(meter.span, f"direct meter '{meter.name}' is not used", "unused")
                continue
            entry["is_direct"] = direct
            entry["size"] = table.size if table is not None else number(meter, "size")
            entry["rate_count"] = 2
            entry["type"] = enum_name(meter, "type")
            if table is not None:
                entry["binding"] = table.name
                target = self.model.direct_meters.get(meter)
                if target is None:
                    self.reporter.warn(
                        meter.span, f"direct meter '{meter.name}' is never read", "unused"
                    )
                    result_field = ["scalars", "_unused_color"]
                else:
                    result_field = to_json(target, v.DATA)["value"]
                entry["result_target"] = result_field
            result.append(entry)
        return result

    def _counters(self) -> list[Json]:
        result: list[Json] = []
        for counter in self._externs("counter", "direct_counter"):
            entry: Json = {"name": counter.name, "id": len(result)}
            if _kind(counter) == "direct_counter":
                table = self._bound_table(counter)
                if table is None:
                    self.reporter.warn(
                        counter.span, f"direct counter '{counter.name}' is not used", "unused"
                    )
                    continue
                entry["is_direct"] = True
                entry["binding"] = table.name
                entry["source_info"] = _source_info(counter.span)
            else:
                entry["source_info"] = _source_info(counter.span)
                entry["size"] = number(counter, "size")
                entry["is_direct"] = False
            result.append(entry)
        return result

    def _registers(self) -> list[Json]:
        result: list[Json] = []
        for register in self._externs("register"):
            assert isinstance(register.type, t.TExtern)
            kind = t.base(register.type.args[0])
            if not isinstance(kind, (t.TBits, t.TBool)):
                self.reporter.error(
                    register.span, f"bmv2's registers hold bit<> or int<>, not '{kind}'"
                )
                continue
            if number(register, "size") < 1:
                self.reporter.error(register.span, "a register needs at least one element")
                continue
            result.append(
                {
                    "name": register.name,
                    "id": len(result),
                    "source_info": _source_info(register.span),
                    "size": number(register, "size"),
                    "bitwidth": width(kind),
                }
            )
        return result

    # ---- actions

    def _action(self, action: Action) -> Json:
        try:
            body = primitives(action, self.reporter, _source_info)
        except OverflowError as error:
            raise self.reporter.fail(action.span, str(error)) from None
        return {
            "name": action.name,
            "id": action.id,
            "runtime_data": [{"name": p.name, "bitwidth": width(p.type)} for p in action.params],
            "primitives": body,
        }

    # ---- pipelines

    def _pipeline(self, ident: int, pipeline: Pipeline) -> Json:
        tables: list[Json] = []
        conditionals: list[Json] = []
        profiles: list[Instance] = []
        for node in pipeline.nodes:
            if node.table is not None:
                if node.table.profile is not None and node.table.profile not in profiles:
                    profiles.append(node.table.profile)
                tables.append(self._table(node, node.table))
            else:
                conditionals.append(self._conditional(node))
        pipeline.profiles = profiles
        return {
            "name": pipeline.name,
            "id": ident,
            "source_info": _source_info(pipeline.span),
            "init_table": pipeline.init,
            "tables": tables,
            "action_profiles": [self._profile(p, pipeline) for p in profiles],
            "conditionals": conditionals,
        }

    def _profile(self, profile: Instance, pipeline: Pipeline) -> Json:
        ident = getattr(self, "_profile_ids", 0)
        self._profile_ids = ident + 1
        entry: Json = {
            "name": profile.name,
            "id": ident,
            "source_info": _source_info(profile.span),
            "max_size": number(profile, "size"),
        }
        if _kind(profile) == "action_selector":
            inputs: list[list[Json]] = []
            for node in pipeline.nodes:
                if node.table is not None and node.table.profile is profile:
                    fields = [to_json(leaf, v.DATA) for leaf in node.table.selector]
                    if fields not in inputs:
                        inputs.append(fields)
            if len(inputs) > 1:
                self.reporter.error(
                    profile.span,
                    f"tables that share '{profile.name}' have to list the same selector keys",
                )
            entry["selector"] = {"algo": enum_name(profile, "algorithm"), "input": inputs[0]}
        return entry

    def _conditional(self, node: Node) -> Json:
        assert node.cond is not None
        assert node.span is not None
        entry: Json = {"name": node.name, "id": self.conditional_ids}
        self.conditional_ids += 1
        entry["source_info"] = _source_info(node.span)
        entry["expression"] = to_json(node.cond, v.BOOLEAN)
        entry["true_next"] = node.true_next
        entry["false_next"] = node.false_next
        return entry

    def _table(self, node: Node, table: Table) -> Json:
        table.id = self.table_ids
        self.table_ids += 1
        entry: Json = {
            "name": table.name,
            "id": table.id,
            "source_info": _source_info(table.span),
            "key": [
                {
                    "match_type": "ternary" if k.match == "optional" else k.match,
                    "name": k.name,
                    "target": to_json(k.target, v.DATA)["value"],
                    "mask": None if k.mask is None else hexstr(k.mask, width(k.target.type)),
                }
                for k in table.keys
            ],
            "match_type": _match_type(table),
            "type": _table_type(table),
        }
        if table.profile is not None:
            entry["action_profile"] = table.profile.name
        entries = table.entries
        entry["max_size"] = len(entries) if entries else table.size
        entry["with_counters"] = table.counter is not None
        entry["support_timeout"] = table.support_timeout
        entry["direct_meters"] = table.meter.name if table.meter is not None else None
        entry["action_ids"] = [a.action.id for a in table.actions]
        entry["actions"] = [a.action.name for a in table.actions]
        self._next(entry, node, table)
        if table.profile is None and table.default_action is not None:
            entry["default_entry"] = {
                "action_id": table.default_action.id,
                "action_const": table.default_const,
                "action_data": [hexstr(x) for x in table.default_args],
                "action_entry_const": table.default_const,
            }
        if entries:
            entry["entries"] = self._entries(table)
        return entry

    def _next(self, entry: Json, node: Node, table: Table) -> None:
        if node.by_hit:
            entry["base_default_next"] = None
            entry["next_tables"] = {"__HIT__": node.hit, "__MISS__": node.miss}
            return
        entry["base_default_next"] = node.next
        other = node.default_case if node.has_default_case else node.next
        entry["next_tables"] = {
            a.action.name: node.by_action.get(a.action.name, other) for a in table.actions
        }

    def _entries(self, table: Table) -> list[Json]:
        result: list[Json] = []
        for item in table.entries or []:
            result.append(
                {
                    "source_info": _source_info(item.span),
                    "match_key": [
                        _match_key(k, width(key.type))
                        for k, key in zip(item.keys, table.keys, strict=True)
                    ],
                    "action_entry": {
                        "action_id": item.action.id,
                        "action_data": [hexstr(x) for x in item.args],
                    },
                    "priority": item.priority,
                }
            )
        return result


def _match_key(key: KeyValue, bits: int) -> Json:
    if key.match == "exact":
        return {"match_type": "exact", "key": hexstr(key.value, bits)}
    if key.match == "lpm":
        return {
            "match_type": "lpm",
            "key": hexstr(key.value, bits),
            "prefix_length": key.prefix,
        }
    if key.match == "range":
        high = key.high if key.high is not None else 0
        return {"match_type": "range", "start": hexstr(key.value, bits), "end": hexstr(high, bits)}
    mask = key.mask if key.mask is not None else 0
    return {"match_type": "ternary", "key": hexstr(key.value, bits), "mask": hexstr(mask, bits)}


def _match_type(table: Table) -> str:
    kinds = {k.match for k in table.keys}
    if "range" in kinds:
        return "range"
    if kinds & {"ternary", "optional"}:
        return "ternary"
    return "lpm" if "lpm" in kinds else "exact"


def _table_type(table: Table) -> str:
    if table.profile is None:
        return "simple"
    return "indirect_ws" if _kind(table.profile) == "action_selector" else "indirect"


def _kind(instance: Instance) -> str:
    return instance.type.decl.name if isinstance(instance.type, t.TExtern) else ""


def number(instance: Instance, name: str) -> int:
    """A numeric constructor argument."""
    found = instance.args.get(name)
    return found.value if isinstance(found, v.Const) else 0


def enum_name(instance: Instance, name: str) -> str:
    """The member name of an enum-valued constructor argument."""
    found = instance.args.get(name)
    if isinstance(found, v.Const) and isinstance(found.type, t.TEnum):
        return found.type.members[found.value]
    return ""
