"""The socket filter of a NIC: MRC packets only, so that nothing else costs Python time."""

from __future__ import annotations

import ctypes
import socket
import struct
from collections.abc import Iterable

SO_ATTACH_FILTER = 26

LDH, LDB, LDXB_MSH, LDH_IND = 0x28, 0x30, 0xB1, 0x48
JEQ, RET = 0x15, 0x06
ACCEPT, DROP = 0x40000, 0

# (code, jump to label if true, if false, operand); labels are resolved by `assemble`
Line = tuple[str, int, str, str, int]


def assemble(lines: list[Line]) -> list[tuple[int, int, int, int]]:
    """Resolve labels (empty: the next line) to relative jumps."""
    at = {label: i for i, (label, *_) in enumerate(lines) if label}

    def jump(label: str, i: int) -> int:
        return at[label] - i - 1 if label else 0

    return [
        (code, jump(yes, i), jump(no, i), operand)
        for i, (_, code, yes, no, operand) in enumerate(lines)
    ]


def mrc_filter(ports: Iterable[int]) -> list[tuple[int, int, int, int]]:
    """UDP to one of the ports over IPv6 or IPv4, and everything IPv6 with IPv6 or SRH inside."""
    wanted = sorted(set(ports))

    def port_tests(prefix: str) -> list[Line]:
        return [
            (
                f"{prefix}{i}",
                JEQ,
                "accept",
                f"{prefix}{i + 1}" if i + 1 < len(wanted) else "drop",
                p,
            )
            for i, p in enumerate(wanted)
        ]

    return assemble(
        [
            ("", LDH, "", "", 12),
            ("", JEQ, "v6", "", 0x86DD),
            ("", JEQ, "v4", "drop", 0x0800),
            ("v6", LDB, "", "", 20),
            ("", JEQ, "v6udp", "", 17),
            ("", JEQ, "accept", "", 41),
            ("", JEQ, "accept", "drop", 43),
            ("v6udp", LDH, "", "", 56),
            *port_tests("six"),
            ("v4", LDB, "", "", 23),
            ("", JEQ, "", "drop", 17),
            ("", LDXB_MSH, "", "", 14),
            ("", LDH_IND, "", "", 16),
            *port_tests("four"),
            ("accept", RET, "", "", ACCEPT),
            ("drop", RET, "", "", DROP),
        ]
    )


def attach(sock: socket.socket, program: list[tuple[int, int, int, int]]) -> None:
    """Put a classic BPF program on a socket."""
    code = b"".join(struct.pack("HBBI", *line) for line in program)
    buffer = ctypes.create_string_buffer(code)
    header = struct.pack("HL", len(program), ctypes.addressof(buffer))
    sock.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, header)


DROP_ALL = [(RET, 0, 0, DROP)]
