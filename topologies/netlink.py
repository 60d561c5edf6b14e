"""Just enough rtnetlink to wire a fabric in one go: batched requests, whole dumps.

A process per command (Mininet's way) costs milliseconds per interface and pyroute2 a third of
a second to import; this costs microseconds per request. Every request is acknowledged and a
refusal raises `NetlinkError` with the request in words and the kernel's own explanation.

Constants are from the kernel's uapi headers (rtnetlink.h, if_link.h, neighbour.h).
"""

from __future__ import annotations

import ctypes
import errno
import os
import socket
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from ipaddress import IPv6Address, IPv6Network

_NETLINK_ROUTE = 0
_SOL_NETLINK, _NETLINK_EXT_ACK, _NETLINK_GET_STRICT_CHK = 270, 11, 12
_NLMSG_ERROR, _NLMSG_DONE = 2, 3
_RTM_NEWLINK, _RTM_DELLINK, _RTM_GETLINK = 16, 17, 18
_RTM_NEWADDR, _RTM_GETADDR, _RTM_NEWROUTE, _RTM_NEWNEIGH = 20, 22, 24, 28
_REQUEST, _ACK, _DUMP = 0x1, 0x4, 0x300
_REPLACE, _EXCL, _CREATE = 0x100, 0x200, 0x400
_NLM_F_ACK_TLVS = 0x200

_IFLA_ADDRESS, _IFLA_IFNAME, _IFLA_MTU, _IFLA_QDISC = 1, 3, 4, 6
_IFLA_OPERSTATE, _IFLA_LINKINFO, _IFLA_STATS64 = 16, 18, 23
_IFLA_NET_NS_FD, _IFLA_CARRIER = 28, 33
_IFLA_INFO_KIND, _IFLA_INFO_DATA, _VETH_INFO_PEER = 1, 2, 1
_NLMSGERR_ATTR_MSG = 1
_IFA_ADDRESS, _IFA_LOCAL, _IFA_F_NODAD, _IFA_F_PERMANENT = 1, 2, 0x02, 0x80
_RTA_DST, _RTA_OIF, _RTA_GATEWAY, _RTA_PREFSRC = 1, 4, 5, 7
_NDA_DST, _NDA_LLADDR, _NUD_PERMANENT = 1, 2, 0x80
_RT_TABLE_MAIN, _RTPROT_STATIC, _RTN_UNICAST, _RTN_BLACKHOLE = 254, 4, 1, 6

IFF_UP, IFF_RUNNING, IFF_NOARP = 0x1, 0x40, 0x80
OPERSTATES = ("unknown", "notpresent", "down", "lowerlayerdown", "testing", "dormant", "up")

_CLONE_NEWNET = 0x40000000
_libc = ctypes.CDLL(None, use_errno=True)


class NetlinkError(OSError):
    """The kernel refused a request; ``str()`` is one line with the request in words."""

    def __init__(self, code: int, what: str, detail: str = "") -> None:
        super().__init__(code, os.strerror(code))
        self.what = what
        self.detail = detail

    def __str__(self) -> str:
        detail = f" ({self.detail})" if self.detail else ""
        return f"{self.what}: {os.strerror(self.errno or 0)}{detail}"


@dataclass(frozen=True)
class IfStats:
    """Kernel counters of an interface, 64 bits wide."""

    rx_packets: int
    tx_packets: int
    rx_bytes: int
    tx_bytes: int
    rx_errors: int
    tx_errors: int
    rx_dropped: int
    tx_dropped: int


@dataclass(frozen=True)
class LinkInfo:
    """An interface as the kernel reports it."""

    index: int
    name: str
    flags: int
    mtu: int
    mac: str
    operstate: str
    carrier: bool
    qdisc: str
    stats: IfStats

    @property
    def up(self) -> bool:
        """Administratively up and running: frames pass."""
        return self.flags & (IFF_UP | IFF_RUNNING) == IFF_UP | IFF_RUNNING and self.carrier


