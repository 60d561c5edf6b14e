"""What is recorded of a run: one JSON object per line, sorted by time.

Every event has `t` (nanoseconds of CLOCK_MONOTONIC, the same clock for all sources on the
machine), `src` (a host, a switch, or "drill") and `type`; the rest depends on the type and
is listed in docs/drills.md. `events.jsonl` of a run is enough to judge it again.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from heapq import merge as heap_merge
from pathlib import Path
from typing import Any

from mrclab.errors import UserError

DRILL = "drill"
"""`src` of what the runner itself records."""

SAMPLE_TYPES = frozenset({"sample", "ports", "cpu"})
"""Periodic readings; everything else happened once."""

MAX_LINE = 1 << 22


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that happened. `data` holds the fields beyond t, src and type."""

    t: int
    src: str
    type: str
    data: Mapping[str, Any] = field(default_factory=dict)

    def __getitem__(self, key: str) -> Any:
        return self.data[key]

    def get(self, key: str, default: Any = None) -> Any:
        """The field `key`, or `default` when the source did not give it."""
        return self.data.get(key, default)

    def to_json(self) -> str:
        """The event as one line, keys in the order t, src, type, then as given."""
        record = {"t": self.t, "src": self.src, "type": self.type, **self.data}
        return json.dumps(record, separators=(",", ":"))


def parse_line(line: str, place: str) -> Event:
    """One line of an event file. Raises UserError that names `place` when it is not one."""
    try:
        record = json.loads(line)
    except ValueError as error:
        raise UserError(f"{place}: not a JSON event ({error})") from None
    if not isinstance(record, dict):
        raise UserError(f"{place}: an event must be a JSON object")
    time, src, kind = record.pop("t", None), record.pop("src", None), record.pop("type", None)
    if not isinstance(time, int) or isinstance(time, bool):
        raise UserError(f"{place}: the event's 't' must be whole nanoseconds, found {time!r}")
    if not isinstance(src, str) or not isinstance(kind, str):
        raise UserError(f"{place}: an event needs the texts 'src' and 'type'")
    return Event(time, src, kind, record)


def read_events(path: Path) -> list[Event]:
    """All events of a file. A last line without its newline (the writer was killed) is left
    out; any other line that is not an event is an error with its number."""
    return list(iter_events(path))


def iter_events(path: Path) -> Iterator[Event]:
    """As `read_events`, one at a time."""
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            for number, line in enumerate(file, 1):
                if not line.endswith("\n"):
                    return
                if len(line) > MAX_LINE:
                    raise UserError(f"{path.name}:{number}: line longer than {MAX_LINE} bytes")
                if line.strip():
                    yield parse_line(line, f"{path.name}:{number}")
    except OSError as error:
        raise UserError(f"cannot read '{path}': {error.strerror}") from None


class Tail:
    """Follows a growing event file: `read` gives the events written since the last call."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._offset = 0
        self._line = 0
        self._rest = b""

    def read(self) -> list[Event]:
        """New complete lines as events; none while the file does not exist yet."""
        try:
            with self.path.open("rb") as file:
                file.seek(self._offset)
                data = file.read()
        except FileNotFoundError:
            return []
        self._offset += len(data)
        lines = (self._rest + data).split(b"\n")
        self._rest = lines.pop()
        found: list[Event] = []
        for line in lines:
            self._line += 1
            if line.strip():
                text = line.decode("utf-8", "replace")
                found.append(parse_line(text, f"{self.path.name}:{self._line}"))
        return found


def merge(*streams: Iterable[Event]) -> list[Event]:
    """All streams in one list by time; events of equal time keep the order of the streams."""
    ordered = (sorted(stream, key=lambda event: event.t) for stream in streams)
    return list(heap_merge(*ordered, key=lambda event: event.t))


def write_atomic(path: Path, data: str | bytes) -> None:
    """Write a file whole or not at all: a reader never sees a half of it."""
    raw = data.encode() if isinstance(data, str) else data
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with part.open("wb") as file:
            file.write(raw)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def write_events(path: Path, events: Iterable[Event]) -> None:
    """Write events.jsonl atomically."""
    write_atomic(path, "".join(event.to_json() + "\n" for event in events))
