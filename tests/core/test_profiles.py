"""EV formats, generated values, profile life cycle, and operations that reach QPs."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hosts.core.config import CcConfig, ConfigError, EvConfig
from hosts.core.errors import EndpointError
from hosts.core.ev.format import EvFormat, EvKind
from hosts.core.ev.generate import GeneratedField, expand
from hosts.core.ev.profile import (
    LIFE,
    EvMode,
    EvProfile,
    ProfileInput,
    ProfileSpec,
    ProfileState,
)
from hosts.core.events import EvProbeResult, EvState, EvStateChange, PathProbeResult
from hosts.wire.constants import EvPacking
from hosts.wire.encap import SrPath, usid_container
from hosts.wire.frame import parse
from tests.core.duo import Duo, endpoint, qp_config

ECMP = EvFormat("ecmp", EvKind.ECMP, (16,))
STEV = EvFormat("stev", EvKind.STRUCTURED, (10, 8, 4))
LOAD, ENABLE, DISABLE, UNLOAD = ProfileInput


# --- formats -------------------------------------------------------------------------------------


def test_fields_are_packed_most_significant_first():
    """The widths of the reference's example: the rest of 32 bits is reserved, zero."""
    value = STEV.join((0x3FF, 0, 0xF))
    assert value == 0xFFC03C00
    assert STEV.split(value) == (0x3FF, 0, 0xF)


@given(st.data(), st.sampled_from(list(EvKind)))
def test_join_and_split_are_inverse(data, kind):
    bits = EvFormat("x", kind, (1,)).bits
    widths = data.draw(st.lists(st.integers(1, bits // 4), min_size=1, max_size=4))
    fmt = EvFormat("x", kind, tuple(widths))
    fields = tuple(data.draw(st.integers(0, (1 << w) - 1)) for w in widths)
    value = fmt.join(fields)
    assert value < 1 << fmt.bits
    assert fmt.split(value) == fields


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: EvFormat("x", EvKind.ECMP, (9, 8)), "fields have 17 bits, ecmp has 16"),
        (lambda: EvFormat("x", EvKind.ECMP, ()), "at least one bit"),
        (lambda: STEV.join((1, 2)), "2 fields, need 3"),
        (lambda: STEV.join((1024, 0, 0)), "1024 needs more than 10 bits"),
        (lambda: GeneratedField(4, mask=16), "mask 16: must fit"),
        (lambda: GeneratedField(4, minimum=5, maximum=4), "maximum 4: must be 5..15"),
        (lambda: list(expand([GeneratedField(32, mask=0x1FFFFF)])), "21 bits together"),
        (lambda: ProfileSpec("p", ECMP, ev_count=10, alignment=4), "a multiple of 4"),
        (lambda: ProfileSpec("p", STEV, EvMode.GENERATED), "the format has"),
        (lambda: ProfileSpec("p", ECMP, ev_min_active=500), "ev_min_active 500"),
    ],
)
def test_format_errors(make, message):
    with pytest.raises(ConfigError, match=message):
        make()


# --- GENERATED -----------------------------------------------------------------------------------


def test_generated_by_hand():
    """Two masked bits in the first field, one in the second: number 0..7, its bits in order."""
    fields = (GeneratedField(4, initial=0b0001, mask=0b1010), GeneratedField(2, mask=0b01))
    assert list(expand(fields)) == [
        (0b0001, 0), (0b0001, 1), (0b0011, 0), (0b0011, 1),
        (0b1001, 0), (0b1001, 1), (0b1011, 0), (0b1011, 1),
    ]  # fmt: skip


def test_out_of_range_is_discarded():
    fields = (GeneratedField(3, minimum=2, maximum=5, mask=0b111),)
    assert [f for (f,) in expand(fields)] == [2, 3, 4, 5]


@given(
    st.lists(
        st.builds(
            lambda w, i, m: GeneratedField(w, i & (1 << w) - 1, mask=m & (1 << w) - 1),
            st.integers(1, 6),
            st.integers(0, 63),
            st.integers(0, 63),
        ),
        min_size=1,
        max_size=2,
    )
)
def test_generated_keeps_what_the_mask_does_not_say(fields):
    found = list(expand(fields))
    assert len(set(found)) == len(found) == 1 << sum(f.mask.bit_count() for f in fields)
    for values in found:
        for value, f in zip(values, fields, strict=True):
            assert value & ~f.mask == f.initial & ~f.mask


# --- the life cycle ------------------------------------------------------------------------------


def spec(mode=EvMode.EXPLICIT, fmt=ECMP, **more):
    more.setdefault("ev_count", 4)
    more.setdefault("backup", 2)
    return ProfileSpec("p", fmt, mode, **more)


