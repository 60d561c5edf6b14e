"""Structured statements of a control -> bmv2's graph of tables and conditionals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import PurePath

from softswitch.p4 import types as t
from softswitch.p4.diagnostics import Span
from softswitch.p4.lower import values as v
from softswitch.p4.lower.model import (
    Action,
    Apply,
    Block,
    CallAction,
    Exit,
    If,
    Leave,
    Model,
    Node,
    Pipeline,
    Primitive,
    Statement,
    Table,
    TableAction,
    Together,
)
from softswitch.p4.lower.storage import Storage

Target = str | None


class PipelineBuilder:
    """Builds from the end backwards: every statement knows what follows it."""

    def __init__(self, model: Model, storage: Storage, pipeline: Pipeline, names: set[str]) -> None:
        self.model = model
        self.storage = storage
        reporter = storage.reporter
        self.reporter = reporter
        self.pipeline = pipeline
        self.nodes: dict[str, Node] = {}
        self.after: dict[Block, Target] = {}
        self.shared: dict[tuple[int, Target], Target] = {}
        self.names = names  # of nodes, unique over all pipelines
        self.sites: dict[str, list[Node]] = {}  # by table: what follows each place it stands in
        self.places: dict[str, v.Field] = {}
        self.entries: dict[tuple[str, int], str] = {}

    def build(self, body: list[Statement]) -> None:
        """Fill the pipeline."""
        self.pipeline.init = self.sequence(body, None)
        for table, sites in self.sites.items():
            if len(sites) > 1:
                self._join(table, sites)
        self._check_cycles()
        order: list[Node] = []
        seen: set[str] = set()
        stack: list[Target] = [self.pipeline.init]
        while stack:
            name = stack.pop()
            if name is None or name in seen:
                continue
            seen.add(name)
            node = self.nodes[name]
            order.append(node)
            stack.extend(reversed(_successors(node)))
        self.pipeline.nodes = order

    def sequence(self, body: list[Statement], follow: Target) -> Target:
        """Name of the first node of `body`, which continues at `follow`."""
        body = _reachable(body)
        end = len(body)
        while end > 0:
            last = body[end - 1]
            if isinstance(last, Primitive):
                start = end
                while start > 0 and isinstance(body[start - 1], Primitive):
                    start -= 1
                follow = self._primitives(body[start:end], follow)
                end = start
                continue
            follow = self._one(last, follow)
            end -= 1
        return follow

    def _branch(self, body: list[Statement], follow: Target) -> Target:
        """Like sequence; a list that several labels share becomes nodes once."""
        key = (id(body), follow)
        if key not in self.shared:
            self.shared[key] = self.sequence(body, follow)
        return self.shared[key]

    def _one(self, s: Statement, follow: Target) -> Target:
        if isinstance(s, If):
            yes, no = self._branch(s.yes, follow), self._branch(s.no, follow)
            if yes == no:
                return yes
            return self._add(
                Node(self._fresh("node"), cond=s.cond, span=s.span, true_next=yes, false_next=no)
            )
        if isinstance(s, Block):
            self.after[s] = follow
            return self.sequence(s.body, follow)
        if isinstance(s, Leave):
            return self.after[s.block]
        if isinstance(s, Exit):
            return None
        if isinstance(s, Together):
            return self._primitives([s], follow)
        if isinstance(s, CallAction):
            return self._dummy(s.action, s.span, f"tbl_{s.action.name.rsplit('.', 1)[-1]}", follow)
        if isinstance(s, Apply):
            return self._apply(s, follow)
        raise self.reporter.fail(s.span, "this statement cannot be used in a control")

    def _primitives(self, body: Sequence[Statement], follow: Target) -> Target:
        span = body[0].span
        stem = "".join(c if c.isalnum() else "_" for c in PurePath(span.file.name).stem)
        flat = [x for s in body for x in (s.body if isinstance(s, Together) else [s])]
        action = Action(f"{stem}{span.line}", None, [], flat, span, hidden=True)
        action.id = len(self.model.actions)
        self.model.actions.append(action)
        return self._dummy(action, span, f"tbl_{action.name}", follow)

    def _dummy(self, action: Action, span: Span, name: str, follow: Target) -> Target:
        """A table without key whose constant default is the action."""
        table = Table(self._unique(name), None, span, hidden=True, has_key=False)
        table.actions = [TableAction(action, None)]
        table.default_action = action
        table.default_const = True
        return self._add(Node(table.name, table=table, span=span, next=follow))

    def _apply(self, s: Apply, follow: Target) -> Target:
        node = Node(s.table.name, table=s.table, span=s.span, next=follow)
        if s.hit is not None or s.miss is not None:
            node.hit = self._branch(s.hit or [], follow)
            node.miss = self._branch(s.miss or [], follow)
            node.by_hit = node.hit != node.miss
            if not node.by_hit:
                node.next = node.hit
        if s.cases is not None:
            for action, body in s.cases:
                node.by_action[action] = self._branch(body, follow)
            if s.default is not None:
                node.has_default_case = True
                node.default_case = self._branch(s.default, follow)
        old = self.nodes.get(node.name)
        if old is None:
            self.sites[node.name] = [node]
            return self._add(replace(node))
        sites = self.sites[node.name]
        for number, other in enumerate(sites):
            if _same_successors(other, node):
                return self._entry(old, number)
        sites.append(node)
        return self._entry(old, len(sites) - 1)

    # ---- tables applied in several places

    def _entry(self, node: Node, number: int) -> str:
        """What leads to a table from its place of that number: the first is where 0 stands."""
        if number == 0:
            return node.name
        if node.name not in self.places:
            assert node.span is not None
            self.places[node.name] = self.storage.temporary(t.bits(16), node.span, "place")
        place = self.places[node.name]
        span = self.sites[node.name][number].span
        assert span is not None
        known = (node.name, number)
        if known not in self.entries:
            value = v.Const(number, place.type)
            note = Primitive(span, "assign", [v.parameter(place), v.parameter(value)])
            self.entries[known] = self._primitives([note], node.name) or ""
        return self.entries[known]

    def _dispatch(self, name: str, targets: list[Target]) -> Target:
        """Go where the place that applied the table says."""
        place = self.places[name]
        found = targets[0]
        for number, target in enumerate(targets):
            if number == 0 or target == targets[0]:
                continue
            cond = v.binary("==", place, v.Const(number, place.type), t.BOOL)
            span = self.sites[name][number].span
            found = self._add(
                Node(self._fresh("node"), cond=cond, span=span, true_next=target, false_next=found)
            )
        return found

    def _join(self, name: str, sites: list[Node]) -> None:
        """One node for all places a table is applied in: what follows depends on the place."""
        node = self.nodes[name]
        by_hit = any(s.by_hit for s in sites)
        by_action = any(s.by_action or s.has_default_case for s in sites)
        assert node.table is not None
        if by_hit and by_action:
            assert node.span is not None
            raise self.reporter.fail(
                node.span,
                f"table '{name}' is applied in one place for hit or miss and in another for "
                "action_run; bmv2 cannot express that",
            )
        if by_hit:
            node.by_hit = True
            node.hit = self._dispatch(name, [s.hit if s.by_hit else s.next for s in sites])
            node.miss = self._dispatch(name, [s.miss if s.by_hit else s.next for s in sites])
            return
        node.next = self._dispatch(name, [s.next for s in sites])
        if by_action:
            node.has_default_case = False
            for item in node.table.actions:
                action = item.action.name
                targets = [
                    s.by_action.get(action, s.default_case if s.has_default_case else s.next)
                    for s in sites
                ]
                node.by_action[action] = self._dispatch(name, targets)

    def _check_cycles(self) -> None:
        """bmv2's pipelines run forward only."""
        done: set[str] = set()
        path: list[tuple[str, list[Target]]] = []
        on_path: set[str] = set()

        def enter(name: str) -> None:
            on_path.add(name)
            path.append((name, [x for x in _successors(self.nodes[name]) if x is not None]))

        if self.pipeline.init is None:
            return
        enter(self.pipeline.init)
        while path:
            name, left = path[-1]
            if not left:
                path.pop()
                on_path.discard(name)
                done.add(name)
                continue
            following = left.pop()
            if following is None or following in done:
                continue
            if following not in on_path:
                enter(following)
                continue
            table = next(n for n, _ in reversed(path) if n in self.sites)
            span = self.sites[table][0].span
            assert span is not None
            raise self.reporter.fail(
                span,
                f"table '{table}' is applied twice for the same packet; bmv2's pipelines run "
                "forward only and apply a table once",
            )

    def _add(self, node: Node) -> str:
        self.nodes[node.name] = node
        self.names.add(node.name)
        return node.name

    def _fresh(self, prefix: str) -> str:
        n = len(self.names)
        while f"{prefix}_{n}" in self.names:
            n += 1
        return f"{prefix}_{n}"

    def _unique(self, name: str) -> str:
        found, n = name, 0
        while found in self.names:
            found, n = f"{name}_{n}", n + 1
        return found


def _reachable(body: list[Statement]) -> list[Statement]:
    """The statements up to the first one that never continues."""
    for n, s in enumerate(body):
        if isinstance(s, (Leave, Exit)):
            return body[: n + 1]
    return body


def _successors(node: Node) -> list[Target]:
    if node.cond is not None:
        return [node.true_next, node.false_next]
    found: list[Target] = []
    if node.by_hit:
        return [node.hit, node.miss]
    found.extend(node.by_action.values())
    if node.has_default_case:
        found.append(node.default_case)
    return [*found, node.next]


def _same_successors(a: Node, b: Node) -> bool:
    return (a.next, a.by_hit, a.hit, a.miss, a.by_action, a.has_default_case, a.default_case) == (
        b.next, b.by_hit, b.hit, b.miss, b.by_action, b.has_default_case, b.default_case
    )  # fmt: skip
