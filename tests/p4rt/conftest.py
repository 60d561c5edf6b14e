"""Fixtures: a device over a fake engine, called directly or through gRPC."""

from __future__ import annotations

from typing import Any

import pytest
from p4.v1 import p4runtime_pb2 as pb

from softswitch.p4rt import Device
from tests.p4rt import programs
from tests.p4rt.client import Direct
from tests.p4rt.fake import FakeEngine


def make_device(cpu_port: int | None = 510) -> tuple[Device, FakeEngine]:
    """A device 1 without a program, ports 1..4 up."""
    engine: Any = FakeEngine(cpu_port=cpu_port)
    for port in range(1, 5):
        engine.add_port(port)
    scratch: Any = FakeEngine
    device = Device(1, engine, scratch=scratch, priority_queues=2, roles=["shell"])
    return device, engine


@pytest.fixture
def bare() -> tuple[Device, FakeEngine]:
    """A device without a pipeline and its engine."""
    return make_device()


@pytest.fixture
def direct(bare: tuple[Device, FakeEngine]) -> Direct:
    """A primary client of a device that runs the made-up program."""
    device, engine = bare
    client = Direct(device, engine)
    request = pb.SetForwardingPipelineConfigRequest(device_id=1)
    request.election_id.low = 1
    request.action = pb.SetForwardingPipelineConfigRequest.VERIFY_AND_COMMIT
    request.config.p4info.CopyFrom(programs.p4info())
    request.config.p4_device_config = programs.device_config()
    device.set_config(request)
    return client
