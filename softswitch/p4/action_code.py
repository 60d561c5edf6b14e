"""Structured action bodies -> bmv2 primitives with _jump and _jump_if_zero."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from softswitch.p4 import types as t
from softswitch.p4.diagnostics import Reporter, Span
from softswitch.p4.lower import values as v
from softswitch.p4.lower.model import Action, Block, Exit, If, Leave, Loop, Primitive, Statement

Json = dict[str, Any]
_MAX_PRIMITIVES = 65_536


@dataclass
class _Label:
    position: int = -1


@dataclass
class _Code:
    items: list[tuple[Json, _Label | None]] = field(default_factory=list)
    ends: dict[Block, _Label] = field(default_factory=dict)


def primitives(action: Action, reporter: Reporter, source_info: Any) -> list[Json]:
    """The flat list of primitives; source_info turns a span into its JSON (or None)."""
    code = _Code()
    writer = _Writer(code, reporter, source_info)
    writer.sequence(action.body)
    result: list[Json] = []
    for item, label in code.items:
        if label is not None:
            item["parameters"].append({"type": "hexstr", "value": v.hexstr(label.position)})
        result.append(item)
    return result


class _Writer:
    def __init__(self, code: _Code, reporter: Reporter, source_info: Any) -> None:
        self.code = code
        self.reporter = reporter
        self.source_info = source_info

    def _append(self, item: Json, label: _Label | None = None) -> None:
        self.code.items.append((item, label))
        if len(self.code.items) > _MAX_PRIMITIVES:
            raise OverflowError("an action has too many primitives")

    def _here(self, label: _Label) -> None:
        label.position = len(self.code.items)

    def _jump(self, op: str, parameters: list[Json], label: _Label, span: Span | None) -> None:
        item: Json = {"op": op, "parameters": parameters}
        if span is not None:
            item["source_info"] = self.source_info(span)
        self._append(item, label)

    def sequence(self, body: list[Statement]) -> bool:
        """Write the statements; False when control never comes out at the end."""
        return all(self._one(s) for s in body)

    def _one(self, s: Statement) -> bool:
        if isinstance(s, Primitive):
            self._append(
                {
                    "op": s.op,
                    "parameters": list(s.parameters),
                    "source_info": self.source_info(s.span),
                }
            )
        elif isinstance(s, Exit):
            self._append({"op": "exit", "parameters": [], "source_info": self.source_info(s.span)})
        elif isinstance(s, Leave):
            self._jump("_jump", [], self.code.ends[s.block], None)
            return False
        elif isinstance(s, Block):
            return self._block(s)
        elif isinstance(s, Loop):
            return self._loop(s)
        elif isinstance(s, If):
            return self._if(s)
        else:
            raise self.reporter.fail(s.span, "this statement cannot be used in an action")
        return True

    def _block(self, block: Block) -> bool:
        end = _Label()
        self.code.ends[block] = end
        before = len(self.code.items)
        self.sequence(block.body)
        # A `return` at the very end needs no jump.
        while len(self.code.items) > before and self.code.items[-1][1] is end:
            item = self.code.items[-1][0]
            if item["op"] != "_jump" or self._targeted(len(self.code.items)):
                break
            self.code.items.pop()
        self._here(end)
        return True

    def _loop(self, s: Loop) -> bool:
        """A loop jumps back; only what its body leaves for ends it when the test always holds."""
        start, end = _Label(len(self.code.items)), _Label()
        self.sequence(s.test)
        if not isinstance(s.cond, v.Const):
            self._jump("_jump_if_zero", [v.parameter(s.cond, v.DATA)], end, s.span)
        self.sequence(s.body)
        self._jump("_jump", [], start, None)
        self._here(end)
        return True

    def _targeted(self, position: int) -> bool:
        """Does an already placed label point past the last primitive?"""
        return any(label is not None and label.position == position for _, label in self.code.items)

    def _if(self, s: If) -> bool:
        cond, yes, no = s.cond, s.yes, s.no
        if not yes:
            cond, yes, no = v.unary("!", cond, t.BOOL), no, []
        other = _Label()
        test = [v.parameter(cond, v.DATA)]
        self._jump("_jump_if_zero", test, other, s.span)
        comes_out = self.sequence(yes)
        if not no:
            self._here(other)
            return True
        end = _Label()
        if comes_out:
            self._jump("_jump", [], end, None)
        self._here(other)
        self.sequence(no)
        self._here(end)
        return True
