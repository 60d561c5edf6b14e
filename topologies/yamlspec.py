"""Load a YAML file into a pydantic model; every mistake is one line that names its place.

What the reader of an error sees::

    two-plane.yaml:12: link.rat: unknown key; did you mean 'rate'?
    two-plane.yaml:14: ecn.kmin: '6 pakets' has no known unit 'pakets'; did you mean 'packets'?

Shared by fabric specs and drills. The input is untrusted: size, nesting, alias expansion and
what is echoed back are bounded, and no tag can construct anything but plain data.

Use::

    class Link(SpecModel):            # unknown keys refused, frozen
        rate: Rate                    # quantities: see units.py
    spec = load_model(path, Spec)     # raises SpecError
    spec, doc = load_document(path, Spec)
    raise doc.error(("timeline", 0, "link"), f"no link {name!r}")   # later checks keep the line
"""

from __future__ import annotations

import difflib
import types
import typing
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, Union

from pydantic import BaseModel, ConfigDict, Strict, ValidationError
from pydantic_core import PydanticCustomError
from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

M = TypeVar("M", bound=BaseModel)

PathLike = tuple["str | int", ...]
"""Place in a document: keys and list indices from the top, for example ("timeline", 0, "link")."""

MAX_FILE_BYTES = 1 << 20
MAX_NODES = 50_000
MAX_DEPTH = 64
MAX_SHOWN = 48

Int = Annotated[int, Strict()]
"""A whole number: neither true/false nor a quoted string passes."""
Float = Annotated[float, Strict()]
"""A number; whole numbers pass, quoted strings do not."""
Bool = Annotated[bool, Strict()]
"""true or false only."""
Str = Annotated[str, Strict()]
"""A string only; an unquoted number is refused."""


