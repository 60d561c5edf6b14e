"""Rules that need no types: names, annotations, where parameters and properties may stand."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from softswitch.p4 import ast
from softswitch.p4.diagnostics import Reporter, Span, Stop
from softswitch.p4.walk import walk

_NO_BODY = frozenset(("hidden", "tableonly", "defaultonly", "optional", "pure", "noSideEffects"))
_TEXT = frozenset(("name", "brief", "description", "deprecated", "noWarn", "controller_header"))
_SELECTOR = frozenset(("max_group_size", "selector_size_semantics", "max_member_weight"))
_PAIRS = frozenset(("pkginfo", "platform_property"))

_ALL = (_NO_BODY | _TEXT | _PAIRS | _SELECTOR) - {"noWarn", "noSideEffects"}


def check_rules(program: ast.Program, reporter: Reporter) -> None:
    """Report what breaks a rule that needs no types."""
    rules = _Rules(reporter)
    for decl in program.decls:
        if decl.span.file.system:
            continue
        for node in walk(decl):
            rules.node(node)


class _Rules:
    def __init__(self, reporter: Reporter) -> None:
        self.reporter = reporter
        self.table: dict[type, Callable[..., None]] = {
            ast.ExternDecl: self._extern,
            ast.FunctionDecl: self._function,
            ast.ParserDecl: self._block,
            ast.ControlDecl: self._block,
            ast.TableDecl: self._table,
            ast.Param: self._param,
            ast.InstanceDecl: self._instance,
            ast.Entry: self._entry,
        }

    def node(self, node: ast.Node) -> None:
        if isinstance(node, ast.Decl) and node.name == "_":
            self.reporter.error(node.span, "'_' is not a name")
        rule = self.table.get(type(node))
        if rule is not None:
            rule(node)
        notes = getattr(node, "annotations", None)
        if notes:
            self._annotations(notes)

    # ---- parameters

    def _param(self, param: ast.Param) -> None:
        if param.default is None:
            return
        if param.direction in ("out", "inout"):
            self.reporter.error(
                param.span, f"parameter '{param.name}': 'out' parameters have no default value"
            )
        if param.annotation("optional") is not None:
            self.reporter.error(
                param.span, f"parameter '{param.name}' is @optional and has a default value: "
                "one of the two"
            )  # fmt: skip

    def _no_optional(self, params: Iterable[ast.Param], where: str) -> None:
        for param in params:
            if param.annotation("optional") is not None:
                self.reporter.error(
                    param.span, f"parameter '{param.name}' of {where} cannot be @optional"
                )

    def _function(self, decl: ast.FunctionDecl) -> None:
        if not decl.is_extern and decl.body is not None:
            self._no_optional(decl.params, f"function '{decl.name}'")

    def _block(self, decl: ast.ParserDecl | ast.ControlDecl) -> None:
        self._no_optional(decl.ctor_params, f"the constructor of '{decl.name}'")
        for param in decl.ctor_params:
            if param.direction:
                self.reporter.error(
                    param.span,
                    f"constructor parameter '{param.name}' cannot have a direction"
                    f" ('{param.direction}')",
                )

    # ---- externs

    def _extern(self, decl: ast.ExternDecl) -> None:
        seen: list[ast.FunctionDecl] = []
        for method in decl.methods:
            if method.name == decl.name and method.returns is not None:
                self.reporter.error(
                    method.span, f"constructor '{method.name}' cannot have a return type"
                )
            shape = _shape(method)
            if any(_shape(other) == shape for other in seen):
                self.reporter.error(
                    method.span,
                    f"extern '{decl.name}' declares '{method.name}' twice with the same parameters",
                )
            seen.append(method)
            for param in method.params:
                if param.ref.name == decl.name and not param.ref.absolute:
                    self.reporter.error(
                        param.ref.span, f"extern '{decl.name}' cannot take itself as a parameter"
                    )

    def _instance(self, decl: ast.InstanceDecl) -> None:
        if decl.ref.name != "action_profile":
            return
        for note in decl.annotations:
            if note.name in _SELECTOR:
                self.reporter.warn(
                    note.span, f"@{note.name} means nothing without a selector", "ignore"
                )

    # ---- tables

    def _entry(self, entry: ast.Entry) -> None:
        for note in entry.annotations:
            if note.name == "priority":
                self.reporter.warn(
                    note.span, "@priority is ignored: write 'priority = n:' before the entry",
                    "deprecated",
                )  # fmt: skip

    def _table(self, table: ast.TableDecl) -> None:
        default = table.default_action
        if default is not None and table.actions and _before(default.span, table.actions[0].span):
            self.reporter.error(
                default.span,
                f"'default_action' of table '{table.name}' has to come after 'actions'",
            )
        for before, what in (
            (table.key[0].span if table.key else None, "key"),
            (table.actions[0].span if table.actions else None, "actions"),
        ):
            if table.entries and before is not None and _before(table.entries[0].span, before):
                self.reporter.error(
                    table.entries[0].span,
                    f"'entries' of table '{table.name}' have to come after '{what}'",
                )
        if table.entries and not table.key:
            self.reporter.error(
                table.entries[0].span, f"table '{table.name}' has entries but no key"
            )

    # ---- annotations

    def _annotations(self, notes: list[ast.Annotation]) -> None:
        bracketed: dict[str, bool] = {}
        for note in notes:
            structured = note.text.startswith(f"@{note.name}[")
            before = bracketed.get(note.name)
            if before is not None and (before or structured):
                self.reporter.error(
                    note.span, f"annotation @{note.name}[...] is given twice"
                )  # fmt: skip
            bracketed[note.name] = structured
            for value in (*note.args, *(v for _, v in note.pairs)) if structured else ():
                if isinstance(value, (ast.ListExpr, ast.StructExpr)):
                    self.reporter.error(
                        value.span, f"@{note.name}[...] takes numbers, strings and bools only"
                    )
            try:
                self._annotation(note)
            except Stop:
                continue

    def _annotation(self, note: ast.Annotation) -> None:
        name = note.name
        first = note.args[0] if len(note.args) == 1 else None
        if first is not None and isinstance(first, ast.Binary) and _is_text(first):
            first = note.args[0] = _joined(first)
        if name in _NO_BODY:
            if note.tokens:
                raise self.reporter.fail(note.span, f"@{name} takes no argument")
        elif name in _TEXT:
            if name == "name" and isinstance(first, ast.StringLit) and not first.text.strip("."):
                raise self.reporter.fail(note.span, "@name needs a name")
            if not _is_text(first):
                raise self.reporter.fail(note.span, f'@{name} needs one text: @{name}("...")')
        elif name in _PAIRS:
            if not note.pairs:
                raise self.reporter.fail(
                    note.span, f'@{name} needs keys and values: @{name}[key = "value"]'
                )
        elif name == "id":
            if len(note.args) != 1 or isinstance(first, ast.StringLit):
                raise self.reporter.fail(note.span, "@id needs one number: @id(1)")
        elif name == "field_list":
            for arg in note.args:
                if isinstance(arg, ast.IntLit) and not 0 <= arg.number <= 255:
                    raise self.reporter.fail(arg.span, "@field_list takes numbers from 0 to 255")
        elif name == "match":
            if not isinstance(first, ast.Name):
                raise self.reporter.fail(note.span, "@match needs a match kind: @match(ternary)")
        elif name == "p4runtime_translation":
            self._translation(note)
        elif name not in _ALL and name.lower() in _ALL:
            self.reporter.warn(
                note.span, f"@{name} has no meaning; did you mean @{name.lower()}?", "ignore"
            )

    def _translation(self, note: ast.Annotation) -> None:
        words = note.tokens
        problem = len(words) < 3 or not words[0].startswith('"') or words[1] != ","
        kind = words[2:]
        plain = len(kind) == 1 and (kind[0].isdigit() or kind[0] == "string")
        sized = len(kind) == 4 and kind[0] == "bit" and kind[1] == "<" and kind[2].isdigit()
        if problem or not (plain or sized):
            raise self.reporter.fail(
                note.span,
                '@p4runtime_translation needs a URI and a type: ("uri", bit<32>), ("uri", 32) or '
                '("uri", string)',
            )


def _is_text(e: ast.Expr | None) -> bool:
    """A string, or strings put together by ++."""
    while isinstance(e, ast.Binary) and e.op == "++":
        if not _is_text(e.right):
            return False
        e = e.left
    return isinstance(e, ast.StringLit)


def _joined(e: ast.Expr) -> ast.StringLit:
    """The string that strings put together by ++ make."""
    texts: list[str] = []
    work = [e]
    while work:
        part = work.pop()
        if isinstance(part, ast.Binary):
            work += [part.left, part.right]
        else:
            assert isinstance(part, ast.StringLit)
            texts.append(part.text)
    return ast.StringLit(e.span, "".join(reversed(texts)))


def _before(a: Span, b: Span) -> bool:
    return a.file is b.file and (a.line, a.column) < (b.line, b.column)


def _shape(method: ast.FunctionDecl) -> tuple[object, ...]:
    """What overload resolution tells methods apart by: number and names of parameters."""
    return (method.name, tuple(p.name for p in method.params))
