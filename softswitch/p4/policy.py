"""Which warnings are shown, and which refuse the program: -W on the command line."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from softswitch.p4.diagnostics import WARNINGS, Diagnostic, P4Error, did_you_mean

HELP = "no-KIND: not these warnings; error, error=KIND: warnings (of a kind) refuse the program."


@dataclass(frozen=True)
class WarningPolicy:
    """What -W options ask for. Nothing given: all warnings are shown, none is an error."""

    hidden: frozenset[str] = frozenset()
    fatal: frozenset[str] = frozenset()

    @classmethod
    def parse(
        cls, options: Sequence[str], *, werror: bool = False, silent: bool = False
    ) -> WarningPolicy:
        """Read `no-unused`, `error`, `error=unused`, `no-error=unused`; later ones win.

        Raises ValueError with one line about an option or a kind there is none of.
        """
        every = frozenset(WARNINGS)
        hidden = every if silent else frozenset()
        fatal = every if werror else frozenset()
        for option in options:
            word, _, kind = option.partition("=")
            if word == "error" and not _ and not kind:
                fatal = every
            elif word == "error":
                fatal |= {_known(kind)}
                hidden -= {kind}
            elif word == "no-error":
                fatal = fatal - {_known(kind)} if kind else frozenset()
            elif word.startswith("no-") and not kind:
                hidden |= {_known(word[3:])}
            else:
                hidden -= {_known(option)}
        return cls(hidden, fatal)

    def apply(self, warnings: Iterable[Diagnostic]) -> list[Diagnostic]:
        """The warnings to show.

        Raises P4Error, holding all of them, when one counts as an error.
        """
        shown = [w for w in warnings if w.kind not in self.hidden]
        fatal = [replace(w, severity="error") for w in shown if w.kind in self.fatal]
        if fatal:
            raise P4Error([*fatal, *(w for w in shown if w.kind not in self.fatal)])
        return shown


def _known(kind: str) -> str:
    if kind not in WARNINGS:
        hint = did_you_mean(kind, WARNINGS) or f"; they are {', '.join(WARNINGS)}"
        raise ValueError(f"-W: no kind of warning is called '{kind}'{hint}")
    return kind
