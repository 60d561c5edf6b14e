"""Hex text as people paste it: spaces, colons, `0x`, and dumps with offsets and an ASCII column."""

from __future__ import annotations

import re

_DUMP_LINE = re.compile(
    r"^\s*(?:0x)?(?P<offset>[0-9a-fA-F]{4,8}):?\s+(?P<hex>(?:[0-9a-fA-F]{2,}\s?)+)"
)
# The line that tcpdump prints above a dump.
_TCPDUMP_LINE = re.compile(r"^(\d{4}-\d\d-\d\d )?\d\d:\d\d:\d\d\.\d+ ")
_SEPARATORS = re.compile(r"[\s:_,-]+")


class HexTextError(ValueError):
    """Text that is no hex; str() says what and where."""


def parse_hex(text: str) -> bytes:
    """Bytes of one packet written as hex digits.

    Raises HexTextError for an odd number of digits or another character.
    """
    digits = _SEPARATORS.sub("", text.strip())
    if digits[:2] in ("0x", "0X"):
        digits = digits[2:]
    wrong = re.search(r"[^0-9a-fA-F]", digits)
    if wrong:
        raise HexTextError(f"{wrong.group()!r} is not a hex digit")
    if not digits:
        raise HexTextError("no hex digits")
    if len(digits) % 2:
        raise HexTextError(f"{len(digits)} hex digits: the last byte is only half there")
    return bytes.fromhex(digits)


def parse_packets(text: str) -> list[tuple[int, bytes]]:
    """(line number, bytes) of each packet: one a line, or dumps as `tcpdump -x` and xxd print them.

    In a dump the offset starts each line and goes back to 0 for the next packet. Empty lines
    and lines that begin with `#` are skipped. Raises HexTextError naming the line.
    """
    packets: list[tuple[int, bytes]] = []
    dump: tuple[int, bytearray] | None = None
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#") or _TCPDUMP_LINE.match(line):
            continue
        found = _dump_line(line, len(dump[1]) if dump else 0)
        if found is not None:
            offset, data = found
            if offset == 0 or dump is None:
                dump = (number, bytearray())
                packets.append((number, b""))
            dump[1].extend(data)
            packets[-1] = (dump[0], bytes(dump[1]))
            continue
        dump = None
        try:
            packets.append((number, parse_hex(line)))
        except HexTextError as error:
            raise HexTextError(f"line {number}: {error}") from None
    return packets


def _dump_line(line: str, expected: int) -> tuple[int, bytes] | None:
    """(offset, bytes) when a line is one of a dump that goes on at `expected` or begins anew."""
    found = _DUMP_LINE.match(line)
    if found is None:
        return None
    offset = int(found["offset"], 16)
    if offset not in (0, expected):
        return None
    # An ASCII column stands two spaces away; a dump's line holds at most 16 bytes.
    digits = re.split(r"\s{2,}", found["hex"].strip())[0]
    digits = re.sub(r"\s", "", digits)
    if len(digits) % 2 or len(digits) > 64 or (offset == 0 and len(digits) > 32):
        return None
    return offset, bytes.fromhex(digits)
