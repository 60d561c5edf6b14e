"""The type checker: names, types, constants; annotates the syntax tree in place."""

from softswitch.p4.check.program import check

__all__ = ["check"]