class SpecModel(BaseModel):
    """Base of everything read from YAML: frozen, unknown keys refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class SpecError(Exception):
    """A file cannot be used as written. ``str()`` is one line: ``file:line: field: problem``.

    Attributes: ``file`` (as given), ``line`` (1-based; 0: the file as a whole), ``field``
    (dotted, may be empty), ``problem``, ``others`` (further mistakes found in the same pass).
    """

    def __init__(
        self,
        file: str,
        line: int,
        field: str,
        problem: str,
        others: Sequence[SpecError] = (),
    ) -> None:
        self.file = file
        self.line = line
        self.field = field
        self.problem = problem
        self.others = tuple(others)
        place = f"{file}:{line}" if line else file
        super().__init__(": ".join(part for part in (place, field, problem) if part))


class FieldError(PydanticCustomError):
    """For model validators: a problem at a field below the model being validated.

    ``raise FieldError(("ecn", "kmin"), "must be below kmax, which is 24 packets")``

    ``near``: another field that takes part; its line is shown when ``at`` is not written in
    the file (a default).
    """

    def __new__(
        cls, at: Sequence[str | int], problem: str, near: Sequence[str | int] = ()
    ) -> FieldError:
        # Braces in the text would be read as placeholders; pass it as the context instead.
        context = {"problem": problem, "at": at, "near": near}
        return super().__new__(cls, "field_error", "{problem}", context)

    def __init__(
        self, at: Sequence[str | int], problem: str, near: Sequence[str | int] = ()
    ) -> None:
        """Same arguments as ``__new__``: where, below the model, and what is wrong."""


def shown(value: object) -> str:
    """A value for an error message: printable, one line, at most MAX_SHOWN characters."""
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, (list, tuple)):
        return "a list"
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int) and value.bit_length() > 128:
        return "a huge number"
    text = repr(value)
    text = "".join(c if c.isprintable() else "?" for c in text)
    return text if len(text) <= MAX_SHOWN else text[: MAX_SHOWN - 4] + "..." + text[-1]


def nearest(name: object, candidates: Iterable[str]) -> str | None:
    """The candidate most like ``name``, or None when nothing is close (case is ignored)."""
    if not isinstance(name, str):
        return None
    by_folded = {c.casefold(): c for c in candidates}
    turned = ":".join(reversed(name.split(":")))  # a link written from its other end
    if turned.casefold() in by_folded:
        return by_folded[turned.casefold()]
    hits = difflib.get_close_matches(name[:100].casefold(), by_folded, n=1, cutoff=0.5)
    return by_folded[hits[0]] if hits else None


def suggest(name: object, candidates: Iterable[str]) -> str:
    """``did you mean 'x'?`` when something is close, else the list of what is valid."""
    names = list(dict.fromkeys(candidates))
    hit = nearest(name, names)
    if hit is not None:
        return f"did you mean {hit!r}?"
    if not names:
        return "none are allowed here"
    listed = ", ".join(sorted(names)[:12]) + (", ..." if len(names) > 12 else "")
    return f"use one of {listed}" if len(names) > 1 else f"use {listed}"


def dotted(path: Sequence[str | int]) -> str:
    """("timeline", 0, "link") -> ``timeline[0].link``."""
    out = ""
    for part in path:
        if isinstance(part, int):
            out += f"[{part}]"
        else:
            clean = "".join(c if c.isprintable() else "?" for c in part)[:MAX_SHOWN]
            out += f".{clean}" if out else clean
    return out


@dataclass
class Document:
    """A parsed YAML file: plain data and the line of every key and value."""

    file: str
    data: Any
    lines: dict[PathLike, int] = field(default_factory=dict)

    def line(self, path: Sequence[str | int]) -> int:
        """Line of a place, or of the nearest thing that encloses it."""
        at = tuple(path)
        while at and at not in self.lines:
            at = at[:-1]
        return self.lines.get(at, 1)

    def error(self, path: Sequence[str | int], problem: str) -> SpecError:
        """A SpecError at that place."""
        return SpecError(self.file, self.line(path), dotted(path), problem)


# --- YAML text -> Document ------------------------------------------------------------------


class _Builder:
    """Turns composed YAML nodes into plain data, with limits, recording lines."""

    def __init__(self, doc: Document, yaml: YAML) -> None:
        self.doc = doc
        self.yaml = yaml
        self.nodes = 0
        self.open: set[int] = set()

    def error(self, node: Node, path: PathLike, problem: str) -> SpecError:
        return SpecError(self.doc.file, node.start_mark.line + 1, dotted(path), problem)

    def build(self, node: Node, path: PathLike) -> Any:
        self.nodes += 1
        if self.nodes > MAX_NODES:
            raise self.error(
                node, path[:2], f"more than {MAX_NODES} values once aliases are expanded"
            )
        if len(path) > MAX_DEPTH:
            raise self.error(node, path[:2], f"nested deeper than {MAX_DEPTH} levels")
        if id(node) in self.open:
            raise self.error(node, path, "this alias contains itself; write the value out")
        if path not in self.doc.lines:
            self.doc.lines[path] = node.start_mark.line + 1
        if isinstance(node, ScalarNode):
            return self.scalar(node, path)
        self.open.add(id(node))
        try:
            if isinstance(node, SequenceNode):
                if node.tag != "tag:yaml.org,2002:seq":
                    raise self.error(
                        node, path, f"tag {shown(node.tag)} is not allowed; use plain values"
                    )
                return [self.build(item, (*path, i)) for i, item in enumerate(node.value)]
            if isinstance(node, MappingNode):
                return self.mapping(node, path)
        finally:
            self.open.discard(id(node))
        raise self.error(node, path, "not a value that can be used here")

    def mapping(self, node: MappingNode, path: PathLike) -> dict[str, Any]:
        if node.tag != "tag:yaml.org,2002:map":
            raise self.error(node, path, f"tag {shown(node.tag)} is not allowed; use plain values")
        out: dict[str, Any] = {}
        first: dict[str, int] = {}
        for key_node, value_node in node.value:
            if not isinstance(key_node, ScalarNode):
                raise self.error(key_node, path, "a key must be a single word")
            key = str(key_node.value)
            line = key_node.start_mark.line + 1
            if key == "<<":
                raise self.error(
                    key_node, path, "merge keys (<<) are not supported; write the keys out"
                )
            if key in out:
                raise self.error(
                    key_node, (*path, key), f"key given twice (first on line {first[key]})"
                )
            first[key] = line
            self.doc.lines[(*path, key)] = line
            out[key] = self.build(value_node, (*path, key))
        return out

    def scalar(self, node: ScalarNode, path: PathLike) -> Any:
        kind = str(node.tag)
        tag = kind.rpartition(":")[2] if kind.startswith("tag:yaml.org,2002:") else ""
        text = node.value
        if tag in ("str", "timestamp"):
            return text
        if tag == "null":
            return None
        if tag == "bool":
            return text.lower() == "true"
        if tag in ("int", "float"):
            if len(text) > 40:
                raise self.error(node, path, f"the number is too long ({len(text)} characters)")
            digits = text.replace("_", "")
            try:
                if tag == "float":
                    return float(digits.replace(".inf", "inf").replace(".nan", "nan"))
                bases = {"0x": 16, "0o": 8, "0b": 2}
                return int(digits, bases.get(digits.lstrip("+-")[:2].lower(), 10))
            except (ValueError, OverflowError):
                return text
        raise self.error(node, path, f"tag {shown(node.tag)} is not allowed; use plain values")


def parse_text(text: str, file: str) -> Document:
    """Parse YAML (one document) into plain dict/list/str/int/float/bool/None with lines.

    Raises SpecError for syntax errors, duplicate keys, aliases that contain themselves or
    expand beyond MAX_NODES values, tags, and an empty file.
    """
    yaml = YAML(typ="safe", pure=True)
    doc = Document(file, None)
    try:
        root = yaml.compose(text)
        if root is None:
            raise SpecError(file, 0, "", "the file is empty")
        doc.data = _Builder(doc, yaml).build(root, ())
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark is not None else 0
        what = " ".join(str(error.problem or error.context or "cannot be read").split())
        column = f" (column {mark.column + 1})" if mark is not None else ""
        raise SpecError(file, line, "", f"YAML syntax: {what[:120]}{column}") from None
    except YAMLError as error:
        what = " ".join(str(error).split())
        raise SpecError(file, 0, "", f"YAML syntax: {what[:120]}") from None
    except RecursionError:
        raise SpecError(file, 0, "", f"nested deeper than {MAX_DEPTH} levels") from None
    return doc


def read_text(path: Path) -> str:
    """The text of a spec file (UTF-8, at most MAX_FILE_BYTES); SpecError when it cannot be had."""
    name = str(path)
    try:
        if path.is_dir():
            raise SpecError(name, 0, "", "is a folder, not a YAML file")
        with path.open("rb") as file:
            raw = file.read(MAX_FILE_BYTES + 1)
    except FileNotFoundError:
        siblings = [p.name for p in path.parent.glob("*.y*ml")] if path.parent.is_dir() else []
        hint = nearest(path.name, siblings)
        raise SpecError(
            name, 0, "", "no such file" + (f"; did you mean {hint!r}?" if hint else "")
        ) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise SpecError(name, 0, "", f"cannot be read: {reason}") from None
    if len(raw) > MAX_FILE_BYTES:
        raise SpecError(name, 0, "", f"larger than {MAX_FILE_BYTES >> 20} MiB; not a spec file")
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise SpecError(name, line, "", "not UTF-8 text") from None


# --- Document -> model ----------------------------------------------------------------------


def load_model(path: Path | str, model: type[M]) -> M:
    """Read and validate a YAML file. Raises SpecError."""
    return load_document(path, model)[0]


def load_document(path: Path | str, model: type[M]) -> tuple[M, Document]:
    """As load_model, with the Document whose ``error()`` makes later checks name their line."""
    path = Path(path)
    doc = parse_text(read_text(path), str(path))
    return validate(doc, model), doc


def parse_model(text: str, model: type[M], file: str = "<text>") -> M:
    """Validate YAML given as text; ``file`` is the name used in errors. Raises SpecError."""
    return validate(parse_text(text, file), model)


def validate(doc: Document, model: type[M]) -> M:
    """Validate a parsed document with a pydantic model. Raises SpecError (the first by line)."""
    if not isinstance(doc.data, Mapping):
        keys = ", ".join(list(model.model_fields)[:4])
        raise SpecError(
            doc.file, doc.line(()), "", f"expected a mapping of keys ({keys}, ...) at the top"
        )
    try:
        return model.model_validate(doc.data)
    except ValidationError as error:
        # A missing key is often the shadow of a misspelt one: those come last.
        found = [_explain(doc, model, e) for e in error.errors(include_url=False)]
    found.sort(key=lambda e: (e.problem == _MISSING, e.line))
    first = found[0]
    raise SpecError(first.file, first.line, first.field, first.problem, found[1:])


def _explain(doc: Document, model: type[BaseModel], error: Mapping[str, Any]) -> SpecError:
    """One pydantic error as a SpecError with a place in the file."""
    ctx: Mapping[str, Any] = error.get("ctx", {})
    path, owner = _locate(doc.data, model, error["loc"])
    problem = _PROBLEMS.get(error["type"], _other)(error, ctx, owner, path)
    if error["type"] != "field_error":
        return doc.error(path, problem)
    at, near = (*path, *ctx["at"]), (*path, *ctx["near"])
    line = doc.line(near if at not in doc.lines and near in doc.lines else at)
    return SpecError(doc.file, line, dotted(at), problem)


def _locate(data: Any, model: Any, loc: Sequence[str | int]) -> tuple[PathLike, Any]:
    """The place in the file that a pydantic ``loc`` means, and the type that owns its last key.

    pydantic puts the tag of the chosen union member into ``loc``; such parts are not in the
    file and only choose the type.
    """
    path: list[str | int] = []
    kind: Any = model
    owner: Any = model
    for i, part in enumerate(loc):
        last = i == len(loc) - 1
        kind = _strip(kind)
        inside = (isinstance(data, Mapping) and part in data) or (
            isinstance(data, list) and isinstance(part, int) and part < len(data)
        )
        if typing.get_origin(kind) in (Union, types.UnionType):
            kind = owner = _union_member(kind, part)
            continue
        if not inside and isinstance(part, str) and (not last or "[" in part):
            continue  # pydantic's name of a validator, not a key
        owner = kind
        path.append(part)
        data = data[part] if inside else None
        kind = _child(kind, part)
    return tuple(path), owner


def _strip(kind: Any) -> Any:
    """Remove Annotated and Optional."""
    while True:
        origin = typing.get_origin(kind)
        if origin is Annotated:
            kind = typing.get_args(kind)[0]
        elif origin in (Union, types.UnionType):
            rest = [a for a in typing.get_args(kind) if a is not type(None)]
            if len(rest) != 1:
                return kind
            kind = rest[0]
        else:
            return kind


def _union_member(kind: Any, tag: str | int) -> Any:
    """The member of a union that pydantic's tag names: by discriminator or class name."""
    for member in typing.get_args(kind):
        bare = _strip(member)
        if getattr(bare, "__name__", None) == tag:
            return bare
        for info in getattr(bare, "model_fields", {}).values():
            if typing.get_origin(info.annotation) is Literal and tag in typing.get_args(
                info.annotation
            ):
                return bare
    return Any


