"""One switch under control: pipeline, tables and counters through its P4Runtime client."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from p4.v1 import p4runtime_pb2

from controller.client import SwitchClient
from controller.counters import Cell, Count
from controller.entities import Codec, Entity
from controller.errors import ControllerError
from controller.p4names import P4Names, load_p4info
from controller.program import SwitchProgram
from controller.reconcile import Update, reconcile

BATCH = 2000
"""Most updates in one Write request; keeps messages far below gRPC's 4 MiB."""

_TYPES = {
    "INSERT": p4runtime_pb2.Update.INSERT,
    "MODIFY": p4runtime_pb2.Update.MODIFY,
    "DELETE": p4runtime_pb2.Update.DELETE,
}


@dataclass(frozen=True)
class Pipeline:
    """A compiled program, read once and pushed to every switch."""

    config: Any
    """p4.v1.ForwardingPipelineConfig."""
    codec: Codec
    cookie: int
    """64 bits of a digest of both files: equal cookies mean the same program."""

    @classmethod
    def load(cls, program: Path, p4info: Path) -> Pipeline:
        """Read bmv2 JSON and P4Info. ControllerError names the file that cannot be read."""
        message = load_p4info(p4info)
        try:
            device_config = program.read_bytes()
        except OSError as error:
            raise ControllerError(f"{program}: {error.strerror}") from None
        config = p4runtime_pb2.ForwardingPipelineConfig(
            p4info=message, p4_device_config=device_config
        )
        digest = hashlib.sha256(device_config)
        digest.update(p4info.read_bytes())
        cookie = int.from_bytes(digest.digest()[:8], "big")
        config.cookie.cookie = cookie
        return cls(config, Codec(P4Names(message)), cookie)


class SwitchSession:
    """Programs and reads one switch. Errors are ControllerErrors that name it."""

    def __init__(self, client: SwitchClient, pipeline: Pipeline) -> None:
        self.client = client
        self.pipeline = pipeline
        self.name = client.name

    def ensure_pipeline(self) -> bool:
        """Push the pipeline unless the switch runs this very one; whether it was pushed.

        Pushing twice can fail on bmv2, and would empty the tables of a running switch.
        """
        if self.client.pipeline_cookie() == self.pipeline.cookie:
            return False
        self.client.push_pipeline(self.pipeline.config)
        return True

    def apply(self, wanted: SwitchProgram) -> int:
        """Make the switch hold exactly `wanted`; how many updates that took."""
        existing: list[Entity] = [] if self.ensure_pipeline() else self.read_all(wanted)
        batches = reconcile(wanted, existing)
        for batch in batches:
            self.write(batch)
        return sum(len(batch) for batch in batches)

    def write(self, updates: Sequence[Update]) -> None:
        """Write updates that do not depend on each other. WriteError shows each refused one."""
        for start in range(0, len(updates), BATCH):
            part = updates[start : start + BATCH]
            messages = [
                p4runtime_pb2.Update(
                    type=_TYPES[update.operation], entity=self.pipeline.codec.encode(update.entity)
                )
                for update in part
            ]
            self.client.write_updates(messages, lambda index, part=part: str(part[index]))  # type: ignore[misc]

    def read_all(self, wanted: SwitchProgram) -> list[Entity]:
        """Every table entry, member and group the switch holds, and the default entries of
        the tables of which `wanted` sets one (a wildcard does not cover those)."""
        codec = self.pipeline.codec
        asked = [p4runtime_pb2.Entity() for _ in range(3)]
        asked[0].table_entry.SetInParent()
        asked[1].action_profile_member.SetInParent()
        asked[2].action_profile_group.SetInParent()
        for default in wanted.defaults:
            entity = p4runtime_pb2.Entity()
            entity.table_entry.table_id = codec.names.table(default.table).id
            entity.table_entry.is_default_action = True
            asked.append(entity)
        return [codec.decode(message) for message in self.client.read_entities(asked)]

    def read_counters(self, cells: Iterable[Cell]) -> dict[Cell, Count]:
        """The values of counter cells."""
        names = self.pipeline.codec.names
        wanted = []
        for name, index in cells:
            entity = p4runtime_pb2.Entity()
            entity.counter_entry.counter_id = names.counter(name).id
            entity.counter_entry.index.index = index
            wanted.append(entity)
        values: dict[Cell, Count] = {}
        for message in self.client.read_entities(wanted) if wanted else ():
            entry = message.counter_entry
            cell = (names.counter_by_id(entry.counter_id).name, entry.index.index)
            values[cell] = Count(entry.data.packet_count, entry.data.byte_count)
        return values

    def close(self) -> None:
        """Give up the switch."""
        self.client.close()
