"""The `transport` section of a drill: names that exist, and endpoints that are set so."""

from __future__ import annotations

import pytest

from drills.format import check_names, parse
from topologies.yamlspec import SpecError

DRILL = """
name: x
title: x
workload: {{flows: [{{from: h0, to: h2}}]}}
duration: 9 s
expect: {{}}
{more}
"""


def test_defaults_and_each_host_its_own() -> None:
    drill = parse(
        DRILL.format(
            more="transport: {cc: fixed, cc_params: {window_bytes: 65536}}\n"
            "transport_of: {h2: {interop: as-printed}}"
        )
    )
    assert drill.transport_at("h0").cc == "fixed"
    assert drill.transport_at("h2").model_dump()["interop"] == "as-printed"
    assert drill.transport_at("h2").cc == "nscc"


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ("transport: {cc: nsc}", "transport.cc: no cc 'nsc'; did you mean 'nscc'"),
        ("transport: {selector: x}", "no selector 'x'"),
        ("transport: {interop: as-printd}", "did you mean 'as-printed'"),
        ("transport: {cc_params: {max_wnd_bdp: 2}}", "did you mean 'max_wnd_bdps'"),
        ("transport: {cc_params: {max_wnd_bdps: two}}", "max_wnd_bdps"),
        ("transport: {speed: 1}", "unknown key"),
    ],
)
def test_unknown_names_are_refused(more: str, message: str) -> None:
    with pytest.raises(SpecError, match=message) as caught:
        parse(DRILL.format(more=more))
    assert "\n" not in str(caught.value)


def test_an_unknown_host_is_refused() -> None:
    drill = parse(DRILL.format(more="transport_of: {h7: {interop: as-printed}}"))
    with pytest.raises(SpecError, match="no host 'h7'"):
        check_names(drill, ["h0:p0t0-0"], ["h0", "h1", "h2"])
