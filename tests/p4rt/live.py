"""A real switch on veth pairs, driven by p4runtime-shell: run in its own network namespace.

    unshare -n python -m tests.p4rt.live DIRECTORY builtin|bmv2

Compiles io.p4, starts a switch of that kind, lets the shell program it, exchanges frames and
packet in/out, and prints what was seen as JSON.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import grpc
from google.protobuf import text_format
from p4.config.v1 import p4info_pb2
from p4.v1 import p4runtime_pb2 as pb
from p4.v1 import p4runtime_pb2_grpc
from p4runtime_sh.p4runtime import P4RuntimeClient

from softswitch.ctl import CtlClient
from softswitch.p4 import compile_program
from tests.p4rt.client import INSERT, MODIFY, wrap
from tests.switch_kinds import LiveSwitch
from tests.waiting import wait_for

SOL_PACKET, PACKET_IGNORE_OUTGOING = 263, 23
ETH_P_ALL = 3
A, B, C = (bytes((2, 0, 0, 0, 0, i)) for i in (1, 2, 3))


def sh(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True)


def make_ports() -> dict[int, socket.socket]:
    sh("ip", "link", "set", "lo", "up")
    sockets = {}
    for port in (1, 2, 3):
        sh("ip", "link", "add", f"s{port}", "type", "veth", "peer", "name", f"t{port}")
        for name in (f"s{port}", f"t{port}"):
            Path(f"/proc/sys/net/ipv6/conf/{name}/disable_ipv6").write_text("1")
            sh("ip", "link", "set", name, "up")
        sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
        sock.bind((f"t{port}", ETH_P_ALL))
        sock.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
        sockets[port] = sock
    return sockets


def frame(dst: bytes, src: bytes = A, kind: int = 0x88B5, text: bytes = b"hello") -> bytes:
    return dst + src + kind.to_bytes(2, "big") + text.ljust(46, b".")


class Ports:
    """Sends frames and says where they come out."""

    def __init__(self) -> None:
        self.sockets = make_ports()

    def arrivals(self, count: int, timeout: float = 5.0) -> list[int]:
        """Ports on which `count` frames arrived, sorted; fewer if time runs out."""
        out: list[int] = []
        while len(out) < count:
            ready, _, _ = select.select(list(self.sockets.values()), [], [], timeout)
            if not ready:
                break
            for port, sock in self.sockets.items():
                if sock in ready:
                    with contextlib.suppress(OSError):  # says once that the link went down
                        sock.recv(9000)
                        out.append(port)
        return sorted(out)

    def send(self, port: int, data: bytes, count: int = 1) -> list[int]:
        self.sockets[port].send(data)
        return self.arrivals(count)


SHELL = """
te = table_entry["I.l2"](action="I.fwd")
te.match["h.eth.dst"] = "02:00:00:00:00:02"
te.action["port"] = "2"
te.insert()
te = table_entry["I.l2"](action="I.to_cpu")
te.match["h.eth.dst"] = "02:00:00:00:00:03"
te.insert()
te = table_entry["I.acl"](action="I.setclass")
te.match["h.eth.type"] = "0x9000..0x9100"
te.priority = 5
te.action["c"] = "9"
te.insert()
table_entry["I.l2"].read(lambda e: print("READ", e.match, e.action))
te.insert()
d = table_entry["I.l2"](action="I.fwd", is_default=True)
d.action["port"] = "3"
d.modify()
g = multicast_group_entry(7)
g.add(2, 1).add(3, 1)
g.insert()
te = table_entry["I.l2"](action="I.flood")
te.match["h.eth.dst"] = "ff:ff:ff:ff:ff:ff"
te.action["g"] = "7"
te.insert()
c = clone_session_entry(5)
c.add(3, 1)
c.insert()
te = table_entry["I.l2"](action="I.mirror")
te.match["h.eth.dst"] = "02:00:00:00:00:09"
te.action["port"] = "2"
te.insert()
print("DONE")
"""


def shell(address: str, files: str, text: str, home: Path) -> str:
    """What p4runtime-shell prints for the given input."""
    done = subprocess.run(
        [sys.executable, "-m", "p4runtime_sh", "--grpc-addr", address, "--device-id", "1",
         "--election-id", "0,1", "--config", files],
        input=text, capture_output=True, text=True, timeout=30, check=False,
        env={**os.environ, "HOME": str(home)},  # IPython keeps a history
    )  # fmt: skip
    return done.stdout + done.stderr


def groups(client: P4RuntimeClient, info: Any, ports: Ports, out: dict[str, Any]) -> None:
    """Selector with watch_port: the members of a port that goes down are passed over."""
    ids = {t.preamble.name: t.preamble.id for t in [*info.tables, *info.actions]}
    profile = info.action_profiles[0].preamble.id

    def write(kind: int, *entities: Any) -> None:
        client.write(pb.WriteRequest(updates=[pb.Update(type=kind, entity=e) for e in entities]))

    members = []
    for port in (2, 3):
        member = pb.ActionProfileMember(action_profile_id=profile, member_id=port)
        member.action.action_id = ids["I.fwd"]
        member.action.params.add(param_id=1, value=bytes((port,)))
        members.append(wrap(member))
    write(INSERT, *members)
    group = pb.ActionProfileGroup(action_profile_id=profile, group_id=1)
    for port in (2, 3):
        group.members.add(member_id=port, weight=1, watch_port=bytes((port,)))
    write(INSERT, wrap(group))
    entry = pb.TableEntry(table_id=ids["I.ecmp"])
    entry.match.add(field_id=1).lpm.CopyFrom(pb.FieldMatch.LPM(value=b"\x77\x00", prefix_len=8))
    entry.action.action_profile_group_id = 1
    write(INSERT, wrap(entry))
    flows = [frame(B, bytes((2, 0, 0, 0, 1, i)), 0x7701) for i in range(16)]
    for flow in flows:
        ports.sockets[1].send(flow)
    out["spread"] = ports.arrivals(16)
    sh("ip", "link", "set", "t2", "down")

    def passed_over() -> bool:
        for flow in flows:
            ports.sockets[1].send(flow)
        out["spread_down"] = ports.arrivals(16, 0.5)
        return out["spread_down"] == [3] * 16

    # The switch hears of it a little later.
    wait_for("the other port takes all", passed_over, 60)
    sh("ip", "link", "set", "t2", "up")
    group.members[0].watch_port = b"\x63"
    out["bad_watch"] = None
    try:
        write(MODIFY, wrap(group))
    except Exception as error:
        out["bad_watch"] = str(error)


def main(directory: Path, kind: str) -> int:
    """Exit status 0 when everything ran; the judging is the test's."""
    json_path, info_path = compile_program(
        Path(__file__).with_name("io.p4"), directory, compiler="builtin"
    )
    # /sys as inherited shows the interfaces of the machine, and bmv2 reads link state there.
    sh("mount", "-t", "sysfs", "none", "/sys")
    ports = Ports()
    ctl_path = directory / "ctl"
    out: dict[str, Any] = {}
    interfaces = {port: f"s{port}" for port in ports.sockets}
    switch = LiveSwitch(kind, directory, ports=interfaces, flags=["--ctl", str(ctl_path)])
    try:
        address = switch.ready().address
        out["shell"] = shell(address, f"{info_path},{json_path}", SHELL, directory)
        out["known"] = ports.send(1, frame(B))
        out["default"] = ports.send(1, frame(bytes((2, 0, 0, 0, 0, 8))))
        out["flood"] = ports.send(1, frame(b"\xff" * 6), 2)
        out["mirror"] = ports.send(1, frame(bytes((2, 0, 0, 0, 0, 9))), 2)
        ports.sockets[1].send(frame(B, kind=0x9010))
        out["dropped_then_known"] = ports.send(1, frame(B))
        client = P4RuntimeClient(1, address, (0, 2))
        try:
            packet_io(client, ports, out)
            info = text_format.Parse(info_path.read_text(), p4info_pb2.P4Info())
            counters(address, info, out)
            groups(client, info, ports, out)
        finally:
            client.tear_down()
        if kind == "builtin":
            with CtlClient(ctl_path) as ctl:
                out["stats"] = ctl.stats()
        switch.process.terminate()
        out["status"] = switch.process.wait(30)
    finally:
        switch.close()
    print(json.dumps(out))
    return 0


