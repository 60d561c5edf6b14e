"""Match keys and action data: from Python values to the words that C compares.

Pure functions of the checked program; no state, no C.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from softswitch.engine.program import Action, KeyField, Table, fail, get, hexstr, items
from softswitch.engine.types import (
    ActionCall,
    Exact,
    InvalidValue,
    Lpm,
    MatchValue,
    NoSuchAction,
    Optional_,
    Range,
    Ternary,
    Valid,
)

M64 = (1 << 64) - 1


def split(value: int, words: int) -> list[int]:
    """Words of a value, least significant first."""
    return [value >> 64 * i & M64 for i in range(words)]


def join(words: Sequence[int]) -> int:
    return sum(int(w) << 64 * i for i, w in enumerate(words))


def _check(value: int, width: int, what: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0 or value >> width:
        raise InvalidValue(f"{what}: {value!r:.40} does not fit into {width} bits")
    return value


def normalise(t: Table, match: Sequence[MatchValue]) -> tuple[MatchValue, ...]:
    """The match with don't-care bits cleared; raises InvalidValue."""
    if len(match) != len(t.key):
        raise InvalidValue(
            f"table '{t.name}': {len(t.key)} match fields expected, got {len(match)}"
        )
    return tuple(_one(t, k, m) for k, m in zip(t.key, match, strict=True))


def _one(t: Table, k: KeyField, m: MatchValue) -> MatchValue:
    what, full = f"table '{t.name}', field '{k.name}'", (1 << k.width) - 1
    if isinstance(m, Valid) and k.width == 1:
        m = Exact(int(m.value))
    if k.match in ("exact", "valid"):
        if isinstance(m, Exact):
            return Exact(_check(m.value, k.width, what))
    elif k.match == "lpm":
        if isinstance(m, Lpm):
            if not 0 <= m.prefix_len <= k.width:
                raise InvalidValue(f"{what}: prefix length {m.prefix_len} is not 0..{k.width}")
            mask = full ^ (full >> m.prefix_len)
            return Lpm(_check(m.value, k.width, what) & mask, m.prefix_len)
    elif k.match in ("ternary", "optional"):
        if isinstance(m, Exact):
            return Ternary(_check(m.value, k.width, what), full)
        if isinstance(m, Optional_):
            if m.value is not None:
                _check(m.value, k.width, what)
            return m
        if isinstance(m, Ternary):
            mask = _check(m.mask, k.width, what)
            return Ternary(_check(m.value, k.width, what) & mask, mask)
        if isinstance(m, Lpm) and 0 <= m.prefix_len <= k.width:
            mask = full ^ (full >> m.prefix_len)
            return Ternary(_check(m.value, k.width, what) & mask, mask)
    elif k.match == "range" and isinstance(m, Range):
        lo, hi = _check(m.lo, k.width, what), _check(m.hi, k.width, what)
        if lo > hi:
            raise InvalidValue(f"{what}: empty range {lo}..{hi}")
        return m
    raise InvalidValue(f"{what}: a {k.match} match is expected, not {type(m).__name__}")


def identity(t: Table, match: Sequence[MatchValue], priority: int) -> tuple[Any, ...]:
    """What makes an entry the same as another one."""
    key = []
    for k, m in zip(t.key, match, strict=True):
        full = (1 << k.width) - 1
        if isinstance(m, Optional_):
            m = Ternary(m.value or 0, 0 if m.value is None else full)
        key.append(m)
    return (*key, priority if t.match == "ternary" else 0)


def key_words(t: Table, match: Sequence[MatchValue]) -> tuple[list[int], list[int], int]:
    """(key, mask, prefix length in bits of the whole key) of a normalised match."""
    key, mask = [0] * t.words, [0] * t.words
    plen = 0
    for k, m in zip(t.key, match, strict=True):
        full = (1 << k.width) - 1
        value, care = 0, full
        if isinstance(m, Exact):
            value = m.value
        elif isinstance(m, Lpm):
            value = m.value
            care = full ^ (full >> m.prefix_len)
            plen = 64 * k.word + m.prefix_len
        elif isinstance(m, Ternary):
            value, care = m.value, m.mask
        elif isinstance(m, Optional_):
            value, care = (0, 0) if m.value is None else (m.value, full)
        elif isinstance(m, Range):
            value, care = m.lo, m.hi
        words, cares = split(value << k.shift, k.words), split(care << k.shift, k.words)
        if t.match == "lpm":
            words, cares = words[::-1], cares[::-1]
        key[k.word : k.word + k.words] = words
        mask[k.word : k.word + k.words] = cares
    return key, mask, plen


def find_action(t: Table, call: ActionCall) -> Action:
    for a in t.actions:
        if a.name == call.name:
            return a
    raise NoSuchAction(f"table '{t.name}': no action '{call.name}'")


def data_words(a: Action, args: Sequence[int], size: int) -> list[int]:
    """Arguments of an action as `size` words."""
    if len(args) != len(a.params):
        raise InvalidValue(
            f"action '{a.name}': {len(a.params)} arguments expected, got {len(args)}"
        )
    out: list[int] = []
    for (name, width), value in zip(a.params, args, strict=True):
        _check(value, width, f"action '{a.name}', parameter '{name}'")
        out += split(value, max(1, (width + 63) // 64))
    return out + [0] * (size - len(out))


def const_entry(t: Table, e: Any) -> tuple[list[MatchValue], Action, list[int], int]:
    """(match, action, arguments, priority in bmv2's sense) of an entry in the JSON."""
    where = f"table '{t.name}': entries"
    match: list[MatchValue] = []
    for m in items(e, "match_key", where):
        kind = get(m, "match_type", str, where)
        if kind == "valid":
            match.append(Valid(bool(m.get("key"))))
        elif kind == "exact":
            match.append(Exact(hexstr(m.get("key"), where)))
        elif kind == "lpm":
            match.append(Lpm(hexstr(m.get("key"), where), get(m, "prefix_length", int, where)))
        elif kind in ("ternary", "optional"):
            match.append(Ternary(hexstr(m.get("key"), where), hexstr(m.get("mask"), where)))
        elif kind == "range":
            match.append(Range(hexstr(m.get("start"), where), hexstr(m.get("end"), where)))
        else:
            fail(f"{where}: unknown match type '{kind:.40}'")
    action = get(e, "action_entry", dict, where)
    a, args = action_data(t, action, where)
    priority = e.get("priority", 0)
    return match, a, args, priority if isinstance(priority, int) else 0


def action_data(t: Table, entry: Any, where: str) -> tuple[Action, list[int]]:
    """(action, arguments) of an `action_entry` or `default_entry`."""
    wanted = get(entry, "action_id", int, where)
    a = next((x for x in t.actions if x.id == wanted), None)
    if a is None:
        fail(f"{where}: action {wanted} is not one of the table's")
    raw = items(entry, "action_data", where)
    args = [hexstr(v, where) & (1 << w) - 1 for v, (_, w) in zip(raw, a.params, strict=False)]
    if len(args) != len(a.params):
        fail(f"{where}: action '{a.name}' takes {len(a.params)} arguments, not {len(raw)}")
    return a, args
