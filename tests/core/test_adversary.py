"""Two endpoints and an adversary who owns the network, driven by Hypothesis (`hosts.soak.world`).

Frames are held, delivered in any order, dropped, duplicated, corrupted, marked and trimmed; ports
go down and up, planes go silent, controllers meddle, and time jumps. After every step the
invariants hold; in the end the network becomes honest, and then everything completes: memory equal,
completions in order, nothing stuck, nobody in ERROR.

`./lab soak` does the same without bound.
"""

from __future__ import annotations

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from hosts.core.interop import PROFILES
from hosts.soak.setup import EV_SETS, FIRST_PSNS, PMTU, Setup
from hosts.soak.world import SLOT, SLOTS, World

ANY = st.integers(0, 0xFFFF)
WHO = st.integers(0, 1)
PROFILE = st.sampled_from(sorted(PROFILES))


class Adversary(RuleBasedStateMachine):
    """See the module."""

    world: World

    @initialize(
        setup=st.builds(
            Setup,
            seed=st.integers(0, 1 << 32),
            planes=st.sampled_from([2, 1, 3]),
            qps=st.sampled_from([1, 2, 5]),
            cc=st.sampled_from(["nscc", "fixed"]),
            selector=st.sampled_from(["rotation", "oblivious"]),
            evs=st.integers(0, len(EV_SETS) - 1),
            psn=st.sampled_from(FIRST_PSNS),
            interop=st.tuples(PROFILE, PROFILE),
            carrier=st.sampled_from(["v6", "v4", "srv6"]),
            dynamic_mpr=st.booleans(),
            svc_time=st.booleans(),
            trim_nack=st.booleans(),
            limited=st.booleans(),
        )
    )
    def start(self, setup):
        self.world = World(setup)

    @rule(
        who=WHO,
        qp=st.integers(0, 4),
        slot=st.integers(0, SLOTS - 1),
        length=st.one_of(st.integers(0, SLOT - 1), st.sampled_from([0, PMTU - 1, PMTU, SLOT - 1])),
        imm=st.integers(0, 1),
        fill=st.integers(0, 254),
    )
    def write(self, who, qp, slot, length, imm, fill):
        self.world.do("write", who, qp, slot, length, imm, fill)

    @precondition(lambda self: self.world.wire)
    @rule(count=st.integers(1, 24), order=ANY)
    def deliver(self, count, order):
        self.world.do("deliver", count, order)

    @precondition(lambda self: self.world.wire)
    @rule()
    def deliver_all(self):
        self.world.do("deliver_all")

    @precondition(lambda self: self.world.wire)
    @rule(count=st.integers(1, 20), order=ANY)
    def drop(self, count, order):
        self.world.do("drop", count, order)

    @precondition(lambda self: self.world.wire)
    @rule(name=st.sampled_from(["duplicate", "mark"]), which=ANY)
    def touch(self, name, which):
        self.world.do(name, which)

    @precondition(lambda self: self.world.old)
    @rule(which=ANY)
    def replay(self, which):
        self.world.do("replay", which)

    @precondition(lambda self: self.world.wire)
    @rule(which=ANY, at=ANY, bit=st.integers(0, 7))
    def corrupt(self, which, at, bit):
        self.world.do("corrupt", which, at, bit)

    @precondition(lambda self: self.world.wire)
    @rule(which=ANY, lasthop=st.integers(0, 1))
    def trim(self, which, lasthop):
        self.world.do("trim", which, lasthop)

    @rule(who=WHO, port=st.integers(0, 2), seed=ANY)
    def garbage(self, who, port, seed):
        self.world.do("garbage", who, port, seed)

    @rule(who=WHO, port=st.integers(0, 2), up=st.integers(0, 1))
    def port(self, who, port, up):
        self.world.do("port", who, port, up)

    @rule(port=st.integers(0, 2), alive=st.integers(0, 1))
    def plane(self, port, alive):
        self.world.do("plane", port, alive)

    @rule(step=st.integers(0, 4))
    def wait(self, step):
        self.world.do("wait", step)

    @rule(who=WHO, qp=st.integers(0, 4), which=ANY, denied=st.integers(0, 1))
    def deny(self, who, qp, which, denied):
        self.world.do("deny", who, qp, which, denied)

    @rule(name=st.sampled_from(["demote", "probe"]), who=WHO, qp=st.integers(0, 4), which=ANY)
    def meddle(self, name, who, qp, which):
        self.world.do(name, who, qp, which)

    @rule(who=WHO, qp=st.integers(0, 4), which=ANY, ev=ANY)
    def replace(self, who, qp, which, ev):
        self.world.do("replace", who, qp, which, ev)

    @rule(who=WHO, value=st.integers(0, 127))
    def penalty(self, who, value):
        self.world.do("penalty", who, value)

    @rule(who=WHO, qp=st.integers(0, 4), mpr=st.integers(0, 7))
    def window(self, who, qp, mpr):
        self.world.do("window", who, qp, mpr)

    def teardown(self):
        if hasattr(self, "world"):
            self.world.finish()


Adversary.TestCase.settings = settings(
    max_examples=60,
    stateful_step_count=40,
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)
TestAdversary = Adversary.TestCase