def packet_io(client: P4RuntimeClient, ports: Ports, out: dict[str, Any]) -> None:
    ports.sockets[1].send(frame(C))
    packet = client.get_stream_packet("packet", timeout=5).packet
    out["packet_in"] = packet.payload == frame(C)
    out["packet_in_metadata"] = [[m.metadata_id, m.value.hex()] for m in packet.metadata]
    request = pb.StreamMessageRequest()
    request.packet.payload = frame(B, text=b"out")
    request.packet.metadata.add(metadata_id=1, value=b"\x03")
    client.stream_out_q.put(request)
    out["packet_out"] = ports.arrivals(1)


def counters(address: str, info: Any, out: dict[str, Any]) -> None:
    """Direct counter of the first l2 entry, the counter by ingress port, the register."""
    table = next(t.preamble.id for t in info.tables if t.preamble.name == "I.l2")
    request = pb.ReadRequest(device_id=1)
    request.entities.append(wrap(pb.TableEntry(table_id=table, counter_data=pb.CounterData())))
    request.entities.append(
        wrap(pb.CounterEntry(counter_id=info.counters[0].preamble.id, index=pb.Index(index=1)))
    )
    with grpc.insecure_channel(address) as channel:
        stub = p4runtime_pb2_grpc.P4RuntimeStub(channel)
        entities = [e for reply in stub.Read(request) for e in reply.entities]
        cell = pb.RegisterEntry(register_id=info.registers[0].preamble.id, index=pb.Index())
        read = pb.ReadRequest(device_id=1, entities=[wrap(cell)])
        try:
            (register,) = [e.register_entry for reply in stub.Read(read) for e in reply.entities]
            out["register"] = register.data.bitstring.hex()
        except grpc.RpcError as error:
            out["register"] = error.code().value[0]
    first = next(e.table_entry for e in entities if e.table_entry.match[0].exact.value == B)
    out["direct_counter"] = [first.counter_data.packet_count, first.counter_data.byte_count]
    out["counter"] = entities[-1].counter_entry.data.packet_count


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2]))