@pytest.mark.parametrize("state", ProfileState)
@pytest.mark.parametrize("what", ProfileInput)
def test_life_cycle(state, what):
    profile = EvProfile(spec(EvMode.AUTO), state=state)
    if (state, what) in LIFE:
        profile.move(what, (1, 2))
        assert profile.state is LIFE[state, what]
    else:
        with pytest.raises(ConfigError, match=f"cannot {what.value} in {state.value}"):
            profile.move(what, (1, 2))


def test_explicit_must_be_filled_before_online():
    profile = EvProfile(spec())
    profile.move(LOAD, (1, 2))
    with pytest.raises(ConfigError, match="port 1: entry 0 is empty"):
        profile.move(ENABLE, (1, 2))
    for i in range(3):
        profile.write(1, i, 100 + i)
        profile.write(2, i, 200 + i)
    profile.write(2, 0, 100)
    with pytest.raises(ConfigError, match="0x00000064 occurs twice"):
        profile.move(ENABLE, (1, 2))
    profile.write(2, 0, 200)
    profile.move(ENABLE, (1, 2))
    assert profile.choose((1, 2), Random(1), EvPacking.LABEL_HIGH, False) == {
        1: ([100, 101], [102]),
        2: ([200, 201], [202]),
    }
    with pytest.raises(ConfigError, match="while OFFLINE"):
        profile.write(1, 0, 5)
    with pytest.raises(ConfigError, match="disable it to modify it"):
        profile.modify(spec(), (1, 2))
    assert profile.replace(201, 300) == 2
    profile.move(DISABLE, (1, 2))
    profile.move(UNLOAD, (1, 2))
    assert profile.entries == {}


def test_generated_profile_with_a_plane_field():
    fields = (
        GeneratedField(10, mask=0x3),
        GeneratedField(8, mask=0x7),
        GeneratedField(4, mask=0x1),
    )
    profile = EvProfile(spec(EvMode.GENERATED, STEV, fields=fields, plane_field=2))
    profile.move(LOAD, (1, 2))
    profile.move(ENABLE, (1, 2))
    chosen = profile.choose((1, 2), Random(3), EvPacking.LABEL_HIGH, False)
    for port, (active, backup) in chosen.items():
        assert (len(active), len(backup)) == (2, 1)
        assert {STEV.split(ev)[2] for ev in (*active, *backup)} == {port - 1}


def test_too_few_generated():
    profile = EvProfile(spec(EvMode.GENERATED, fields=(GeneratedField(16, mask=1),)))
    with pytest.raises(ConfigError, match="port 1 gets 1 EVs, needs 3"):
        profile.move(LOAD, (1, 2))
    assert profile.state is ProfileState.INIT


def test_srv6_values_are_outer_addresses():
    fmt = EvFormat("usid", EvKind.USID_SRH, (128, 128))
    profile = EvProfile(spec(fmt=fmt, ev_count=2, backup=0))
    profile.move(LOAD, (1, 2))
    first, second = usid_container(0xFCBB0000, [1, 2]), usid_container(0xFCBB0000, [3])
    value = int.from_bytes(first + second, "big")
    profile.write(1, 0, value, ev=77)
    profile.write(2, 0, value)
    assert profile.paths[77] == SrPath(first, (second,))
    assert len(profile.paths) == 2
    with pytest.raises(ConfigError, match="needs more than 256 bits"):
        profile.write(1, 0, 1 << 256)


# --- on an endpoint ------------------------------------------------------------------------------


def on_profile(mode=EvMode.AUTO, **more):
    """A connected pair whose sender has a profile."""
    a = endpoint(0)
    a.profiles.create_ev(spec(mode, **more))
    a.profiles.move_ev("p", LOAD)
    if mode is EvMode.EXPLICIT:
        for port in (1, 2):
            for i in range(3):
                a.profiles.ev["p"].write(port, i, 0xC000 + 16 * port + i)
    a.profiles.move_ev("p", ENABLE)
    b = endpoint(1)
    b.profiles.create_ev(spec(EvMode.AUTO))
    b.profiles.move_ev("p", LOAD)
    b.profiles.move_ev("p", ENABLE)
    return Duo(a, b, qp_config(ev=EvConfig(profile="p")))


def states(duo):
    return {e.ev: (e.state, e.role) for e in duo.ends[0].ev_table(duo.qpns[0])}


