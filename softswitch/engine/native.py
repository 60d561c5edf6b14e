"""The C runtime, loaded once per process."""

from __future__ import annotations

import functools
import re
from pathlib import Path
from typing import Any, NoReturn

from cffi import FFI

from softswitch.engine.build import CSRC, build_shared
from softswitch.engine.types import (
    DriverError,
    DuplicateEntry,
    EngineError,
    ImmutableEntry,
    InUse,
    InvalidValue,
    NoSuchAction,
    NoSuchEntry,
    NoSuchGroup,
    NoSuchMember,
    NoSuchObject,
    NoSuchPort,
    OutOfRange,
    TableFull,
)

RUNTIME = ("sw.c", "table.c", "trie.c", "ternary.c", "state.c", "tm.c", "driver.c", "net.c")
NIL = 0xFFFFFFFF

KIND_ACTION, KIND_MEMBER, KIND_GROUP = range(3)
EV_PACKET_IN, EV_DIGEST, EV_PORT, EV_IDLE, EV_LOG = range(1, 6)

_ERRORS: dict[int, tuple[type[EngineError], str]] = {
    -1: (NoSuchObject, "no such object"),
    -2: (TableFull, "no room left"),
    -3: (DuplicateEntry, "exists already"),
    -4: (NoSuchEntry, "no such entry"),
    -5: (NoSuchAction, "the table does not take this kind of action"),
    -6: (OutOfRange, "index out of range"),
    -7: (ImmutableEntry, "cannot be changed"),
    -8: (InUse, "still in use"),
    -9: (NoSuchMember, "no such member"),
    -10: (NoSuchGroup, "no such group"),
    -11: (NoSuchPort, "no such port"),
    -12: (EngineError, "out of memory"),
    -13: (DriverError, "the driver is not running"),
    -14: (DriverError, "system call failed"),
    -15: (InvalidValue, "a frame must have 1 to 9264 bytes"),
}


def declarations() -> str:
    """api.h and net_api.h without their comments, as cffi wants them."""
    text = (CSRC / "api.h").read_text() + (CSRC / "net_api.h").read_text()
    return re.sub(r"/\*.*?\*/", "", text, flags=re.S)


@functools.cache
def runtime() -> tuple[Any, Any]:
    """(ffi, library); builds the runtime when it is not in the cache."""
    ffi = FFI()
    ffi.cdef(declarations())
    path = build_shared(
        [CSRC / f for f in RUNTIME],
        "runtime",
        include=[CSRC],
        flags=["-fvisibility=hidden"],
        libs=["-ldl", "-lpthread"],
    )
    return ffi, ffi.dlopen(str(path))


def build_pipeline(source: str, directory: Path | None = None) -> Path:
    """Shared object of a generated program."""
    return build_shared([source], "program", include=[CSRC], directory=directory)


def throw(code: int, what: str) -> NoReturn:
    """Raise the error that a negative result stands for."""
    kind, text = _ERRORS.get(code, (EngineError, f"error {code}"))
    raise kind(f"{what}: {text}")
