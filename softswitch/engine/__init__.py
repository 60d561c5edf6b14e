"""bmv2 JSON -> C -> shared object, with traffic manager and AF_PACKET driver."""

from softswitch.engine.engine import Engine
from softswitch.engine.types import *  # noqa: F403
from softswitch.engine.types import Optional_

__all__ = ["Engine", "Optional_"]
