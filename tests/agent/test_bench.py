"""The endpoint bench in small: it runs, and its figures make sense."""

from __future__ import annotations

import pytest

from bench import endpoint
from tests.agent.pair import root

pytestmark = [
    pytest.mark.net,
    pytest.mark.skipif(not root(), reason="network namespaces need root"),
]


def test_bench_endpoint_in_small() -> None:
    figures = endpoint.run(seconds=0.1)
    assert figures["packet_bytes"] == 4096 + 102
    assert figures["endpoint_retransmitted"] == 0
    assert figures["socket_drops"] == 0
    assert figures["bare_packets_per_s"] > 0
    assert figures["codec_packets_per_s"] > 0
    assert figures["endpoint_over_scapy"] > 3  # 80 on an idle machine; this one may be busy