def test_a_qp_takes_its_evs_from_the_profile():
    duo = on_profile(EvMode.EXPLICIT)
    assert set(states(duo)) == {0xC000 + 16 * p + i for p in (1, 2) for i in range(3)}
    duo.write(bytes(5000))
    assert duo.run_until_complete()
    assert duo.good()
    with pytest.raises(ConfigError, match=f"QP {duo.qpns[0]} uses it"):
        duo.ends[0].profiles.move_ev("p", DISABLE)
    with pytest.raises(ConfigError, match="uses it"):
        duo.ends[0].profiles.destroy_ev("p")
    duo.ends[0].destroy_qp(duo.qpns[0], duo.now)
    duo.ends[0].profiles.move_ev("p", DISABLE)
    duo.ends[0].profiles.destroy_ev("p")


def test_denied_on_the_profile_is_denied_on_its_qps_and_on_later_ones():
    duo = on_profile(EvMode.EXPLICIT)
    profiles = duo.ends[0].profiles
    assert profiles.set_ev_state("p", 0xC010, EvState.DENIED, 0) == [duo.qpns[0]]
    assert states(duo)[0xC010] == (EvState.DENIED, "out")
    later = duo.ends[0].create_qp(qp_config(ev=EvConfig(profile="p")))
    table = {e.ev: e.state for e in duo.ends[0].ev_table(later.qpn)}
    assert table[0xC010] is EvState.DENIED
    assert profiles.set_ev_state("p", 0xC010, EvState.GOOD, 0) == [duo.qpns[0], later.qpn]
    assert states(duo)[0xC010][0] is EvState.GOOD
    with pytest.raises(ConfigError, match="no EV 0x00000001"):
        profiles.set_ev_state("p", 1, EvState.DENIED, 0)