@dataclass(frozen=True)
class Request:
    """A message ready to send; ``what`` says in words what it asks for."""

    kind: int
    flags: int
    body: bytes
    what: str


@dataclass(frozen=True)
class VethEnd:
    """One end of a veth pair to make."""

    name: str
    mac: str
    netns_fd: int | None = None
    """Namespace it goes to; None: that of the socket."""
    index: int = 0
    """Interface index; 0: the kernel chooses. Give it for both ends or for none."""


def _attribute(kind: int, data: bytes) -> bytes:
    length = 4 + len(data)
    return struct.pack("=HH", length, kind) + data + bytes(-length % 4)


def _attributes(data: bytes | memoryview) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at + 4 <= len(data):
        length, kind = struct.unpack_from("=HH", data, at)
        if length < 4 or at + length > len(data):
            return
        yield kind & 0x3FFF, bytes(data[at + 4 : at + length])
        at += (length + 3) & ~3


def _mac_bytes(mac: str) -> bytes:
    return bytes.fromhex(mac.replace(":", ""))


def _text(data: bytes) -> str:
    return data.rstrip(b"\0").decode("ascii", "replace")


def _ifinfo(index: int = 0, flags: int = 0, change: int = 0) -> bytes:
    return struct.pack("=BxHiII", socket.AF_UNSPEC, 0, index, flags, change)


def _end_attributes(end: VethEnd, mtu: int) -> bytes:
    out = _attribute(_IFLA_IFNAME, end.name.encode() + b"\0")
    out += _attribute(_IFLA_ADDRESS, _mac_bytes(end.mac)) + _attribute(
        _IFLA_MTU, struct.pack("=I", mtu)
    )
    if end.netns_fd is not None:
        out += _attribute(_IFLA_NET_NS_FD, struct.pack("=i", end.netns_fd))
    return out


def new_veth(a: VethEnd, b: VethEnd, mtu: int) -> Request:
    """A veth pair, both ends down, each made where it belongs (no interface is moved)."""
    peer = _attribute(_VETH_INFO_PEER, _ifinfo(b.index) + _end_attributes(b, mtu))
    info = _attribute(_IFLA_INFO_KIND, b"veth\0") + _attribute(_IFLA_INFO_DATA, peer)
    body = _ifinfo(a.index) + _end_attributes(a, mtu) + _attribute(_IFLA_LINKINFO, info)
    return Request(_RTM_NEWLINK, _CREATE | _EXCL, body, f"make veth pair {a.name} - {b.name}")


def set_flags(index: int, flags: int, change: int, what: str) -> Request:
    """Set the interface flags in ``change`` to their value in ``flags``."""
    return Request(_RTM_NEWLINK, 0, _ifinfo(index, flags, change), what)


def set_up(index: int, name: str, up: bool = True) -> Request:
    """Administrative state of an interface."""
    return set_flags(index, IFF_UP if up else 0, IFF_UP, f"set {name} {'up' if up else 'down'}")


def delete_link(index: int, name: str) -> Request:
    """Remove an interface (and with it its veth peer)."""
    return Request(_RTM_DELLINK, 0, _ifinfo(index), f"remove {name}")


def add_address(index: int, address: str, prefix: int) -> Request:
    """An IPv6 address, without duplicate address detection."""
    raw = IPv6Address(address).packed
    head = struct.pack("=BBBBI", socket.AF_INET6, prefix, _IFA_F_NODAD | _IFA_F_PERMANENT, 0, index)
    body = head + _attribute(_IFA_LOCAL, raw) + _attribute(_IFA_ADDRESS, raw)
    return Request(_RTM_NEWADDR, _CREATE | _REPLACE, body, f"add address {address}/{prefix}")


