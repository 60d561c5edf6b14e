"""Canonical status codes and the error messages P4Runtime wraps them in.

A Write (or Read) whose batch partly failed ends with status UNKNOWN and one
`p4.v1.Error` per update, in order, inside a `google.rpc.Status` in the
`grpc-status-details-bin` trailer (P4Runtime spec, "Error Reporting Messages").
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum

from softswitch.p4rt import wire


class Code(IntEnum):
    """google.rpc.Code, the same numbers as grpc.StatusCode."""

    OK = 0
    CANCELLED = 1
    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    NOT_FOUND = 5
    ALREADY_EXISTS = 6
    PERMISSION_DENIED = 7
    RESOURCE_EXHAUSTED = 8
    FAILED_PRECONDITION = 9
    ABORTED = 10
    OUT_OF_RANGE = 11
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14
    DATA_LOSS = 15
    UNAUTHENTICATED = 16


class P4RTError(Exception):
    """A request (or one update of it) is refused with a canonical code and one line."""

    def __init__(self, code: Code, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class BatchError(Exception):
    """Some elements of a batch failed; `errors` has one item per element, None for OK."""

    def __init__(self, what: str, errors: Sequence[P4RTError | None]) -> None:
        failed = [(index, error) for index, error in enumerate(errors) if error is not None]
        index, first = failed[0]
        super().__init__(
            f"{what}: {len(failed)} of {len(errors)} failed; "
            f"first at index {index}: {first.code.name}: {first.message[:200]}"
        )
        self.errors = list(errors)


def invalid(message: str) -> P4RTError:
    """INVALID_ARGUMENT."""
    return P4RTError(Code.INVALID_ARGUMENT, message)


def not_found(message: str) -> P4RTError:
    """NOT_FOUND."""
    return P4RTError(Code.NOT_FOUND, message)


def unimplemented(message: str) -> P4RTError:
    """UNIMPLEMENTED."""
    return P4RTError(Code.UNIMPLEMENTED, message)


SPACE = "softswitch"
"""Error space of our messages; its codes are the canonical ones."""
_TYPE_URL = b"type.googleapis.com/p4.v1.Error"
_SHORT_URL = b"/p4.v1.Error"
"""As valid for Any: everything before the last slash may be left out."""

METADATA_LIMIT = 8192
"""Bytes of trailing metadata that gRPC clients accept unless told otherwise."""
_OTHER = 220
"""Bytes of the other trailers, and of names and overhead of ours (32 per entry)."""
_MAX_MESSAGE = 400


def _any(url: bytes, body: bytes) -> bytes:
    value = wire.field_bytes(2, body) if body else b""
    return wire.field_bytes(3, wire.field_bytes(1, url) + value)


def _error(error: P4RTError | None, with_message: bool) -> bytes:
    """Body of p4.v1.Error; empty for OK."""
    if error is None:
        return b""
    body = wire.field_varint(1, error.code)
    if with_message:
        body += wire.field_bytes(2, error.message.encode())
        body += wire.field_bytes(3, SPACE.encode()) + wire.field_varint(4, error.code)
    return body


def batch_text(batch: BatchError) -> str:
    """The status message: what failed first, and in short the codes of all that failed."""
    runs: list[tuple[int, int, Code]] = []
    for index, error in enumerate(batch.errors):
        if error is None:
            continue
        if runs and runs[-1][1] == index - 1 and runs[-1][2] == error.code:
            runs[-1] = (runs[-1][0], index, error.code)
        else:
            runs.append((index, index, error.code))
    text = str(batch)
    if len(runs) == 1 and runs[0][0] == runs[0][1]:
        return text
    parts = []
    size = len(text)
    for first, last, code in runs:
        part = f"{first if first == last else f'{first}-{last}'} {code.name}"
        size += len(part) + 2
        if size > _MAX_MESSAGE:
            parts.append("...")
            break
        parts.append(part)
    return f"{text}; all: {', '.join(parts)}"


def status_details(batch: BatchError, text: str, limit: int = METADATA_LIMIT) -> bytes:
    """The serialised google.rpc.Status for a failed batch, one p4.v1.Error per update.

    A client refuses trailers past its limit and then knows nothing, so this stays below
    `limit` (base64 included, which adds a third): messages go first, from the last update on,
    then the long form of the type URL, and in batches of more than some 250 updates the last
    updates' errors, for which `text` gives codes by index.
    """
    head = wire.field_varint(1, Code.UNKNOWN) + wire.field_bytes(2, text.encode())
    room = (limit - _OTHER - len(text.encode())) * 3 // 4 - len(head)
    bare = [_error(error, False) for error in batch.errors]
    url = _TYPE_URL
    plain = [_any(url, body) for body in bare]
    if sum(map(len, plain)) > room:
        url = _SHORT_URL
        plain = [_any(url, body) for body in bare]
    spare = max(room - sum(map(len, plain)), room // 8)
    out: list[bytes] = []
    size = 0
    for error, detail in zip(batch.errors, plain, strict=True):
        if error is not None and spare > 0:
            full = _any(url, _error(error, True))
            if len(full) - len(detail) <= spare:
                spare -= len(full) - len(detail)
                detail = full
        size += len(detail)
        if size > room:
            break
        out.append(detail)
    return head + b"".join(out)
