"""Names and widths of a bmv2 JSON, as far as the control plane compares them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from softswitch.p4rt.status import invalid


class JsonNames:
    """Names of a bmv2 JSON, read with care: the JSON came over the network."""

    def __init__(self, program: Mapping[str, Any]) -> None:
        self.tables: dict[str, Mapping[str, Any]] = {}
        self.profiles: set[str] = set()
        self.actions: dict[str, list[int]] = {}
        """Widths of the parameters in bits."""
        try:
            for pipeline in program.get("pipelines", []):
                for table in pipeline.get("tables", []):
                    self.tables[table["name"]] = table
                for profile in pipeline.get("action_profiles", []):
                    self.profiles.add(profile["name"])
            for action in program.get("actions", []):
                self.actions[action["name"]] = [
                    int(item.get("bitwidth", 0)) for item in action.get("runtime_data", [])
                ]
            self.counters = {item["name"]: item for item in program.get("counter_arrays", [])}
            self.meters = {item["name"]: item for item in program.get("meter_arrays", [])}
            self.registers = {item["name"]: item for item in program.get("register_arrays", [])}
            self.register_widths = {
                name: int(item.get("bitwidth", 0)) for name, item in self.registers.items()
            }
            self.learn_lists = {
                item["name"]: len(item["elements"]) for item in program.get("learn_lists", [])
            }
            types = {
                item["name"]: [(field[0], field[1]) for field in item.get("fields", [])]
                for item in program.get("header_types", [])
            }
            self._headers: dict[str, list[tuple[Any, Any]]] = {
                item["name"]: types.get(item.get("header_type"), [])
                for item in program.get("headers", [])
            }
        except (TypeError, LookupError, AttributeError, ValueError, OverflowError) as error:
            raise invalid(f"bmv2 JSON: malformed ({type(error).__name__}: {error})") from None

    def field_width(self, target: object) -> int:
        """Bits of a field that a key names as [header, field]; 0 when it is not found."""
        if not isinstance(target, list) or len(target) != 2:
            return 0
        for name, width in self._headers.get(str(target[0]), []):
            if name == target[1] and isinstance(width, int):
                return width
        return 0

    def header_widths(self, names: Sequence[str]) -> list[int] | None:
        """Bits of the fields of the header with exactly these fields, or None."""
        for fields in self._headers.values():
            widths = [width for _, width in fields if isinstance(width, int)]
            if [name for name, _ in fields] == list(names) and len(widths) == len(names):
                return widths
        return None