def add_route(index: int, target: IPv6Network, gateway: str, source: str) -> Request:
    """An IPv6 route through a gateway, with the source address to use."""
    head = struct.pack(
        "=BBBBBBBBI",
        socket.AF_INET6,
        target.prefixlen,
        0,
        0,
        _RT_TABLE_MAIN,
        _RTPROT_STATIC,
        0,
        _RTN_UNICAST,
        0,
    )
    body = (
        head
        + _attribute(_RTA_DST, target.network_address.packed)
        + _attribute(_RTA_OIF, struct.pack("=I", index))
        + _attribute(_RTA_GATEWAY, IPv6Address(gateway).packed)
        + _attribute(_RTA_PREFSRC, IPv6Address(source).packed)
    )
    return Request(_RTM_NEWROUTE, _CREATE | _REPLACE, body, f"add route {target} via {gateway}")


def add_blackhole(target: IPv6Network) -> Request:
    """A route that drops without an answer."""
    head = struct.pack(
        "=BBBBBBBBI",
        socket.AF_INET6,
        target.prefixlen,
        0,
        0,
        _RT_TABLE_MAIN,
        _RTPROT_STATIC,
        0,
        _RTN_BLACKHOLE,
        0,
    )
    body = head + _attribute(_RTA_DST, target.network_address.packed)
    return Request(_RTM_NEWROUTE, _CREATE | _REPLACE, body, f"add blackhole {target}")


def add_neighbour(index: int, address: str, mac: str) -> Request:
    """A permanent IPv6 neighbour."""
    head = struct.pack("=BxHiHBB", socket.AF_INET6, 0, index, _NUD_PERMANENT, 0, 0)
    body = (
        head
        + _attribute(_NDA_DST, IPv6Address(address).packed)
        + _attribute(_NDA_LLADDR, _mac_bytes(mac))
    )
    return Request(_RTM_NEWNEIGH, _CREATE | _REPLACE, body, f"add neighbour {address} {mac}")


class Netlink:
    """A route netlink socket of the namespace the calling thread is in. Not thread-safe."""

    BATCH = 24
    """Requests sent before their acknowledgements are read."""

    def __init__(self) -> None:
        self._socket = socket.socket(
            socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, _NETLINK_ROUTE
        )
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        self._socket.setsockopt(_SOL_NETLINK, _NETLINK_EXT_ACK, 1)
        self._socket.bind((0, 0))
        self._socket.settimeout(10)
        self._sequence = 0

    def close(self) -> None:
        """Close the socket. Idempotent."""
        self._socket.close()

    def __enter__(self) -> Netlink:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _pack(self, kind: int, flags: int, body: bytes) -> bytes:
        self._sequence += 1
        return struct.pack("=IHHII", 16 + len(body), kind, flags, self._sequence, 0) + body

    def _messages(self) -> Iterator[tuple[int, int, int, memoryview]]:
        data = memoryview(self._socket.recv(1 << 18))
        at = 0
        while at + 16 <= len(data):
            length, kind, flags, sequence, _ = struct.unpack_from("=IHHII", data, at)
            if length < 16:
                return
            yield kind, flags, sequence, data[at + 16 : at + length]
            at += (length + 3) & ~3

    def send(self, requests: Sequence[Request]) -> None:
        """Send all and wait until each is acknowledged. Raises NetlinkError for the first
        that was refused, after the acknowledgements of its batch have been read."""
        for start in range(0, len(requests), self.BATCH):
            batch = requests[start : start + self.BATCH]
            waiting = {}
            parts = []
            for request in batch:
                parts.append(
                    self._pack(request.kind, request.flags | _REQUEST | _ACK, request.body)
                )
                parts[-1] += bytes(-len(parts[-1]) % 4)
                waiting[self._sequence] = request
            self._socket.send(b"".join(parts))
            failed: NetlinkError | None = None
            while waiting:
                for kind, flags, sequence, body in self._messages():
                    if kind != _NLMSG_ERROR or sequence not in waiting:
                        continue
                    request = waiting.pop(sequence)
                    (code,) = struct.unpack_from("=i", body)
                    if code and failed is None:
                        failed = NetlinkError(-code, request.what, _explanation(flags, body))
            if failed is not None:
                raise failed

    def links(self) -> dict[str, LinkInfo]:
        """Every interface of the namespace by name, counters included, in one dump."""
        body = _ifinfo() + _attribute(29, struct.pack("=I", 8))  # EXT_MASK: statistics once
        while True:
            try:
                return {link.name: link for link in self._dump(body)}
            except InterruptedError:  # the kernel's list changed while it was dumped
                continue

    def _dump(self, body: bytes) -> list[LinkInfo]:
        self._socket.send(self._pack(_RTM_GETLINK, _REQUEST | _DUMP, body))
        sequence = self._sequence
        found: list[LinkInfo] = []
        torn = False
        while True:
            for kind, flags, number, data in self._messages():
                if number != sequence:
                    continue
                torn = torn or bool(flags & 0x10)  # NLM_F_DUMP_INTR
                if kind == _NLMSG_DONE:
                    if torn:
                        raise InterruptedError
                    return found
                if kind == _NLMSG_ERROR:
                    (code,) = struct.unpack_from("=i", data)
                    raise NetlinkError(-code, "list interfaces")
                if kind == _RTM_NEWLINK:
                    found.append(_link(data))

    def link(self, name: str) -> LinkInfo:
        """One interface by name. Raises NetlinkError (ENODEV) when there is none."""
        body = _ifinfo() + _attribute(_IFLA_IFNAME, name.encode() + b"\0")
        self._socket.send(self._pack(_RTM_GETLINK, _REQUEST, body))
        sequence = self._sequence
        while True:
            for kind, _flags, number, data in self._messages():
                if number != sequence:
                    continue
                if kind == _NLMSG_ERROR:
                    (code,) = struct.unpack_from("=i", data)
                    raise NetlinkError(-code, f"interface {name}")
                return _link(data)


