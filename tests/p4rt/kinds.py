"""A client of a live switch that runs kinds.p4: writes, reads, sends and says what happened."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import grpc
from google.rpc import status_pb2
from p4.v1 import p4runtime_pb2 as pb

from softswitch.p4rt.status import Code
from tests.p4rt.client import wrap, write_request
from tests.p4rt.real import Names, compiled, frame, octets
from tests.p4rt.stream import Channel
from tests.switch_kinds import LiveSwitch

FENCE = 0xFFFF

_SET = pb.SetForwardingPipelineConfigRequest


@dataclass(frozen=True)
class Verdict:
    """What a switch decided about a packet, from the metadata of the packet in."""

    port: int
    instance: int = 0
    clone: bool = False
    mark: int = 0
    length: int = 60


class KindClient:
    """The primary of a live switch, which gets the program, and so has empty tables.

    Each has a higher election id than all before it, as a switch remembers the highest.
    """

    elections = itertools.count(100, 100)

    def __init__(self, switch: LiveSwitch) -> None:
        self.switch = switch
        self.expect = switch.expect
        self.info, self.json = compiled("kinds")
        self.names = Names(self.info)
        self.others: list[Any] = []
        """Messages of the stream that are no packets, as they came between packets."""
        self._in = {
            field.id: field.name
            for item in self.info.controller_packet_metadata
            if item.preamble.name == "packet_in"
            for field in item.metadata
        }
        self._connect()
        if (code := self.push()) != Code.OK:
            assert code == self.expect("program after a refused one")
            self.close()
            switch.restart()
            self._connect()
            assert self.push() == Code.OK

    def _connect(self) -> None:
        self.stub = self.switch.stub
        self.stream = Channel(self.stub)
        self.election = next(self.elections)
        self.stream.arbitrate(self.election)
        assert self.stream.status() == Code.OK

    def push(self, action: int = _SET.VERIFY_AND_COMMIT, cookie: int = 7, **fields: Any) -> Code:
        """Code of setting the pipeline to kinds.p4."""
        request = _SET(device_id=1, action=action, **fields)
        request.election_id.low = self.election
        request.config.p4info.CopyFrom(self.info)
        request.config.p4_device_config = self.json
        request.config.cookie.cookie = cookie
        return code_of_call(lambda: self.stub.SetForwardingPipelineConfig(request, timeout=60))

    # -- entities
    def codes(self, *updates: tuple[int, Any], **fields: Any) -> list[Code]:
        """Code of each update of one Write; of the call, alone, when there are no details."""
        request = write_request(*updates, **{"election": self.election, **fields})
        try:
            self.stub.Write(request, timeout=60)
        except grpc.RpcError as error:
            return update_codes(error) or [Code(error.code().value[0])]
        return [Code.OK] * len(updates)

    def code(self, kind: int, entity: Any) -> Code:
        (code,) = self.codes((kind, entity))
        return code

    def read(self, *entities: Any) -> list[Any]:
        """The inner messages of what a read gives; grpc.RpcError."""
        request = pb.ReadRequest(device_id=1, entities=[wrap(item) for item in entities])
        found = [e for reply in self.stub.Read(request, timeout=60) for e in reply.entities]
        return [getattr(entity, entity.WhichOneof("entity")) for entity in found]

    # -- packets
    def out(self, port: int, data: bytes) -> None:
        """Send a packet that is said to have come by `port`."""
        packet = pb.PacketOut(payload=data)
        packet.metadata.add(metadata_id=1, value=octets(port))
        packet.metadata.add(metadata_id=2, value=b"\0")
        self.stream.send(packet=packet)

    def send(self, data: bytes, port: int = 1) -> list[Verdict]:
        """What a switch makes of a packet, all of it: a second one follows and is waited for.
        Messages of another kind are left in `others`."""
        self.out(port, data)
        self.out(port, frame(kind=FENCE))
        verdicts: list[Verdict] = []
        while True:
            message = self.stream.next()
            if not message.HasField("packet"):
                self.others.append(message)
                continue
            values = {
                self._in[m.metadata_id]: int.from_bytes(m.value, "big")
                for m in message.packet.metadata
            }
            payload = message.packet.payload
            if payload == frame(kind=FENCE):
                return verdicts
            assert data.startswith(payload)
            verdicts.append(
                Verdict(
                    values["port"],
                    values["instance"],
                    bool(values["clone"]),
                    values["class"],
                    len(payload),
                )
            )

    def message(self, kind: str) -> Any:
        """The next message of the stream, which has to be of this kind."""
        message = self.others.pop(0) if self.others else self.stream.next()
        assert message.WhichOneof("update") == kind, message
        return getattr(message, kind)

    def close(self) -> None:
        self.stream.close()


def update_codes(error: grpc.RpcError) -> list[Code]:
    """Codes of the updates of a Write that failed, from the details of its status."""
    trailers: Any = error.trailing_metadata()  # type: ignore[attr-defined]
    data = dict(trailers or ()).get("grpc-status-details-bin", b"")
    out = []
    for detail in status_pb2.Status.FromString(data).details:
        item = pb.Error()
        if detail.Unpack(item):
            out.append(Code(item.canonical_code))
    return out


def code_of_call(call: Any) -> Code:
    """Code of a call; a Read is read to its end."""
    try:
        result = call()
        if hasattr(result, "__next__"):
            list(result)
    except grpc.RpcError as error:
        return Code(error.code().value[0])
    return Code.OK