def _child(kind: Any, part: str | int) -> Any:
    """The type of a field, list item or mapping value."""
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        for name, info in kind.model_fields.items():
            if part in (name, info.alias):
                return info.annotation
        return Any
    args = typing.get_args(kind)
    if isinstance(part, int):
        return args[0] if args else Any
    return args[1] if len(args) == 2 else Any


def field_names(model: Any) -> list[str]:
    """The keys a model accepts, as written in YAML."""
    fields = getattr(model, "model_fields", {})
    return [info.alias or name for name, info in fields.items()]


_MISSING = "required key is missing"


def _unknown_key(_error: Any, _ctx: Any, owner: Any, path: PathLike) -> str:
    return f"unknown key; {suggest(path[-1], field_names(owner))}"


def _missing(_error: Any, _ctx: Any, _owner: Any, _path: PathLike) -> str:
    return _MISSING


def _literal(error: Any, _ctx: Any, owner: Any, path: PathLike) -> str:
    allowed = _strip(_child(owner, path[-1])) if path else Any
    names = [str(a) for a in typing.get_args(allowed)]
    return f"{shown(error['input'])} is not known; {suggest(error['input'], names)}"


def _tag_unknown(_error: Any, ctx: Any, _owner: Any, _path: PathLike) -> str:
    names = [t.strip().strip("'") for t in str(ctx.get("expected_tags", "")).split(",")]
    key = str(ctx.get("discriminator", "")).strip("'")
    return f"{key} {shown(ctx.get('tag'))} is not known; {suggest(ctx.get('tag'), names)}"