def _explanation(flags: int, body: memoryview) -> str:
    """The text in an extended acknowledgement; empty when the kernel gave none."""
    if not flags & _NLM_F_ACK_TLVS:
        return ""
    length, _, inner_flags = struct.unpack_from("=IHH", body, 4)
    start = 4 + (16 if flags & 0x100 else (length + 3) & ~3)  # 0x100: request not echoed
    del inner_flags
    for kind, data in _attributes(body[start:]):
        if kind == _NLMSGERR_ATTR_MSG:
            return _text(data)
    return ""


def _link(data: memoryview) -> LinkInfo:
    _family, _kind, index, flags, _change = struct.unpack_from("=BxHiII", data)
    attributes = dict(_attributes(data[16:]))
    raw = attributes.get(_IFLA_STATS64, b"").ljust(64, b"\0")
    state = attributes.get(_IFLA_OPERSTATE, b"\0")[0]
    return LinkInfo(
        index=index,
        name=_text(attributes.get(_IFLA_IFNAME, b"")),
        flags=flags,
        mtu=int.from_bytes(attributes.get(_IFLA_MTU, b""), "little"),
        mac=":".join(f"{octet:02x}" for octet in attributes.get(_IFLA_ADDRESS, b"")),
        operstate=OPERSTATES[state] if state < len(OPERSTATES) else str(state),
        carrier=bool(attributes.get(_IFLA_CARRIER, b"\0")[0]),
        qdisc=_text(attributes.get(_IFLA_QDISC, b"")),
        stats=IfStats(*struct.unpack_from("=8Q", raw)),
    )


@contextmanager
def namespace(fd: int | None) -> Iterator[None]:
    """Run the block with the calling thread in another network namespace (None: stay).

    What the block opens (sockets, /proc/sys/net) is of that namespace and stays so.
    """
    if fd is None:
        yield
        return
    home = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        _setns(fd)
        try:
            yield
        finally:
            _setns(home)
    finally:
        os.close(home)


def _setns(fd: int) -> None:
    if _libc.setns(fd, _CLONE_NEWNET) != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"enter network namespace: {os.strerror(code)}")


def namespace_fd(pid: int) -> int:
    """An open handle on the network namespace of a process."""
    try:
        return os.open(f"/proc/{pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        raise ProcessLookupError(errno.ESRCH, f"no process {pid}") from None
