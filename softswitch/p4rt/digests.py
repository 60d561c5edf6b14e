"""Digests: enabling them, bundling them into lists, waiting for acknowledgements.

A pure state machine per digest of the P4Info: data from the data plane goes in with the time,
DigestList messages come out when a list is full or old enough (P4Runtime spec, "DigestEntry").
Data that was sent and not acknowledged is not sent again for `ack_timeout_ns`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from p4.v1 import p4runtime_pb2

from softswitch.p4rt import wire
from softswitch.p4rt.journal import Journal
from softswitch.p4rt.schema import DigestSpec
from softswitch.p4rt.status import Code, P4RTError, invalid, not_found

INSERT, MODIFY, DELETE = 1, 2, 3

MAX_LIST = 4096
"""Messages in one list when the client sets no limit (max_list_size 0)."""
MAX_UNACKNOWLEDGED = 1 << 16
"""Data remembered per digest while no acknowledgement comes; the oldest are forgotten."""

HOLD_NS = 5_000_000
"""A stream of packets that all say the same costs one event in this time, in nanoseconds."""


class DigestConfig(NamedTuple):
    """DigestEntry.Config, nanoseconds and messages."""

    max_timeout_ns: int = 0
    max_list_size: int = 0
    ack_timeout_ns: int = 0


class _Digest:
    """One enabled digest."""

    def __init__(self, config: DigestConfig) -> None:
        self.config = config
        self.buffer: dict[tuple[int, ...], None] = {}
        self.since = 0
        """When the first datum came into the empty buffer."""
        self.sent: dict[int, tuple[int, tuple[tuple[int, ...], ...]]] = {}
        """list id -> (when, data) of lists that are not acknowledged."""
        self.cache: set[tuple[int, ...]] = set()

    def full(self) -> bool:
        config = self.config
        return config.max_timeout_ns == 0 or len(self.buffer) >= (config.max_list_size or MAX_LIST)

    def forget(self, list_id: int) -> None:
        """The list is acknowledged or too old."""
        _, data = self.sent.pop(list_id, (0, ()))
        self.cache.difference_update(data)

    def expire(self, now: int) -> None:
        """Drop what waited for an acknowledgement long enough; lists are in order of time."""
        while self.sent:
            list_id = next(iter(self.sent))
            if now - self.sent[list_id][0] < self.config.ack_timeout_ns:
                return
            self.forget(list_id)


class Digests:
    """All digests of a program."""

    def __init__(self, specs: Mapping[int, DigestSpec], journal: Journal) -> None:
        self.specs = specs
        self._journal = journal
        self._by_name = {spec.name: spec.id for spec in specs.values()}
        self._enabled: dict[int, _Digest] = {}
        self._list_id = 0

    # -- configuration
    def _spec(self, wanted: int) -> DigestSpec:
        spec = self.specs.get(wanted)
        if spec is None:
            raise invalid(f"digest id {wanted} is not in the P4Info")
        return spec

    def write(self, update_type: int, entry: Any) -> None:
        """An update of DigestEntry: INSERT enables, MODIFY reconfigures, DELETE disables."""
        spec = self._spec(entry.digest_id)
        old = self._enabled.get(spec.id)
        if update_type == INSERT and old is not None:
            raise P4RTError(Code.ALREADY_EXISTS, f"digest {spec.name}: is enabled already")
        if update_type != INSERT and old is None:
            raise not_found(f"digest {spec.name}: is not enabled")
        if update_type == DELETE:
            del self._enabled[spec.id]
        else:
            new = _Digest(_config(entry, spec.name))
            if old is not None:
                new.buffer, new.since = old.buffer, old.since
                new.sent, new.cache = old.sent, old.cache
            self._enabled[spec.id] = new
        self._journal.note(lambda: self._restore(spec.id, old))

    def _restore(self, digest_id: int, old: _Digest | None) -> None:
        if old is None:
            self._enabled.pop(digest_id, None)
        else:
            self._enabled[digest_id] = old

    def read(self, entry: Any) -> Iterator[bytes]:
        """Bodies of Entity: the enabled digests, or the one with that id."""
        wanted = entry.digest_id
        if wanted and self._spec(wanted).id not in self._enabled:
            raise not_found(f"digest {self.specs[wanted].name}: is not enabled")
        for digest_id in [wanted] if wanted else list(self._enabled):
            out = p4runtime_pb2.DigestEntry(digest_id=digest_id)
            config = self._enabled[digest_id].config
            for name in DigestConfig._fields:
                setattr(out.config, name, getattr(config, name))
            out.config.SetInParent()
            yield wire.field_bytes(12, out.SerializeToString())

    # -- from the data plane
    def add(self, name: str, values: tuple[int, ...], now: int) -> None:
        """A digest message of the data plane; dropped when not enabled or a duplicate."""
        digest = self._enabled.get(self._by_name.get(name, 0))
        if digest is None:
            return
        digest.expire(now)
        if values in digest.cache or values in digest.buffer:
            return
        if len(digest.buffer) >= MAX_UNACKNOWLEDGED:
            return
        if not digest.buffer:
            digest.since = now
        digest.buffer[values] = None

    def ack(self, digest_id: int, list_id: int) -> None:
        """A DigestListAck; INVALID_ARGUMENT for an id that the P4Info does not have."""
        self._spec(digest_id)
        digest = self._enabled.get(digest_id)
        if digest is not None:
            digest.forget(list_id)

    def due(self, now: int, wall_ns: int) -> list[bytes]:
        """Serialised StreamMessageResponses with the lists that are ready by `now`.

        `wall_ns`: nanoseconds since the Epoch, for the messages' timestamps.
        """
        out = []
        for digest_id, digest in self._enabled.items():
            digest.expire(now)
            while digest.buffer and (
                digest.full() or now - digest.since >= digest.config.max_timeout_ns
            ):
                out.append(self._list(digest_id, digest, now, wall_ns))
        return out

    def _list(self, digest_id: int, digest: _Digest, now: int, wall_ns: int) -> bytes:
        limit = digest.config.max_list_size or MAX_LIST
        data = tuple(digest.buffer)[:limit]
        for values in data:
            del digest.buffer[values]
        digest.since = now
        self._list_id += 1
        if digest.config.ack_timeout_ns:
            digest.sent[self._list_id] = (now, data)
            digest.cache.update(data)
            while len(digest.cache) > MAX_UNACKNOWLEDGED:
                digest.forget(next(iter(digest.sent)))
        encode = self.specs[digest_id].codec.encode
        body = wire.field_varint(1, digest_id) + wire.field_varint(2, self._list_id)
        body += b"".join(wire.field_bytes(3, encode(values)) for values in data)
        return wire.field_bytes(3, body + wire.field_varint(4, wall_ns))

    def hold_ns(self) -> int:
        """For how long the data plane may keep back what it told already: not at all when a
        digest wants every message (no acknowledgements), else up to HOLD_NS."""
        times = [digest.config.ack_timeout_ns for digest in self._enabled.values()]
        return min([HOLD_NS, *times]) if times else 0

    def next_deadline(self) -> int | None:
        """When `due` has something new to give, or None."""
        times = [
            digest.since + digest.config.max_timeout_ns
            for digest in self._enabled.values()
            if digest.buffer
        ]
        return min(times, default=None)


def _config(entry: Any, name: str) -> DigestConfig:
    config = DigestConfig(*(getattr(entry.config, item) for item in DigestConfig._fields))
    for item, value in config._asdict().items():
        if value < 0:
            raise invalid(f"digest {name}: {item} {value} is negative")
    return config
