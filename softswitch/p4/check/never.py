"""What can never match: entries and cases behind others that take all of theirs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from softswitch.p4 import ast
from softswitch.p4 import types as t
from softswitch.p4.check.nodes import typed
from softswitch.p4.diagnostics import Reporter, Span

_MAX_COMPARISONS = 200_000


@dataclass(frozen=True)
class Values:
    """The values one key element takes: those with `value & mask`, or `low..high`."""

    low: int
    high: int
    mask: int
    is_range: bool = False

    def covers(self, other: Values) -> bool:
        """Is every value of the other one of these?"""
        if self.is_range or other.is_range:
            if self.mask == 0 and not self.is_range:
                return True
            mine, theirs = self.interval(), other.interval()
            return bool(mine and theirs and mine[0] <= theirs[0] and theirs[1] <= mine[1])
        return self.mask & other.mask == self.mask and other.low & self.mask == self.low & self.mask

    def interval(self) -> tuple[int, int] | None:
        """First and last value, None where they are no interval."""
        if self.is_range:
            return self.low, self.high
        free = self.high ^ self.mask
        if free & (free + 1):
            return None
        return self.low & self.mask, (self.low & self.mask) | free


def element(e: ast.Expr, key: t.Type) -> Values | None:
    """The values of a checked key set element, None when they are not known."""
    kind = t.base(key)
    width = kind.width if isinstance(kind, t.TBits) else 1 if isinstance(kind, t.TBool) else 64
    full = (1 << width) - 1
    if isinstance(e, ast.DefaultExpr):
        return Values(0, full, 0)
    if isinstance(e, (ast.MaskExpr, ast.RangeExpr)):
        left, right = e.left.value, e.right.value
        if not isinstance(left, int) or not isinstance(right, int):
            return None
        if isinstance(e, ast.RangeExpr):
            return Values(left, right, full, True)
        return Values(left & full, full, right & full)
    value = e.value
    if isinstance(value, bool):
        value = int(value)
    if isinstance(value, int):
        signed = isinstance(kind, t.TBits) and kind.signed
        return Values(value if signed else value & full, full, full)
    return None


class Matches:
    """Key sets tried one after the other; says which are taken before by earlier ones."""

    def __init__(self) -> None:
        self.before: list[tuple[list[Values], Span]] = []
        self.exact: dict[tuple[int, ...], Span] = {}
        self.all_at: Span | None = None  # the first that takes everything
        self.comparisons = 0

    def hidden_by(
        self, keys: Sequence[ast.Expr], types: Sequence[t.Type], span: Span
    ) -> Span | None:
        """Enter one more key set; returns where the one is that takes all it matches."""
        if self.all_at is not None:
            return self.all_at
        if all(isinstance(k, ast.DefaultExpr) for k in keys):
            self.all_at = span
            return None
        parts: list[Values] = []
        for key, type_ in zip(keys, types, strict=False):
            part = element(key, type_)
            if part is None:
                return None
            parts.append(part)
        plain = all(p.mask == p.high and not p.is_range for p in parts)
        values = tuple(p.low for p in parts)
        found = self.exact.get(values) if plain else None
        if found is None:
            for earlier, where in self.before:
                self.comparisons += 1
                if self.comparisons > _MAX_COMPARISONS:
                    return None
                if all(a.covers(b) for a, b in zip(earlier, parts, strict=True)):
                    found = where
                    break
        if plain:
            self.exact.setdefault(values, span)
        else:
            self.before.append((parts, span))
        return found


def check_entries(table: ast.TableDecl, reporter: Reporter) -> None:
    """Entries that are there twice (an error when all keys are exact) or never match."""
    entries = table.entries or []
    elements = table.key or []
    types = [typed(e.expr) for e in elements]
    kinds = {e.match_kind for e in elements}
    _check_masks(entries, reporter)
    if any(e.priority is not None for e in entries) or not entries:
        return
    matches = Matches()
    ordered = bool(kinds & {"ternary", "range", "optional"})
    for entry in entries:
        if len(entry.keys) != len(elements):
            continue
        if ordered:
            where = matches.hidden_by(entry.keys, types, entry.span)
            if where is not None:
                reporter.warn(
                    entry.span,
                    f"this entry never matches: the one at line {where.line} takes its packets",
                    "keys",
                )
            continue
        key = tuple(element(k, kt) for k, kt in zip(entry.keys, types, strict=True))
        if None in key:
            continue
        values = tuple(x for part in key if part is not None for x in (part.low, part.mask))
        before = matches.exact.setdefault(values, entry.span)
        if before is not entry.span:
            reporter.error(entry.span, f"line {before.line} has an entry with the same key")


def _check_masks(entries: Sequence[ast.Entry], reporter: Reporter) -> None:
    for entry in entries:
        for key in entry.keys:
            if not isinstance(key, ast.MaskExpr):
                continue
            value, mask = key.left.value, key.right.value
            if isinstance(value, int) and isinstance(mask, int) and value & ~mask:
                reporter.warn(
                    key.span,
                    f"{value:#x} has bits outside its mask {mask:#x}; they are ignored",
                    "mismatch",
                )


def check_select(tr: ast.Transition, reporter: Reporter) -> None:
    """Cases of a select that earlier ones leave nothing for."""
    types = [typed(k) for k in tr.select or []]
    matches = Matches()
    for case in tr.cases:
        keys = case.keys
        if len(keys) == 1 and isinstance(keys[0], ast.DefaultExpr):
            keys = [keys[0]] * len(types)
        if len(keys) != len(types):
            continue
        where = matches.hidden_by(keys, types, case.span)
        if where is not None:
            reporter.warn(
                case.span,
                f"this case is never reached: the one at line {where.line} takes all of it",
                "unreachable",
            )


_FLIP = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "==", "!=": "!="}


def check_comparison(e: ast.Binary, reporter: Reporter) -> None:
    """Comparisons of a value with a constant at or past the end of its range."""
    op, value, other = e.op, e.right.value, e.left
    if isinstance(e.left.value, int) and not isinstance(e.left.value, bool):
        op, value, other = _FLIP.get(op, ""), e.left.value, e.right
    kind = t.base(typed(other))
    if op not in _FLIP or other.value is not None or not isinstance(kind, t.TBits):
        return
    if not isinstance(value, int) or isinstance(value, bool):
        return
    low = -(1 << (kind.width - 1)) if kind.signed else 0
    high = (1 << (kind.width - (1 if kind.signed else 0))) - 1
    rules: dict[str, Callable[[], bool | None]] = {
        "<": lambda: False if value <= low else True if value > high else None,
        ">=": lambda: True if value <= low else False if value > high else None,
        ">": lambda: False if value >= high else True if value < low else None,
        "<=": lambda: True if value >= high else False if value < low else None,
    }
    outcome = rules[op]() if op in rules else None
    if outcome is not None:
        reporter.warn(
            e.span,
            f"always {'true' if outcome else 'false'}: a '{kind}' is {low}..{high}",
            "always",
        )
