"""A device over the real engine, without I/O, that runs full.p4; entities by name."""

from __future__ import annotations

import functools
import tempfile
from pathlib import Path
from typing import Any

from google.protobuf import text_format
from p4.config.v1 import p4info_pb2
from p4.v1 import p4runtime_pb2 as pb

from softswitch.engine import Engine
from softswitch.p4 import compile_program
from softswitch.p4rt import Device
from softswitch.p4rt.arbitration import Arbitration
from softswitch.p4rt.status import BatchError, Code
from tests.p4rt.client import code_of, wrap, write_request

CPU_PORT = 510
PORTS = (1, 2, 3, 4)
_SET = pb.SetForwardingPipelineConfigRequest


@functools.cache
def compiled(name: str = "full") -> tuple[Any, bytes]:
    """(P4Info, bmv2 JSON) of a program of this directory; the P4Info must not be changed."""
    with tempfile.TemporaryDirectory() as scratch:
        source = Path(__file__).with_name(f"{name}.p4")
        json, info = compile_program(source, Path(scratch), compiler="builtin")
        message = text_format.Parse(info.read_text(), p4info_pb2.P4Info())
        return message, json.read_bytes()


def new_engine() -> Engine:
    return Engine(priority_queues=2, cpu_port=CPU_PORT)


def octets(value: int) -> bytes:
    return value.to_bytes((value.bit_length() + 7) // 8 or 1, "big")


class Names:
    """Ids of a P4Info by name or alias."""

    def __init__(self, info: Any) -> None:
        self.info = info
        self.ids: dict[str, int] = {}
        self.tables: dict[str, Any] = {}
        self.actions: dict[str, Any] = {}
        for field, group in info.ListFields():
            if field.name in ("pkg_info", "type_info"):
                continue
            for item in group:
                self.ids[item.preamble.alias] = item.preamble.id
                if field.name == "tables":
                    self.tables[item.preamble.alias] = item
                elif field.name == "actions":
                    self.actions[item.preamble.alias] = item

    def action(self, name: str, **params: int | bytes) -> Any:
        """An Action; integers become canonical byte strings."""
        spec = self.actions[name]
        out = pb.Action(action_id=spec.preamble.id)
        for param in spec.params:
            if param.name in params:
                value = params[param.name]
                data = value if isinstance(value, bytes) else octets(value)
                out.params.add(param_id=param.id, value=data)
        return out

    def entry(
        self, table: str, match: Any = (), action: Any = None, priority: int = 0, **fields: Any
    ) -> Any:
        """A TableEntry. `match`: one item per field, None to leave it out; ints are exact or
        optional values, pairs what the field's kind has."""
        spec = self.tables[table]
        out = pb.TableEntry(table_id=spec.preamble.id, priority=priority, **fields)
        kinds = p4info_pb2.MatchField
        for field, item in zip(spec.match_fields, match, strict=False):
            if item is None:
                continue
            part = out.match.add(field_id=field.id)
            if field.match_type == kinds.EXACT:
                part.exact.value = item if isinstance(item, bytes) else octets(item)
            elif field.match_type == kinds.OPTIONAL:
                part.optional.value = octets(item)
            elif field.match_type == kinds.LPM:
                part.lpm.value, part.lpm.prefix_len = octets(item[0]), item[1]
            elif field.match_type == kinds.TERNARY:
                part.ternary.value, part.ternary.mask = octets(item[0]), octets(item[1])
            else:
                part.range.low, part.range.high = octets(item[0]), octets(item[1])
        if isinstance(action, pb.Action):
            out.action.action.CopyFrom(action)
        elif action is not None:
            out.action.CopyFrom(action)
        return out


class Real:
    """The primary of a device that runs full.p4 on the real engine."""

    def __init__(self, program: str = "full") -> None:
        self.info, self.json = compiled(program)
        self.names = Names(self.info)
        self.engine = new_engine()
        for port in PORTS:
            self.engine.add_port(port)
            self.engine.set_port_up(port, True, 0)
        self.device = Device(
            1,
            self.engine,
            scratch=new_engine,
            priority_queues=2,
            roles=["shell"],
            port_names={port: f"s1-eth{port}" for port in PORTS},
        )
        self.device.arbiter.update("me", Arbitration(1, 1))
        self.device.commit(self.info, self.json, None)
        self.now = 0

    def close(self) -> None:
        self.engine.close()

    # -- control plane
    def write(self, *updates: tuple[int, Any], **fields: Any) -> None:
        """(type, entity) pairs; raises BatchError."""
        self.device.write(write_request(*updates, **fields).SerializeToString())

    def codes(self, *updates: tuple[int, Any], **fields: Any) -> list[Code]:
        """Codes of the updates of one batch."""
        try:
            self.write(*updates, **fields)
        except BatchError as error:
            return [code_of(error, index) for index in range(len(error.errors))]
        return [Code.OK] * len(updates)

    def code(self, kind: int, entity: Any) -> Code:
        return self.codes((kind, entity))[0]

    def read(self, *entities: Any) -> list[Any]:
        """The inner messages of what a read gives."""
        request = pb.ReadRequest(device_id=1, entities=[wrap(item) for item in entities])
        out = []
        for data in self.device.read(request.SerializeToString()):
            for entity in pb.ReadResponse.FromString(data).entities:
                out.append(getattr(entity, entity.WhichOneof("entity")))
        return out

    def set_config(self, action: int, **fields: Any) -> None:
        request = _SET(device_id=1, action=action, **fields)
        request.election_id.low = 1
        if action != _SET.COMMIT and not request.HasField("config"):
            request.config.p4info.CopyFrom(self.info)
            request.config.p4_device_config = self.json
        self.device.set_config(request)

    # -- data plane
    def send(self, port: int, frame: bytes, gap: int = 1000) -> list[tuple[int, bytes]]:
        """What comes out (port, frame) when a frame comes in, sorted by port."""
        self.now += gap
        self.engine.receive(port, frame, self.now)
        self.now += gap
        return sorted(self.engine.frames_to_send(self.now))

    def ports_of(self, port: int, frame: bytes) -> list[int]:
        return [number for number, _ in self.send(port, frame)]


def frame(dst: int = 2, src: int = 1, kind: int = 0x88B5, body: bytes = b"") -> bytes:
    """An Ethernet frame of 60 bytes."""
    head = dst.to_bytes(6, "big") + src.to_bytes(6, "big") + kind.to_bytes(2, "big")
    return (head + body).ljust(60, b"\0")
