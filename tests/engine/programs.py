"""Small bmv2 programs built in Python, so that the engine's tests need no front end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

Json = dict[str, Any]

STANDARD = [
    ("ingress_port", 9), ("egress_spec", 9), ("egress_port", 9), ("instance_type", 32),
    ("packet_length", 32), ("enq_timestamp", 32), ("enq_qdepth", 19), ("deq_timedelta", 32),
    ("deq_qdepth", 19), ("ingress_global_timestamp", 48), ("egress_global_timestamp", 48),
    ("mcast_grp", 16), ("egress_rid", 16), ("checksum_error", 1), ("parser_error", 32),
    ("priority", 3), ("_padding", 3),
]  # fmt: skip
ALIASES = [
    [f"{a}.{f}", ["standard_metadata", f]]
    for a, fs in {
        "queueing_metadata": ("enq_timestamp", "enq_qdepth", "deq_timedelta", "deq_qdepth"),
        "intrinsic_metadata": (
            "ingress_global_timestamp", "egress_global_timestamp", "mcast_grp", "egress_rid",
            "priority",
        ),
    }.items()
    for f in fs
]  # fmt: skip


def fld(header: str, field: str) -> Json:
    return {"type": "field", "value": [header, field]}


def const(value: int) -> Json:
    return {"type": "hexstr", "value": hex(value)}


def op(name: str, left: Json | None, right: Json | None, cond: Json | None = None) -> Json:
    v: Json = {"op": name, "left": left, "right": right}
    if cond is not None:
        v["cond"] = cond
    return {"type": "expression", "value": v}


def prim(name: str, *params: Json) -> Json:
    return {"op": name, "parameters": list(params)}


def assign(header: str, field: str, value: Json) -> Json:
    return prim("assign", fld(header, field), value)


def obj(kind: str, name: str) -> Json:
    return {"type": kind, "value": name}


class Build:
    """Collects the parts of a program; headers are parsed one after the other."""

    def __init__(self) -> None:
        self.types: list[Json] = []
        self.headers: list[Json] = []
        self.actions: list[Json] = []
        self.tables: dict[str, list[Json]] = {"ingress": [], "egress": []}
        self.conditionals: dict[str, list[Json]] = {"ingress": [], "egress": []}
        self.profiles: list[Json] = []
        self.init: dict[str, str | None] = {"ingress": None, "egress": None}
        self.extra: Json = {}
        self.parsed: list[str] = []
        self.emitted: list[str] = []
        self.header("standard_metadata", STANDARD, metadata=True)

    def header(
        self, name: str, fields: Sequence[tuple[Any, ...]], *, metadata: bool = False
    ) -> None:
        self.types.append(
            {
                "name": f"{name}_t",
                "id": len(self.types),
                "fields": [[f[0], f[1], *(f[2:] or (False,))] for f in fields],
            }
        )
        self.headers.append(
            {
                "name": name,
                "id": len(self.headers),
                "header_type": f"{name}_t",
                "metadata": metadata,
            }
        )
        if not metadata:
            self.parsed.append(name)
            self.emitted.append(name)

    def action(
        self, name: str, primitives: Sequence[Json], params: Sequence[tuple[str, int]] = ()
    ) -> int:
        self.actions.append(
            {
                "name": name,
                "id": len(self.actions),
                "runtime_data": [{"name": n, "bitwidth": w} for n, w in params],
                "primitives": list(primitives),
            }
        )
        return len(self.actions) - 1

    def table(
        self,
        pipe: str,
        name: str,
        key: Sequence[tuple[str, str, str]] = (),
        actions: Sequence[int] = (),
        default: int | None = None,
        default_args: Sequence[str] = (),
        **more: Any,
    ) -> None:
        """Tables run in the order in which they are added. key: (match, header, field)."""
        kinds = [k[0] for k in key]
        match = next(
            (
                m
                for m in ("range", "ternary", "lpm")
                if m in kinds or (m == "ternary" and "optional" in kinds)
            ),
            "exact",
        )
        t: Json = {
            "name": name,
            "id": sum(len(x) for x in self.tables.values()),
            "key": [
                {"match_type": m, "name": f"{h}.{f}", "target": [h, f], "mask": None}
                for m, h, f in key
            ],
            "match_type": match,
            "type": "simple",
            "max_size": 1024,
            "with_counters": False,
            "support_timeout": False,
            "direct_meters": None,
            "action_ids": list(actions),
            "actions": [self.actions[a]["name"] for a in actions],
            "base_default_next": None,
            "next_tables": {self.actions[a]["name"]: None for a in actions},
        }
        if default is not None:
            t["default_entry"] = {
                "action_id": default,
                "action_const": False,
                "action_data": list(default_args),
                "action_entry_const": False,
            }
        t.update(more)
        if self.tables[pipe]:
            last = self.tables[pipe][-1]
            last["base_default_next"] = name
            last["next_tables"] = dict.fromkeys(last["next_tables"], name)
        else:
            self.init[pipe] = name
        self.tables[pipe].append(t)

    def run(self, pipe: str, name: str, primitives: Sequence[Json]) -> None:
        """An action without a table around it."""
        a = self.action(name, primitives)
        self.table(pipe, f"tbl_{name}", actions=[a], default=a)

    def json(self) -> Json:
        state = {
            "name": "start",
            "id": 0,
            "parser_ops": [
                {"op": "extract", "parameters": [{"type": "regular", "value": h}]}
                for h in self.parsed
            ],
            "transitions": [{"type": "default", "value": None, "mask": None, "next_state": None}],
            "transition_key": [],
        }
        program: Json = {
            "header_types": self.types,
            "headers": self.headers,
            "header_stacks": [],
            "field_lists": [],
            "errors": [["NoError", 0], ["PacketTooShort", 1]],
            "parsers": [
                {"name": "parser", "id": 0, "init_state": "start", "parse_states": [state]}
            ],
            "deparsers": [{"name": "deparser", "id": 0, "order": self.emitted, "primitives": []}],
            "actions": self.actions,
            "pipelines": [
                {
                    "name": pipe,
                    "id": i,
                    "init_table": self.init[pipe],
                    "tables": self.tables[pipe],
                    "action_profiles": self.profiles if pipe == "ingress" else [],
                    "conditionals": self.conditionals[pipe],
                }
                for i, pipe in enumerate(("ingress", "egress"))
            ],
            "checksums": [],
            "field_aliases": ALIASES,
            "__meta__": {"version": [2, 23]},
        }
        program.update(self.extra)
        return program


def forwarder(port: int = 2, field: str = "egress_spec", **more: Any) -> Json:
    """Everything goes out of one port (or, `field` mcast_grp, to one group), as it came."""
    b = Build()
    b.header("eth", [("dst", 48), ("src", 48), ("type", 16)])
    b.run("ingress", "out", [assign("standard_metadata", field, const(port))])
    b.extra.update(more)
    return b.json()


def by_priority(port: int = 2) -> Json:
    """Out of one port; the low bits of the first byte are the priority, and the packet's
    queueing metadata are written into the frame: enq_qdepth, deq_qdepth (16 bits each)."""
    b = Build()
    b.header("tag", [("prio", 8), ("enq", 16), ("deq", 16), ("wait", 32), ("n", 24)])
    b.run(
        "ingress",
        "classify",
        [
            assign("standard_metadata", "egress_spec", const(port)),
            assign("standard_metadata", "priority", fld("tag", "prio")),
        ],
    )
    b.run(
        "egress",
        "stamp",
        [
            assign("tag", "enq", fld("standard_metadata", "enq_qdepth")),
            assign("tag", "deq", fld("standard_metadata", "deq_qdepth")),
            assign("tag", "wait", fld("standard_metadata", "deq_timedelta")),
        ],
    )
    return b.json()
