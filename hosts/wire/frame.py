"""Whole frames: the hot-path interface of the endpoint.

flow = FlowTemplate(src_mac, dst_mac, src_ip, dst_ip, udp_port)   one per (port, peer)
flow = flow_template(..., encap=...)                              the same, SRv6 when encap is given
frame = flow.data(...), .sack(...), .nack(...), .ack(...), .probe(...), ...
packet = parse(frame)            None when the frame is not MRC
"""

from hosts.wire.encap import Encap, EncapTemplate, flow_template
from hosts.wire.parse import Packet, parse
from hosts.wire.template import FlowTemplate, ip_bytes, mac_bytes

__all__ = [
    "Encap",
    "EncapTemplate",
    "FlowTemplate",
    "Packet",
    "flow_template",
    "ip_bytes",
    "mac_bytes",
    "parse",
]
