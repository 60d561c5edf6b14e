"""A host's configuration in every EV mode: what the agent reads from it, and what it sends then."""

from __future__ import annotations

from ipaddress import IPv6Address

import pytest

from hosts.agent.planned import Transport, agent_config, encaps
from hosts.agent.settings import parse
from topologies.paths import planned_evs
from topologies.plan import Plan
from topologies.spec import load_spec
from topologies.srv6 import sid_list
from topologies.steerspec import MODES, Mode


def fabric(mode: Mode, srh: bool = False) -> Plan:
    spec = load_spec("two-plane", mode)
    srv6 = spec.srv6.model_copy(update={"srh": srh})
    return Plan.from_spec(spec.model_copy(update={"srv6": srv6}))


@pytest.mark.parametrize("srh", [False, True])
@pytest.mark.parametrize("mode", MODES)
def test_the_agent_reads_what_the_plan_says(mode: Mode, srh: bool) -> None:
    plan = fabric(mode, srh)
    settings = parse(agent_config(plan, "h1"), {})
    values = settings.qp.ev.values
    if mode == "ecmp":
        assert values is None
        assert settings.endpoint.encap is None
        return
    assert values is not None
    assert {port: tuple(evs) for port, evs in values.items()} == {
        plane + 1: planned_evs(plan, plane) for plane in range(2)
    }
    assert (
        settings.qp.ev.kind.value
        == {
            "structured": "structured",
            "srv6": "srv6-srh" if srh else "srv6",
        }[mode]
    )
    if mode == "structured":
        assert settings.endpoint.encap is None
        return
    assert settings.endpoint.encap is not None
    for other in ("h0", "h2", "h3"):
        for nic in plan.host(other).nics:
            encap = settings.endpoint.encap.get(IPv6Address(nic.ipv6).packed)
            assert encap is not None
            for ev in planned_evs(plan, nic.plane, 4):
                uplink = plan.ev_layout.uplink.get(ev)
                wanted = sid_list(plan, "h1", other, nic.plane, uplink)
                assert encap.path(ev).da == wanted.destination.packed
                assert len(encap.path(ev).segments) == srh


def test_only_the_peers_that_are_asked_for() -> None:
    plan = fabric("srv6")
    assert set(encaps(plan, "h1", ["h2"])) == {nic.ipv6 for nic in plan.host("h2").nics}
    assert len(encaps(plan, "h1")) == 6


def test_a_drill_chooses_the_transport_of_a_host() -> None:
    """The lab's own parameters stay, unless hosts are never late; the drill's go before them."""
    plan = Plan.from_spec(load_spec("two-plane"))
    chosen = Transport(cc="nscc", cc_params={"eta_mtus": 1.0}, interop="as-printed")
    lab = agent_config(plan, "h1", transport=chosen)
    assert lab["qp"]["cc"]["params"] == {"max_wnd_bdps": 2.0, "eta_mtus": 1.0}
    assert lab["interop"] == "as-printed"
    virtual = agent_config(plan, "h1", transport=chosen, late_hosts=False)
    assert virtual["qp"]["cc"]["params"] == {"eta_mtus": 1.0}
    own = Transport(cc_params={"max_wnd_bdps": 1.0})
    assert agent_config(plan, "h1", transport=own)["qp"]["cc"]["params"] == {"max_wnd_bdps": 1.0}
