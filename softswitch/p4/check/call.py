"""Calls: methods, functions, actions, constructors; argument matching and type inference."""

from __future__ import annotations

from collections.abc import Iterable

from softswitch.p4 import ast
from softswitch.p4 import types as t
from softswitch.p4.check.base import MAX_STACK
from softswitch.p4.check.generic import GenericChecker
from softswitch.p4.check.nodes import done, typed
from softswitch.p4.diagnostics import Span, did_you_mean

_SIZE_METHODS = ("minSizeInBits", "minSizeInBytes", "maxSizeInBits", "maxSizeInBytes")


class CallChecker(GenericChecker):
    """`call` sets kind: builtin, apply, extern_method, extern_function, function, action, ctor."""

    def call(self, e: ast.Call, expected: t.Type | None = None) -> ast.Expr:
        func = e.func
        if isinstance(func, ast.TypeExpr):
            return self._constructor(e, func)
        if isinstance(func, ast.Member):
            return self._method(e, func, expected)
        if isinstance(func, ast.Name):
            if not func.absolute and isinstance(self.find(func.name), ast.ExternDecl):
                ref = ast.TypeRef(func.span, func.name)
                return self._constructor(e, ast.TypeExpr(func.span, ref))
            self.expr(func)
            if isinstance(func.decl, list):
                return self._function(e, func, func.decl, expected)
            if isinstance(func.decl, ast.ActionDecl):
                return self._action(e, func.decl)
            if isinstance(func.decl, ast.TableDecl):
                raise self.reporter.fail(e.span, f"a table is applied with '{func.name}.apply()'")
            raise self.reporter.fail(e.span, f"'{func.name}' cannot be called")
        raise self.reporter.fail(e.span, "this expression cannot be called")

    # ---- kinds of calls

    def _constructor(self, e: ast.Call, func: ast.TypeExpr) -> ast.Expr:
        if e.type_args and not func.ref.args:
            func.ref.args = e.type_args
        type_ = self.type_of(func.ref)
        e.kind = "ctor"
        type_, e.bound = self.construct(type_, e.args, e.span)
        e.target = type_
        return done(e, type_)

    def construct(
        self, type_: t.Type, args: list[ast.Argument], span: Span
    ) -> tuple[t.Type, list[tuple[ast.Param, ast.Expr | None]]]:
        """Check the constructor arguments of an instance; the type comes back specialised."""
        if isinstance(type_, t.TBlock):
            params = type_.decl.ctor_params
            return type_, self.bind(type_.decl.name, params, args, span, {})
        if isinstance(type_, t.TExtern):
            return self._construct_extern(type_, args, span)
        if isinstance(type_, t.TArch):
            if type_.decl.kind != "package":
                raise self.reporter.fail(
                    span,
                    f"'{type_}' is only the type of a {type_.decl.kind}; write one of your own",
                )
            binding: dict[t.Type, t.Type] = {}
            vars_ = type_.decl.type_vars
            if type_.args:
                binding.update(zip(vars_, type_.args, strict=True))
            bound = self.bind(type_.decl.name, type_.decl.params, args, span, binding, vars_)
            final = tuple(binding.get(v, t.UNKNOWN) for v in vars_)
            return t.TArch(type_.decl, final), bound
        raise self.reporter.fail(span, f"'{type_}' has no constructor")

    def _construct_extern(
        self, type_: t.TExtern, args: list[ast.Argument], span: Span
    ) -> tuple[t.Type, list[tuple[ast.Param, ast.Expr | None]]]:
        ctors = [m for m in type_.decl.methods if m.returns is None]
        if not ctors:
            raise self.reporter.fail(span, f"extern '{type_.decl.name}' cannot be instantiated")
        if any(m.abstract for m in type_.decl.methods) and not self.defining:
            raise self.reporter.fail(
                span, f"extern '{type_.decl.name}' has abstract methods: declare an instance with "
                "their bodies"
            )  # fmt: skip
        ctor = self._overload(type_.decl.name, ctors, args, span)
        binding: dict[t.Type, t.Type] = {}
        vars_ = type_.decl.type_vars
        for var, given in zip(vars_, type_.args, strict=False):
            if isinstance(given, (t.TExtern, t.TArch, t.TBlock)):
                raise self.reporter.fail(
                    span, f"'{given}' cannot be a type argument of '{type_.decl.name}'"
                )
            if not isinstance(given, t.TUnknown) or self.reporter.errors:
                binding[var] = given
        bound = self.bind(type_.decl.name, ctor.params, args, span, binding, vars_)
        missing = [str(v) for v in vars_ if v not in binding]
        if missing:
            raise self.reporter.fail(
                span,
                f"'{type_.decl.name}' needs type arguments: write {type_.decl.name}<"
                f"{', '.join(str(v) for v in vars_)}>(...)",
            )
        return t.TExtern(type_.decl, tuple(binding[v] for v in vars_)), bound

    def _method(self, e: ast.Call, func: ast.Member, expected: t.Type | None) -> ast.Expr:
        if isinstance(func.base, ast.TypeExpr):
            return self._static(e, func, func.base)
        func.base = self.expr(func.base)
        base = typed(func.base)
        if isinstance(base, t.TExtern):
            methods = [m for m in base.decl.methods if m.name == func.member and m.returns]
            if not methods:
                names = {m.name for m in base.decl.methods if m.returns}
                hint = did_you_mean(func.member, names)
                raise self.reporter.fail(
                    func.member_span,
                    f"extern '{base.decl.name}' has no method '{func.member}'{hint}",
                )
            method = self._overload(func.member, methods, e.args, e.span)
            binding = dict(zip(base.decl.type_vars, base.args, strict=False))
            e.kind = "extern_method"
            func.type = t.FUNCTION
            result = self._finish(e, method, binding, expected)
            if base.decl.name == "packet_in" and method.name == "extract":
                self._extract(e, e.type_values[0], len(method.params))
            elif base.decl.name == "packet_in" and method.name == "lookahead":
                self._lookahead(e, e.type_values[0])
            return result
        if func.member == "apply":
            return self._apply(e, func, base)
        if isinstance(base, t.TStruct) and base.kind != "struct":
            return self._header_method(e, func, base)
        if isinstance(base, t.TStack):
            return self._stack_method(e, func, base)
        if func.member in _SIZE_METHODS:
            return self._size_of(e, func, base)
        if isinstance(base, t.TUnknown):
            return done(e, t.UNKNOWN)
        raise self.reporter.fail(func.member_span, f"a value of type '{base}' has no methods")

    def _extract(self, e: ast.Call, type_: t.Type, params: int) -> None:
        if isinstance(type_, t.TUnknown) or e.args[0].expr is None:
            return
        if not t.is_header(type_):
            raise self.reporter.fail(e.span, f"extract needs a header, not '{type_}'")
        varies = _varbits(type_) > 0
        if varies and params == 1:
            raise self.reporter.fail(
                e.args[0].span,
                f"header '{type_}' has a varbit field: extract needs its length in bits too, "
                "extract(h, bits)",
            )
        if not varies and params == 2:
            raise self.reporter.fail(
                e.args[0].span, f"header '{type_}' has no varbit field: extract it without a length"
            )

    def _lookahead(self, e: ast.Call, type_: t.Type) -> None:
        if isinstance(type_, t.TUnknown):
            return
        if t.width_of(type_) is None or _varbits(type_) or isinstance(t.base(type_), t.TVarbit):
            raise self.reporter.fail(
                e.span, f"lookahead needs a type of fixed width, not '{type_}'"
            )

    def _static(self, e: ast.Call, func: ast.Member, base: ast.TypeExpr) -> ast.Expr:
        type_ = self.type_of(base.ref)
        if func.member == "apply" and isinstance(type_, t.TBlock):
            if type_.decl.ctor_params:
                raise self.reporter.fail(
                    e.span, f"'{type_}' has constructor parameters: instantiate it first"
                )
            return self._apply(e, func, type_)
        if func.member in _SIZE_METHODS:
            return self._size_of(e, func, type_)
        raise self.reporter.fail(e.span, f"type '{type_}' has no method '{func.member}'")

    def _apply(self, e: ast.Call, func: ast.Member, base: t.Type) -> ast.Expr:
        e.kind = "apply"
        e.target = base
        if isinstance(base, t.TTable):
            if self.context != "control":
                raise self.reporter.fail(e.span, f"a table cannot be applied in {_a(self.context)}")
            if e.args:
                raise self.reporter.fail(e.span, "apply() of a table takes no arguments")
            return done(e, t.TApplyResult(base.decl))
        if isinstance(base, t.TBlock):
            wanted = "control" if isinstance(base.decl, ast.ControlDecl) else "parser"
            if self.context != wanted:
                raise self.reporter.fail(
                    e.span, f"{wanted} '{base}' cannot be applied in {_a(self.context)}"
                )
            e.bound = self.bind(base.decl.name, base.decl.params, e.args, e.span, {})
            return done(e, t.VOID)
        if isinstance(base, t.TArch) and base.decl.kind == self.context:
            binding = dict(zip(base.decl.type_vars, base.args, strict=False))
            e.bound = self.bind(base.decl.name, base.decl.params, e.args, e.span, binding)
            return done(e, t.VOID)
        raise self.reporter.fail(e.span, f"a value of type '{base}' cannot be applied")

    def _header_method(self, e: ast.Call, func: ast.Member, base: t.TStruct) -> ast.Expr:
        e.kind = "builtin"
        e.target = func.member
        if func.member in _SIZE_METHODS:
            return self._size_of(e, func, base)
        if func.member == "isValid":
            self._no_args(e, func.member)
            return done(e, t.BOOL)
        if func.member in ("setValid", "setInvalid") and base.kind == "header":
            self._no_args(e, func.member)
            self.lvalue(func.base, f"{func.member}()")
            return done(e, t.VOID)
        names = ["isValid", "setValid", "setInvalid"]
        hint = did_you_mean(func.member, names)
        raise self.reporter.fail(
            func.member_span, f"a {base.kind} has no method '{func.member}'{hint}"
        )

    def _stack_method(self, e: ast.Call, func: ast.Member, base: t.TStack) -> ast.Expr:
        e.kind = "builtin"
        e.target = func.member
        if func.member in ("push_front", "pop_front"):
            if len(e.args) != 1 or e.args[0].expr is None:
                raise self.reporter.fail(e.span, f"{func.member}() takes one argument")
            count = self.constant_int(e.args[0].expr, "the number of headers")
            if not 0 <= count <= MAX_STACK:
                raise self.reporter.fail(
                    e.span, f"the number of headers, {count}, is not in 0..{MAX_STACK}"
                )
            self.lvalue(func.base, f"{func.member}()")
            return done(e, t.VOID)
        if func.member in _SIZE_METHODS:
            return self._size_of(e, func, base)
        hint = did_you_mean(func.member, ["push_front", "pop_front"])
        raise self.reporter.fail(
            func.member_span, f"a header stack has no method '{func.member}'{hint}"
        )

    def _size_of(self, e: ast.Call, func: ast.Member, base: t.Type) -> ast.Expr:
        self._no_args(e, func.member)
        e.kind = "builtin"
        e.target = func.member
        width = t.width_of(base)
        if width is None:
            raise self.reporter.fail(e.span, f"'{base}' has no size")
        if func.member.startswith("max"):
            width += _varbits(base)
        value = width if func.member.endswith("Bits") else (width + 7) // 8
        return done(e, t.INT, value)

    def _no_args(self, e: ast.Call, name: str) -> None:
        if e.args:
            raise self.reporter.fail(e.span, f"{name}() takes no arguments")

    def _function(
        self,
        e: ast.Call,
        func: ast.Name,
        overloads: list[ast.FunctionDecl],
        expected: t.Type | None,
    ) -> ast.Expr:
        function = self._overload(func.name, overloads, e.args, e.span)
        self.used.add(function)
        e.kind = "extern_function" if function.is_extern else "function"
        if function.is_extern and func.name == "verify" and self.context in ("control", "action"):
            raise self.reporter.fail(e.span, "'verify' can be called in a parser only")
        if function.return_type is None:
            raise self.reporter.fail(
                e.span, f"function '{func.name}' is called in its own declaration"
            )
        deprecated = function.annotation("deprecated")
        if deprecated is not None:
            text = "".join(a.text for a in deprecated.args if isinstance(a, ast.StringLit))
            self.reporter.warn(e.span, f"'{func.name}' is deprecated: {text}", "deprecated")
        result = self._finish(e, function, {}, expected)
        if not function.is_extern and function.type_params:
            made = self.specialise(function, e.type_values, e.span)
            e.target = made
            e.bound = [(p, x) for p, (_, x) in zip(made.params, e.bound, strict=True)]
        return result

    def _finish(
        self,
        e: ast.Call,
        function: ast.FunctionDecl,
        binding: dict[t.Type, t.Type],
        expected: t.Type | None,
    ) -> ast.Expr:
        e.target = function
        if e.type_args:
            if len(e.type_args) != len(function.type_vars):
                raise self.reporter.fail(
                    e.span,
                    f"'{function.name}' takes {len(function.type_vars)} type arguments, got "
                    f"{len(e.type_args)}",
                )
            for var, ref in zip(function.type_vars, e.type_args, strict=True):
                given = self.type_of(ref)
                if not isinstance(given, t.TUnknown):
                    binding[var] = given
        returns = function.return_type or t.VOID
        if (
            isinstance(returns, t.TVar)
            and returns not in binding
            and expected is not None
            and not isinstance(expected, (t.TUnknown, t.TInt))
        ):
            binding[returns] = expected
        e.bound = self.bind(
            function.name, function.params, e.args, e.span, binding, function.type_vars
        )
        for var in function.type_vars:
            if var not in binding:
                raise self.reporter.fail(
                    e.span, f"cannot infer type argument '{var}' of '{function.name}'"
                )
        if function.is_extern or e.kind == "extern_method":
            self._extern_arguments(e, function, binding)
        e.type_values = [binding[v] for v in function.type_vars]
        value = None
        if function.is_extern and function.name == "static_assert":
            value = self._static_assert(e)
        return done(e, t.substitute(returns, binding), value)

    def _extern_arguments(
        self, e: ast.Call, function: ast.FunctionDecl, binding: dict[t.Type, t.Type]
    ) -> None:
        """What a type parameter of an extern stands for has to be the type of a value."""
        for param, value in e.bound:
            if value is None or not isinstance(param.type, t.TVar):
                continue
            type_ = binding.get(param.type, typed(value))
            what = f"parameter '{param.name}' of '{function.name}'"
            number = _unsized(value)
            if isinstance(type_, t.TInt) or (isinstance(type_, t.TTuple) and number is not None):
                place = number if number is not None else value
                raise self.reporter.fail(
                    place.span, f"{what}: give the number a width, such as 32w{place.value or 0}"
                )
            if isinstance(type_, t.TRecord):
                raise self.reporter.fail(
                    value.span, f"{what}: no struct is known for this list: write (S){{...}}"
                )
            if isinstance(type_, _NO_VALUES) or (isinstance(type_, t.TString) and param.direction):
                raise self.reporter.fail(value.span, f"{what}: a '{type_}' cannot be passed here")

    def _static_assert(self, e: ast.Call) -> bool | None:
        args = {p.name: x for p, x in e.bound}
        check = args.get("check")
        if check is None or check.value is None:
            return None
        if not check.value:
            message = args.get("message")
            text = f": {message.value}" if message is not None else ""
            raise self.reporter.fail(e.span, f"static_assert failed{text}")
        return True

    def _action(self, e: ast.Call, action: ast.ActionDecl) -> ast.Expr:
        if self.context not in ("control", "action"):
            raise self.reporter.fail(e.span, f"an action cannot be called in {_a(self.context)}")
        if e.type_args:
            raise self.reporter.fail(e.span, f"action '{action.name}' takes no type arguments")
        e.kind = "action"
        e.target = action
        self.used.add(action)
        e.bound = self.bind(action.name, action.params, e.args, e.span, {})
        return done(e, t.VOID)

    # ---- arguments

    def _overload(
        self,
        name: str,
        candidates: list[ast.FunctionDecl],
        args: list[ast.Argument],
        span: Span,
    ) -> ast.FunctionDecl:
        given = {a.name for a in args if a.name}
        matching = [
            c
            for c in candidates
            if sum(1 for p in c.params if not _optional(p)) <= len(args) <= len(c.params)
            and given <= {p.name for p in c.params}
        ]
        if len(matching) > 1:
            places = ", ".join(
                f"{c.span.file.name}:{c.span.line}" for c in matching if not c.span.file.system
            )
            raise self.reporter.fail(
                span, f"the call of '{name}' fits more than one declaration ({places}); name the "
                "arguments"
            )  # fmt: skip
        if matching:
            return matching[0]
        if len(candidates) == 1:
            return candidates[0]
        counts = sorted({len(c.params) for c in candidates})
        raise self.reporter.fail(
            span, f"'{name}' takes {' or '.join(map(str, counts))} arguments, got {len(args)}"
        )

    def bind(
        self,
        name: str,
        params: list[ast.Param],
        args: list[ast.Argument],
        span: Span,
        binding: dict[t.Type, t.Type],
        type_vars: Iterable[t.Type] = (),
        optional_directionless: bool = False,
    ) -> list[tuple[ast.Param, ast.Expr | None]]:
        pairs = self._match(name, params, args, span, optional_directionless)
        vars_ = set(type_vars)
        checked: dict[ast.Param, ast.Expr | None] = {}
        later: list[tuple[ast.Param, ast.Expr]] = []
        for param, arg in pairs:
            ptype = param.type or t.UNKNOWN
            if arg is None or arg.expr is None:
                checked[param] = param.default if arg is None else None
                if arg is not None and param.direction != "out" and not _optional(param):
                    raise self.reporter.fail(
                        arg.span, f"parameter '{param.name}' needs a value, not '_'"
                    )
                continue
            hint = t.substitute(ptype, binding)
            value = self.expr(arg.expr, None if t.has_var(hint) else hint)
            if t.has_var(hint) and not self.infer(hint, typed(value), binding, vars_):
                later.append((param, value))
            checked[param] = value
        for param, value in later:
            self._infer_late(param, value, binding, vars_)
        result: list[tuple[ast.Param, ast.Expr | None]] = []
        for param, arg in pairs:
            value_or_none = checked[param]
            if value_or_none is not None and arg is not None:
                value_or_none = self._argument(name, param, value_or_none, binding)
            result.append((param, value_or_none))
        return result

    def _argument(
        self, name: str, param: ast.Param, value: ast.Expr, binding: dict[t.Type, t.Type]
    ) -> ast.Expr:
        target = t.substitute(param.type or t.UNKNOWN, binding)
        what = f"parameter '{param.name}' of '{name}'"
        if param.direction in ("out", "inout"):
            if not t.same(typed(value), target):
                raise self.reporter.fail(
                    value.span, f"{what}: expected '{target}', found '{value.type}'"
                )
            self.lvalue(value, what)
            return value
        if isinstance(target, (t.TExtern, t.TArch, t.TBlock)):
            self._check_object(what, target, value, binding)
            return value
        if t.has_var(target):
            return value
        return self.coerce(value, target, what)

    def _check_object(
        self, what: str, target: t.Type, value: ast.Expr, binding: dict[t.Type, t.Type]
    ) -> None:
        source = typed(value)
        if isinstance(target, t.TArch) and isinstance(source, t.TBlock):
            self._infer_block(target, source, dict(binding), set(target.decl.type_vars))
            return
        if isinstance(target, t.TExtern) and isinstance(source, t.TExtern):
            if source.decl is target.decl and (
                not target.args
                or all(t.same(a, b) for a, b in zip(source.args, target.args, strict=False))
            ):
                return
        elif t.same(source, target):
            return
        raise self.reporter.fail(value.span, f"{what}: expected '{target}', found '{source}'")

    def _match(
        self,
        name: str,
        params: list[ast.Param],
        args: list[ast.Argument],
        span: Span,
        optional_directionless: bool,
    ) -> list[tuple[ast.Param, ast.Argument | None]]:
        by_name = [a for a in args if a.name is not None]
        if by_name and len(by_name) != len(args):
            raise self.reporter.fail(span, "either all arguments are named or none is")
        found: dict[ast.Param, ast.Argument] = {}
        if by_name:
            table = {p.name: p for p in params}
            for arg in args:
                assert arg.name is not None
                param = table.get(arg.name)
                if param is None:
                    hint = did_you_mean(arg.name, table)
                    raise self.reporter.fail(
                        arg.span, f"'{name}' has no parameter '{arg.name}'{hint}"
                    )
                if param in found:
                    raise self.reporter.fail(arg.span, f"argument '{arg.name}' is given twice")
                found[param] = arg
        else:
            if len(args) > len(params):
                raise self.reporter.fail(
                    span, f"'{name}' takes {len(params)} arguments, got {len(args)}"
                )
            found = dict(zip(params, args, strict=False))
        missing = [
            p.name
            for p in params
            if p not in found
            and not _optional(p)
            and not (optional_directionless and p.direction == "")
        ]
        if missing:
            names = ", ".join(f"'{m}'" for m in missing)
            raise self.reporter.fail(
                span,
                f"'{name}' takes {len(params)} arguments, got {len(args)}: {names} missing",
            )
        return [(p, found.get(p)) for p in params]

    # ---- inference

    def infer(
        self, wanted: t.Type, given: t.Type, binding: dict[t.Type, t.Type], vars_: set[t.Type]
    ) -> bool:
        """Bind type parameters so that `wanted` becomes `given`; False when left for later."""
        if isinstance(wanted, t.TVar):
            if wanted not in vars_ or wanted in binding:
                return True
            if isinstance(given, t.TInt):
                return False
            if not isinstance(given, t.TUnknown):
                binding[wanted] = given
            return True
        if isinstance(wanted, t.TExtern) and isinstance(given, t.TExtern):
            for a, b in zip(wanted.args, given.args, strict=False):
                self.infer(a, b, binding, vars_)
        elif isinstance(wanted, t.TArch) and isinstance(given, t.TBlock):
            self._infer_block(wanted, given, binding, vars_)
        elif isinstance(wanted, t.TArch) and isinstance(given, t.TArch):
            if wanted.decl is given.decl:
                for a, b in zip(wanted.args, given.args, strict=False):
                    self.infer(a, b, binding, vars_)
        elif isinstance(wanted, t.TTuple) and isinstance(given, t.TTuple):
            for a, b in zip(wanted.items, given.items, strict=False):
                self.infer(a, b, binding, vars_)
        elif isinstance(wanted, t.TStruct) and isinstance(given, t.TStruct):
            for a, b in zip(wanted.args, given.args, strict=False):
                self.infer(a, b, binding, vars_)
        elif isinstance(wanted, (t.TStack, t.TList)) and isinstance(given, (t.TStack, t.TList)):
            self.infer(wanted.element, given.element, binding, vars_)
        return True

    def _infer_late(
        self,
        param: ast.Param,
        value: ast.Expr,
        binding: dict[t.Type, t.Type],
        vars_: set[t.Type],
    ) -> None:
        """An integer without width takes the width others gave, else stays `int`."""
        ptype = param.type or t.UNKNOWN
        if isinstance(ptype, t.TVar) and ptype in vars_ and ptype not in binding:
            binding[ptype] = t.INT

    def _infer_block(
        self,
        wanted: t.TArch,
        given: t.TBlock,
        binding: dict[t.Type, t.Type],
        vars_: set[t.Type],
    ) -> None:
        """Match a parser or control with the signature the architecture asks for."""
        decl = wanted.decl
        block = given.decl
        kind = "parser" if isinstance(block, ast.ParserDecl) else "control"
        if kind != decl.kind:
            raise self.reporter.fail(block.span, f"'{block.name}' is a {kind}, not a {decl.kind}")
        if len(block.params) != len(decl.params):
            raise self.reporter.fail(
                block.span,
                f"{kind} '{block.name}' has {len(block.params)} parameters, '{decl.name}' needs "
                f"{len(decl.params)}",
            )
        own = dict(zip(decl.type_vars, wanted.args, strict=False))
        for want, have in zip(decl.params, block.params, strict=True):
            wtype = t.substitute(t.substitute(want.type or t.UNKNOWN, own), binding)
            htype = have.type or t.UNKNOWN
            if want.direction != have.direction:
                raise self.reporter.fail(
                    have.span,
                    f"parameter '{have.name}' of '{block.name}' has to be "
                    f"'{want.direction or 'without direction'}' for '{decl.name}'",
                )
            if t.has_var(wtype):
                self.infer(wtype, htype, binding, vars_)
            elif not t.same(wtype, htype):
                raise self.reporter.fail(
                    have.span,
                    f"parameter '{have.name}' of '{block.name}' is a '{htype}', '{decl.name}' "
                    f"needs '{wtype}' here",
                )


_NO_VALUES = (
    t.TTable, t.TAction, t.TFunction, t.TApplyResult, t.TActionRun, t.TSet, t.TBlock, t.TArch,
    t.TExtern, t.TVoid,
)  # fmt: skip


def _unsized(e: ast.Expr) -> ast.Expr | None:
    """The first integer without a width in a list, or the integer itself."""
    if isinstance(e, ast.ListExpr):
        return next((found for i in e.items if (found := _unsized(i)) is not None), None)
    return e if isinstance(e.type, t.TInt) else None


def _optional(param: ast.Param) -> bool:
    return param.default is not None or param.annotation("optional") is not None


def _varbits(type_: t.Type) -> int:
    if isinstance(type_, t.TVarbit):
        return type_.width
    if isinstance(type_, t.TStruct):
        return sum(_varbits(f) for f in type_.fields.values())
    if isinstance(type_, t.TStack):
        return type_.size * _varbits(type_.element)
    return 0


def _a(context: str) -> str:
    return f"an {context}" if context[:1] in "aeiou" else f"a {context}"
