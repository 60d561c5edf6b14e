"""A made-up program with one of everything, as P4Info and the JSON that goes with it."""

from __future__ import annotations

import json
from typing import Any

from google.protobuf import text_format
from p4.config.v1 import p4info_pb2

EXACT, LPM, TERN, RNG, OPT, KEYLESS, CONST, INDIRECT, PROF, TWO = range(101, 111)
NOACTION, FWD, DROP, ONLY_TABLE, ONLY_DEFAULT = range(201, 206)
SEL, PLAIN = 301, 302
COUNTER, DIRECT, REGISTER, SIGNED, METER, VSET, DIGEST, DMETER = range(401, 409)


def _table(
    table_id: int,
    name: str,
    fields: list[tuple[str, int, str]],
    extra: str = "",
    actions: str | None = None,
) -> str:
    keys = "".join(
        f'match_fields {{ id: {i} name: "{n}" bitwidth: {w} match_type: {k} }}\n'
        for i, (n, w, k) in enumerate(fields, 1)
    )
    refs = actions or "".join(
        f"action_refs {{ id: {a}{scope} }}\n"
        for a, scope in (
            (NOACTION, ""),
            (FWD, ""),
            (DROP, ""),
            (ONLY_TABLE, " scope: TABLE_ONLY"),
            (ONLY_DEFAULT, " scope: DEFAULT_ONLY"),
        )
    )
    return (
        f'tables {{ preamble {{ id: {table_id} name: "{name}" alias: "{name}" }}\n'
        f"{keys}{refs}initial_default_action {{ action_id: {NOACTION} }}\n{extra} size: 1024 }}\n"
    )


TABLES: list[tuple[int, str, list[tuple[str, int, str]], str]] = [
    (EXACT, "exact", [("a", 9, "EXACT"), ("b", 128, "EXACT")], f"direct_resource_ids: {DIRECT}"),
    (LPM, "lpm", [("dst", 32, "LPM")], ""),
    (TERN, "ternary", [("x", 16, "TERNARY"), ("y", 8, "EXACT")], ""),
    (RNG, "range", [("port", 16, "RANGE")], "idle_timeout_behavior: NOTIFY_CONTROL"),
    (OPT, "optional", [("o", 12, "OPTIONAL"), ("p", 12, "LPM")], ""),
    (KEYLESS, "keyless", [], ""),
    (
        CONST,
        "const",
        [("c", 8, "EXACT")],
        f"is_const_table: true has_initial_entries: true const_default_action_id: {DROP}",
    ),
    (INDIRECT, "indirect", [("dst", 32, "LPM")], f"implementation_id: {SEL}"),
    (PROF, "prof", [("k", 8, "EXACT")], f"implementation_id: {PLAIN}"),
]

P4INFO_TEXT = (
    'pkg_info { arch: "v1model" }\n'
    + "".join(_table(i, n, f, e) for i, n, f, e in TABLES)
    + f"""
actions {{ preamble {{ id: {NOACTION} name: "NoAction" }} }}
actions {{ preamble {{ id: {FWD} name: "fwd" }}
  params {{ id: 1 name: "port" bitwidth: 9 }} params {{ id: 2 name: "mac" bitwidth: 48 }} }}
actions {{ preamble {{ id: {DROP} name: "drop" }} }}
actions {{ preamble {{ id: {ONLY_TABLE} name: "only_table" }} }}
actions {{ preamble {{ id: {ONLY_DEFAULT} name: "only_default" }} }}
action_profiles {{ preamble {{ id: {SEL} name: "sel" }} table_ids: {INDIRECT}
  with_selector: true size: 64 max_group_size: 8 }}
action_profiles {{ preamble {{ id: {PLAIN} name: "plain" }} table_ids: {PROF} size: 4 }}
counters {{ preamble {{ id: {COUNTER} name: "hits" }} spec {{ unit: BOTH }} size: 16 }}
direct_counters {{ preamble {{ id: {DIRECT} name: "exact_hits" }} spec {{ unit: BOTH }}
  direct_table_id: {EXACT} }}
meters {{ preamble {{ id: {METER} name: "police" }} spec {{ unit: BYTES }} size: 4 }}
registers {{ preamble {{ id: {REGISTER} name: "reg" }}
  type_spec {{ bitstring {{ bit {{ bitwidth: 32 }} }} }} size: 8 }}
registers {{ preamble {{ id: {SIGNED} name: "sreg" }}
  type_spec {{ bitstring {{ int {{ bitwidth: 16 }} }} }} size: 2 }}
value_sets {{ preamble {{ id: {VSET} name: "vs" }}
  match {{ id: 1 name: "t" bitwidth: 16 match_type: EXACT }} size: 4 }}
digests {{ preamble {{ id: {DIGEST} name: "dig" }}
  type_spec {{ bitstring {{ bit {{ bitwidth: 16 }} }} }} }}
controller_packet_metadata {{ preamble {{ id: 501 name: "packet_in" }}
  metadata {{ id: 1 name: "ingress_port" bitwidth: 9 }}
  metadata {{ id: 2 name: "_pad" bitwidth: 7 }} }}
controller_packet_metadata {{ preamble {{ id: 502 name: "packet_out" }}
  metadata {{ id: 1 name: "egress_port" bitwidth: 9 }}
  metadata {{ id: 2 name: "_pad" bitwidth: 7 }} }}
"""
)


_PARSED = text_format.Parse(P4INFO_TEXT, p4info_pb2.P4Info())


def p4info() -> Any:
    """A fresh P4Info."""
    out = p4info_pb2.P4Info()
    out.CopyFrom(_PARSED)
    return out


_ACTIONS = {"NoAction": [], "fwd": [9, 48], "drop": [], "only_table": [], "only_default": []}


def program() -> dict[str, Any]:
    """The bmv2 JSON, as far as the control plane looks at it."""
    names = list(_ACTIONS)
    tables: list[dict[str, Any]] = []
    for _, name, fields, _ in TABLES:
        table: dict[str, Any] = {
            "name": name,
            "key": [{"match_type": k.lower(), "name": n} for n, _, k in fields],
            "actions": names,
            "max_size": 1024,
        }
        tables.append(table)
    by_name = {table["name"]: table for table in tables}
    by_name["const"]["entries"] = [
        {
            "match_key": [{"match_type": "exact", "key": "0x2e"}],
            "action_entry": {"action_id": names.index("fwd"), "action_data": ["0x1", "0x2"]},
            "priority": 1,
        }
    ]
    by_name["lpm"]["max_size"] = 3
    by_name["indirect"]["key"].append({"match_type": "selector", "name": "flow"})
    return {
        "actions": [
            {"name": name, "id": index, "runtime_data": [{"bitwidth": w} for w in widths]}
            for index, (name, widths) in enumerate(_ACTIONS.items())
        ],
        "pipelines": [
            {
                "name": "ingress",
                "tables": tables,
                "action_profiles": [{"name": "sel"}, {"name": "plain"}],
            }
        ],
        "counter_arrays": [
            {"name": "hits", "size": 16},
            {"name": "exact_hits", "is_direct": True, "binding": "exact"},
        ],
        "meter_arrays": [{"name": "police", "size": 4}],
        "register_arrays": [
            {"name": "reg", "size": 8, "bitwidth": 32},
            {"name": "sreg", "size": 2, "bitwidth": 16},
        ],
    }


def device_config() -> bytes:
    """The program as bytes."""
    return json.dumps(program()).encode()
