"""P4Runtime server on top of the engine."""

from softswitch.p4rt.device import Device
from softswitch.p4rt.server import P4RuntimeServer, ServerError

__all__ = ["Device", "P4RuntimeServer", "ServerError"]
