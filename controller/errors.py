"""What can go wrong between the controller and a switch; every text is one line."""

from __future__ import annotations


class ControllerError(Exception):
    """Base of every error of the controller that a user may see."""


class EntityError(ControllerError):
    """An entity does not fit the P4Info: unknown name, missing field, value too wide."""


class ConnectError(ControllerError):
    """A switch cannot be reached, or does not accept this controller as its primary."""


class PrimaryLost(ControllerError):
    """Another client took over, or the stream to a switch broke. Nothing is written any more."""


class WriteError(ControllerError):
    """A switch refused updates. `failures` holds a line for each refused update."""

    def __init__(self, switch: str, failures: tuple[str, ...], total: int) -> None:
        self.switch = switch
        self.failures = failures
        self.total = total
        shown = "; ".join(failures[:5])
        if len(failures) > 5:
            shown += f"; and {len(failures) - 5} more"
        super().__init__(f"{switch}: {len(failures)} of {total} updates refused: {shown}")


class SelfTestError(ControllerError):
    """The fabric does not do what the plan says."""
