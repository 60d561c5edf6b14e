"""Whole frames: the hot-path interface of the endpoint.

flow = FlowTemplate(src_mac, dst_mac, src_ip, dst_ip, udp_port)   one per (port, peer)
frame = flow.data(...), .sack(...), .nack(...), .ack(...), .probe(...), ...
packet = parse(frame)            None when the frame is not MRC
"""

from hosts.wire.parse import Packet, parse
from hosts.wire.template import FlowTemplate, ip_bytes, mac_bytes

__all__ = ["FlowTemplate", "Packet", "ip_bytes", "mac_bytes", "parse"]