def _tag_missing(_error: Any, ctx: Any, _owner: Any, _path: PathLike) -> str:
    return f"the key {str(ctx.get('discriminator', '')).strip(chr(39))!r} is missing"


def _own_text(_error: Any, ctx: Any, _owner: Any, _path: PathLike) -> str:
    return str(ctx.get("problem") or ctx.get("error") or "not valid")


def _expected(what: str) -> Any:
    def text(error: Any, _ctx: Any, _owner: Any, _path: PathLike) -> str:
        return f"expected {what}, found {shown(error['input'])}"

    return text


def _bound(words: str, key: str) -> Any:
    def text(error: Any, ctx: Any, _owner: Any, _path: PathLike) -> str:
        return f"must be {words} {ctx[key]}, found {shown(error['input'])}"

    return text


def _length(words: str, key: str) -> Any:
    def text(_error: Any, ctx: Any, _owner: Any, _path: PathLike) -> str:
        return f"must have {words} {ctx[key]} items, found {ctx.get('actual_length')}"

    return text


def _other(error: Any, _ctx: Any, _owner: Any, _path: PathLike) -> str:
    return " ".join(str(error["msg"]).split())[:200] + f", found {shown(error.get('input'))}"


_WHOLE = _expected("a whole number")
_MAPPING = _expected("a mapping")
_LIST = _expected("a list")
_PROBLEMS: dict[str, Any] = {
    "extra_forbidden": _unknown_key,
    "missing": _missing,
    "literal_error": _literal,
    "union_tag_invalid": _tag_unknown,
    "union_tag_not_found": _tag_missing,
    "field_error": _own_text,
    "value_error": _own_text,
    "int_type": _WHOLE,
    "int_parsing": _WHOLE,
    "int_from_float": _WHOLE,
    "float_type": _expected("a number"),
    "float_parsing": _expected("a number"),
    "finite_number": _expected("a finite number"),
    "bool_type": _expected("true or false"),
    "bool_parsing": _expected("true or false"),
    "string_type": _expected("a text (put it in quotes)"),
    "model_type": _MAPPING,
    "dict_type": _MAPPING,
    "list_type": _LIST,
    "tuple_type": _LIST,
    "greater_than_equal": _bound("at least", "ge"),
    "greater_than": _bound("more than", "gt"),
    "less_than_equal": _bound("at most", "le"),
    "less_than": _bound("less than", "lt"),
    "too_short": _length("at least", "min_length"),
    "too_long": _length("at most", "max_length"),
}


# --- catalogues -----------------------------------------------------------------------------


def find_file(name: str, catalog: Path, what: str) -> Path:
    """A YAML file by path, or by the name of an entry of ``catalog``. Raises SpecError.

    A name with a slash or a .yaml/.yml ending is a path; anything else is looked up as
    ``catalog/<name>.yaml``. ``what`` names the kind of thing in the error ("fabric", "drill").
    """
    if "/" in name or name.endswith((".yaml", ".yml")):
        return Path(name)
    known = {p.stem: p for p in sorted(catalog.glob("*.yaml"))}
    if name in known:
        return known[name]
    raise SpecError(
        "".join(c if c.isprintable() else "?" for c in name)[:MAX_SHOWN] or "''",
        0,
        "",
        f"no such {what}; {suggest(name, known)} (or give the path of a .yaml file)",
    )
