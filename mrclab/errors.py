"""The one kind of error that a user is meant to read."""

from __future__ import annotations

EXIT_PASS = 0
EXIT_FAIL = 1
EXIT_USAGE = 2
EXIT_VOID = 3


class UserError(Exception):
    """Something the user can mend: one clear line, exit status 2, never a traceback."""


class LabVoid(UserError):
    """The lab stands but does not do what it should (self-test): exit status 3.

    Not the user's mistake and no verdict on the fabric: a machine that is too slow, mostly.
    """
