"""The Mermaid drawing."""

from __future__ import annotations

import pytest

from tests.topologies.fabrics import two_plane
from topologies.draw import main, mermaid


def test_every_node_and_link_once() -> None:
    text = mermaid(two_plane())
    assert text.count(" --- ") == 16
    for switch in two_plane().switches:
        assert text.count(f"[{switch}]") == 1
    assert "linkStyle" not in text


def test_highlight() -> None:
    text = mermaid(two_plane(), {"p0t0-0:p0t1-1"})
    assert text.count(" -.- ") == 1
    number = list(two_plane().links).index("p0t0-0:p0t1-1")
    assert f"linkStyle {number} stroke:red" in text


def test_main(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    assert "flowchart" in capsys.readouterr().out
    assert main(["two-plan"]) == 2
    assert "did you mean 'two-plane'" in capsys.readouterr().err
