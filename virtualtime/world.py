"""Virtual time itself: switches and hosts taken forward in windows.

    window = [t, t + lookahead)     t: when anything happens next anywhere

In a window first the network runs (C), then every host that something happens to, each for
itself and in the order of time; what they send enters the network before the next window.
That loses nothing: what a host sends at t reaches the first queue a cable later, and the
lookahead is that cable. So the outcome is that of one list of events, whatever runs where.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hosts.agent.control import Json
from virtualtime.fabric import VirtualFabric
from virtualtime.host import NEVER
from virtualtime.shard import Pending, Shard, StepResult


class World:
    """A fabric, its hosts and the time. `windows`: how many there were."""

    def __init__(self, fabric: VirtualFabric, shards: Sequence[Shard], now: int = 0) -> None:
        """Shard i has the hosts of group i of the fabric."""
        self.fabric = fabric
        self.shards = list(shards)
        self.now = now
        self.windows = 0
        self._lookahead = fabric.lookahead()
        self._wakes = [now] * len(self.shards)
        self._answers: list[dict[int, Json]] = [{} for _ in self.shards]

    def clock(self) -> int:
        """Now, in nanoseconds."""
        return self.now

    def run(self, until: int, stop: Callable[[], bool] | None = None) -> None:
        """Everything that happens before `until`; then it is `until`. With `stop`, the window
        after which it holds is the last, and time stands at that window's end."""
        network = self.fabric.network
        shards = self.shards
        while True:
            t = min(self._wakes)
            event = network.next_event()
            if event is not None and event < t:
                t = event
            if t >= until:
                break
            end = min(max(t, self.now) + self._lookahead, until)
            self.windows += 1
            network.run(end)
            for group, shard in enumerate(shards):
                shard.start_step(end, network, group)
            for group, shard in enumerate(shards):
                self._took(group, shard.finish_step())
            self.now = end
            if stop is not None and stop():
                return
        network.run(until)
        self.now = max(self.now, until)

    def _took(self, group: int, result: StepResult) -> None:
        outgoing = result.outgoing
        if outgoing:
            self.fabric.network.send(outgoing[0] if len(outgoing) == 1 else b"".join(outgoing))
        self._wakes[group] = result.wake
        for ticket, reply in result.answers:
            self._answers[group][ticket] = reply

    # -- from outside, between windows

    def call(self, group: int, host: str, request: Json, patience_ns: int) -> Json | None:
        """An operation of a host's agent; time passes until it answers. None after
        `patience_ns` without an answer."""
        reply, result = self.shards[group].call(host, request, self.now)
        self._took(group, result)
        if not isinstance(reply, Pending):
            return reply
        answers, ticket = self._answers[group], reply.ticket
        if ticket not in answers:
            self.run(self.now + patience_ns, lambda: ticket in answers)
        return answers.pop(ticket, None)

    def set_link(self, link: str, up: bool) -> None:
        """Cut or mend a link at this moment; both ends know at once."""
        planned = self.fabric.plan.link(link)
        self.fabric.set_link(link, up, self.now)
        for end in (planned.a, planned.b):
            group = self.group_of(end.node)
            if group is not None:
                self._took(group, self.shards[group].set_carrier(end.node, end.port, up, self.now))

    def group_of(self, host: str) -> int | None:
        """The shard of a host; None for a switch."""
        return self.fabric.groups.get(host)

    def idle(self) -> bool:
        """Nothing will ever happen again by itself."""
        return min(self._wakes) >= NEVER and self.fabric.network.next_event() is None

    def close(self) -> None:
        """End hosts and switches."""
        for shard in self.shards:
            shard.close()
        self.fabric.close()