def test_replacing_under_load():
    duo = on_profile(EvMode.EXPLICIT)
    duo.write(bytes(200_000 // 4))
    duo.run(100_000)
    assert duo.ends[0].profiles.replace_ev("p", 0xC010, 0xD000, duo.now) == [duo.qpns[0]]
    assert duo.run_until_complete()
    assert duo.good()
    assert 0xD000 in states(duo)
    assert 0xC010 not in states(duo)
    assert {p.ev for p in duo.packets(1)} >= {0xC010, 0xD000}
    with pytest.raises(ConfigError, match="is on a QP already"):
        duo.ends[0].profiles.replace_ev("p", 0xC011, 0xD000, 0)
    with pytest.raises(EndpointError, match="no EV"):
        duo.ends[0].replace_ev(duo.qpns[0], 0xC010, 0xD001, 0)


def test_event_mask():
    """Only what the profile asks for is reported."""
    duo = on_profile(EvMode.EXPLICIT, events=frozenset((EvState.GOOD,)), ev_min_active=0)
    a, qpn = duo.ends[0], duo.qpns[0]
    for state in (EvState.ASSUMED_BAD, EvState.GOOD, EvState.DENIED):
        assert a.set_ev_state(qpn, 0xC010, state, 0)
    changes = [e for e in a.events() if type(e) is EvStateChange]
    assert [e.new for e in changes] == [EvState.GOOD]


def test_path_failure_and_probes_move_the_state():
    duo = on_profile(EvMode.EXPLICIT, ev_min_active=0)
    a, qpn = duo.ends[0], duo.qpns[0]
    assert a.path_failure(2, 0xC010, 0) == 0  # another port's
    assert a.path_failure(1, 0xC010, 0) == 1
    assert states(duo)[0xC010] == (EvState.ASSUMED_BAD, "out")
    for _ in range(3):
        a.probe_ev(qpn, 0xC010, duo.now)
        duo.run(duo.now + 100_000)
    assert states(duo)[0xC010][0] is EvState.GOOD
    duo.filter = lambda target, port, frame: [] if port == 1 else [frame]
    a.probe_ev(qpn, 0xC011, duo.now, timeout_ns=50_000)
    duo.run(duo.now + 100_000)
    results = [e for e in duo.events[0] if type(e) is EvProbeResult]
    assert [e.rtt_ns is not None for e in results] == [True, True, True, False]
    assert states(duo)[0xC011][0] is EvState.ASSUMED_BAD


def test_loop_probe_needs_no_qp():
    """To our own address: the request that comes home is the answer."""
    a = endpoint(0)
    own = a.config.ports[0].ip
    a.probe_path(1, own, 0xC001, 0, token=5)
    ((port, frame),) = a.frames_to_send(0)
    a.receive(port, frame, 7000)
    (result,) = [e for e in a.events() if type(e) is PathProbeResult]
    assert (result.token, result.rtt_ns, result.dst) == (5, 7000, own)
    a.probe_path(1, own, 0xC001, 10_000, path=SrPath(usid_container(0xFCBB0000, [1])), token=6)
    ((_, frame),) = a.frames_to_send(10_000)
    assert frame[20] == 41
    assert frame[38:54] == usid_container(0xFCBB0000, [1])
    a.on_deadline(2_010_000)
    (result,) = [e for e in a.events() if type(e) is PathProbeResult]
    assert (result.token, result.rtt_ns) == (6, None)


def test_cc_profile_changes_running_qps():
    a = endpoint(0)
    assert a.set_cc_profile("mine", CcConfig("fixed", 30_000, {"window_bytes": 8_000})) == []
    b = endpoint(1)
    b.set_cc_profile("mine", CcConfig("fixed", 30_000))
    duo = Duo(a, b, qp_config(cc_profile="mine"))
    assert duo.stats(0).cwnd == 8_000
    duo.write(bytes(60_000))
    duo.run(100_000)
    other = CcConfig("nscc", 30_000, {"max_wnd_bdps": 2.0})
    assert a.set_cc_profile("mine", other) == [duo.qpns[0]]
    assert duo.stats(0).inflight > 0
    assert duo.run_until_complete()
    assert duo.good()
    assert duo.stats(0).cwnd != 8_000
    with pytest.raises(ConfigError, match="no such parameter"):
        a.set_cc_profile("mine", CcConfig("nscc", 1, {"gama": 1}))
    with pytest.raises(ConfigError, match="'yours': unknown; known: mine"):
        a.create_qp(qp_config(cc_profile="yours"))


def test_unknown_names():
    a = endpoint(0)
    with pytest.raises(ConfigError, match="EV profile 'q': unknown; known: none"):
        a.create_qp(qp_config(ev=EvConfig(profile="q")))
    with pytest.raises(ConfigError, match="known: rotation, oblivious"):
        a.create_qp(qp_config(ev=EvConfig(selector="roundrobin")))
    v4 = endpoint(0, ipv4=True)
    with pytest.raises(ConfigError, match="IPv4 carries the source port only"):
        v4.create_qp(qp_config(ev=EvConfig(kind=EvKind.STRUCTURED)))


@pytest.mark.parametrize("through", ["profile", "qp"])
def test_an_srv6_value_is_replaced_on_a_running_qp(through):
    """With its outer addresses; packets take them at once, control packets too."""

    def path(number: int) -> SrPath:
        return SrPath(usid_container(0xFCBB0000, [number]))

    a, b = endpoint(0, 1), endpoint(1, 1)
    fmt = EvFormat("usid", EvKind.USID, (128,))
    a.profiles.create_ev(spec(fmt=fmt, ev_count=2, backup=0))
    a.profiles.move_ev("p", LOAD)
    for index in range(2):
        value = int.from_bytes(path(index + 1).da, "big")
        a.profiles.ev["p"].write(1, index, value, ev=100 + index)
    a.profiles.move_ev("p", ENABLE)
    mine, theirs = a.create_qp(qp_config(ev=EvConfig(profile="p"))), b.create_qp(qp_config())
    a.connect_qp(mine.qpn, theirs, 0)
    now = 0

    def ways() -> set[tuple[int, bytes]]:
        """(EV, outer destination) of what is sent."""
        nonlocal now
        a.post_write(mine.qpn, 1, bytes(256 * 8), 0x10000000, 1)
        found = set()
        for _ in range(20):
            for _, frame in a.frames_to_send(now):
                packet = parse(frame)
                assert packet is not None
                found.add((packet.ev, frame[38:54]))
            now += 10_000
        return found

    def replace(old: int, new: int, way: SrPath | None) -> None:
        if through == "qp":
            a.replace_ev(mine.qpn, old, new, now, way)
        else:
            a.profiles.replace_ev("p", old, new, now, way)

    assert ways() == {(100, path(1).da), (101, path(2).da)}
    for wrong in (None, SrPath(path(3).da, (path(4).da,))):
        with pytest.raises((ConfigError, EndpointError), match="srv6 needs the outer destination"):
            replace(100, 200, wrong)
    assert ways() == {(100, path(1).da), (101, path(2).da)}
    replace(100, 200, path(3))
    assert ways() == {(200, path(3).da), (101, path(2).da)}
    replace(200, 100, path(4))  # the same number, another way
    assert ways() == {(100, path(4).da), (101, path(2).da)}
    assert a.query_qp(mine.qpn).parts.reverse.of_port(1) in (100, 101)


def test_an_ev_without_outer_addresses_gets_none():
    duo = on_profile(EvMode.EXPLICIT)
    with pytest.raises(ConfigError, match="kind ecmp has no outer addresses"):
        duo.ends[0].profiles.replace_ev("p", 0xC010, 0xD000, 0, SrPath(bytes(16)))
