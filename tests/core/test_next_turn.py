"""`Endpoint.next_turn`: turns that it says are not needed would have no effect."""

from __future__ import annotations

from random import Random

import pytest

from hosts.core.timers import NEVER
from tests.core.duo import Duo, endpoint


class Watched(Duo):
    """Asks before every turn, and checks that a turn not needed has no effect."""

    idle = needed = 0

    def pump(self) -> None:
        for end in self.ends:
            due = end.next_turn(self.now)
            assert due >= self.now
            if due == self.now:
                self.needed += 1
                continue
            self.idle += 1
            end.on_deadline(self.now)
            assert end.frames_to_send(self.now) == []
            assert end.events() == []
            assert (end.next_deadline() or NEVER) == due
        super().pump()


@pytest.mark.parametrize("ports", [1, 4])
@pytest.mark.parametrize("loss", [0.0, 0.1])
def test_a_turn_that_is_not_needed_has_no_effect(ports: int, loss: float) -> None:
    duo = Watched(endpoint(0, ports), endpoint(1, ports))
    rng = Random(ports)
    duo.filter = lambda _side, _port, frame: [] if rng.random() < loss else [frame]
    data = Random(2).randbytes(20_000)
    duo.write(data)
    duo.run_until_complete()
    duo.run(duo.now + 1_000_000)
    assert duo.good()
    assert bytes(duo.region.memory[: len(data)]) == data
    assert duo.idle > 20
    assert duo.needed > 20


def test_a_late_driver_is_always_asked() -> None:
    """With room to send early or to catch up, only `frames_to_send` knows."""
    end = endpoint(0, ahead_ns=1000)
    assert end.next_turn(5) == 5
