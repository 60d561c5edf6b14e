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


_SPACE = b"softswitch"
_TYPE_URL = b"type.googleapis.com/p4.v1.Error"
_OK_DETAIL = wire.field_bytes(3, wire.field_bytes(1, _TYPE_URL))
_TRAILER_BUDGET = 6_000
"""gRPC clients accept 8 KiB of metadata by default; past this, messages are left out."""


def _detail(error: P4RTError, with_message: bool) -> bytes:
    body = wire.field_varint(1, error.code)
    if with_message:
        body += wire.field_bytes(2, error.message.encode()) + wire.field_bytes(3, _SPACE)
    any_message = wire.field_bytes(1, _TYPE_URL) + wire.field_bytes(2, body)
    return wire.field_bytes(3, any_message)


def status_details(batch: BatchError) -> bytes:
    """The serialised google.rpc.Status for a failed batch.

    Every element has its code; messages are kept for the first failures as long as the
    trailer stays within what gRPC clients accept by default.
    """
    head = wire.field_varint(1, Code.UNKNOWN) + wire.field_bytes(2, str(batch).encode())
    parts = [head]
    spare = _TRAILER_BUDGET - len(head) - len(batch.errors) * (len(_OK_DETAIL) + 4)
    for error in batch.errors:
        if error is None:
            parts.append(_OK_DETAIL)
            continue
        cost = len(error.message) + len(_SPACE) + 8
        parts.append(_detail(error, spare >= cost))
        spare -= cost
    return b"".join(parts)
