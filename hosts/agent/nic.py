"""One NIC port: a packet socket on an interface.

Plain `recv_into`/`send` per frame: on a veth pair the kernel's work for a 4 KiB frame (1.3 us to
send, 0.7 us to receive) dwarfs the system call, and batched calls in C measured within 5 % of
these (bench/endpoint.py), so there is no C here.
"""

from __future__ import annotations

import ctypes
import fcntl
import socket
import struct
from collections.abc import Iterable

from hosts.agent import bpf

ETH_P_IP, ETH_P_IPV6 = 0x0800, 0x86DD
SOL_PACKET = 263
PACKET_STATISTICS = 6
PACKET_QDISC_BYPASS = 20
PACKET_IGNORE_OUTGOING = 23
SO_RCVBUFFORCE, SO_SNDBUFFORCE = 33, 32
SIOCGIFFLAGS, SIOCETHTOOL, ETHTOOL_GLINK = 0x8913, 0x8946, 0x0A
IFF_UP = 0x1
BUFFER_BYTES = 16 << 20
FRAME_ROOM = 65536


class NicError(Exception):
    """An interface that cannot be used; str() is one line."""


class Nic:
    """Frames of one port. Counters count whole frames, Ethernet header included, no FCS."""

    def __init__(
        self,
        port: int,
        interface: str,
        udp_ports: Iterable[int],
        *,
        ipv4: bool,
        visible: bool = False,
    ) -> None:
        """`visible`: what is sent passes the kernel's taps (tcpdump), at some cost."""
        self.port = port
        self.interface = interface
        self.rx_packets = self.rx_bytes = 0
        self.tx_packets = self.tx_bytes = 0
        self.tx_errors: dict[str, int] = {}
        self.last_errno = 0  # of the last frame that was refused
        self._drops = 0
        try:
            self.index = socket.if_nametoindex(interface)
        except OSError:
            known = ", ".join(name for _, name in socket.if_nameindex())
            raise NicError(
                f"port {port}: no interface {interface!r} in this namespace; there are: {known}"
            ) from None
        try:
            self.sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        except PermissionError:
            raise NicError("packet sockets need root (CAP_NET_RAW) in this namespace") from None
        bpf.attach(self.sock, bpf.mrc_filter(udp_ports))  # before bind: nothing slips through
        self.sock.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
        self.sock.setsockopt(SOL_PACKET, PACKET_QDISC_BYPASS, 0 if visible else 1)
        for option in (SO_RCVBUFFORCE, SO_SNDBUFFORCE):
            self._try_option(option)
        self.sock.bind((interface, ETH_P_IP if ipv4 else ETH_P_IPV6))
        self.sock.setblocking(False)
        self._buffer = memoryview(bytearray(FRAME_ROOM))
        self._send = self.sock.send
        self._recv_into = self.sock.recv_into

    def _try_option(self, option: int) -> None:
        try:
            self.sock.setsockopt(socket.SOL_SOCKET, option, BUFFER_BYTES)
        except PermissionError:  # user namespace: as much as the limit allows
            plain = socket.SO_RCVBUF if option == SO_RCVBUFFORCE else socket.SO_SNDBUF
            self.sock.setsockopt(socket.SOL_SOCKET, plain, BUFFER_BYTES)

    def fileno(self) -> int:
        return self.sock.fileno()

    def receive(self) -> memoryview | None:
        """The next frame, or None. The memory is reused by the next call."""
        try:
            size = self._recv_into(self._buffer)
        except BlockingIOError:
            return None
        except OSError:  # ENETDOWN, reported once when the interface goes down
            return None
        self.rx_packets += 1
        self.rx_bytes += size
        return self._buffer[:size]

    def send(self, frame: bytes) -> bool:
        """Send one frame; a refusal is counted by its cause and is otherwise like a loss."""
        try:
            self._send(frame)
        except OSError as error:
            cause = error.strerror or str(error)
            self.tx_errors[cause] = self.tx_errors.get(cause, 0) + 1
            self.last_errno = error.errno or 0
            return False
        self.tx_packets += 1
        self.tx_bytes += len(frame)
        return True

    @property
    def sock_drops(self) -> int:
        """Frames the kernel dropped because this socket's buffer was full, ever."""
        raw = self.sock.getsockopt(SOL_PACKET, PACKET_STATISTICS, 8)
        self._drops += struct.unpack("II", raw)[1]  # reading resets it
        return self._drops

    def running(self) -> bool:
        """Whether the interface is up and has a carrier, at this moment.

        Not IFF_RUNNING: that follows the carrier up to a second late when both ends of a veth
        pair happen to have the same index in their namespaces.
        """
        name = self.interface.encode()
        link = bytearray(struct.pack("II", ETHTOOL_GLINK, 0))
        request = struct.pack("16sP16x", name, ctypes.addressof(ctypes.c_char.from_buffer(link)))
        try:
            reply = fcntl.ioctl(self.sock, SIOCGIFFLAGS, struct.pack("16sH22x", name, 0))
            fcntl.ioctl(self.sock, SIOCETHTOOL, request)
        except OSError:
            return False
        flags: int = struct.unpack_from("H", reply, 16)[0]
        return bool(flags & IFF_UP and struct.unpack_from("I", link, 4)[0])

    def stats(self) -> dict[str, object]:
        return {
            "interface": self.interface,
            "rx_packets": self.rx_packets,
            "rx_bytes": self.rx_bytes,
            "tx_packets": self.tx_packets,
            "tx_bytes": self.tx_bytes,
            "tx_errors": sum(self.tx_errors.values()),
            "tx_error_causes": dict(self.tx_errors),
            "sock_drops": self.sock_drops,
        }

    def close(self) -> None:
        self.sock.close()


def silence_kernel(udp_ports: Iterable[int], addresses: Iterable[str]) -> list[socket.socket]:
    """Sockets that own the UDP ports and drop everything, so that the kernel never answers MRC
    packets with "port unreachable". Keep them open."""
    families = {socket.AF_INET6 if ":" in text else socket.AF_INET for text in addresses}
    held = []
    for family in sorted(families):
        for port in sorted(set(udp_ports)):
            sock = socket.socket(family, socket.SOCK_DGRAM)
            bpf.attach(sock, bpf.DROP_ALL)
            if family == socket.AF_INET6:
                sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            try:
                sock.bind(("::" if family == socket.AF_INET6 else "0.0.0.0", port))
            except OSError as error:
                raise NicError(
                    f"UDP port {port}: {error.strerror}; is another agent in this namespace?"
                ) from None
            held.append(sock)
    return held


class LinkWatch:
    """Tells which interfaces changed state: an rtnetlink socket in the group of links."""

    NETLINK_ROUTE, RTMGRP_LINK = 0, 1

    def __init__(self) -> None:
        self.sock = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, self.NETLINK_ROUTE)
        self.sock.bind((0, self.RTMGRP_LINK))
        self.sock.setblocking(False)

    def fileno(self) -> int:
        return self.sock.fileno()

    def changed(self) -> bool:
        """Drain; whether anything was said. Ask `Nic.running` then: the newest state counts."""
        said = False
        while True:
            try:
                said = bool(self.sock.recv(65536)) or said
            except BlockingIOError:
                return said
            except OSError:  # ENOBUFS: messages were lost, so look
                said = True
