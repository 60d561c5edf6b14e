"""`./lab decode` and `./lab encode`: packets to fields and back."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import click

from mrclab.errors import EXIT_FAIL, UserError

PACKINGS = ("label-high", "sport-high", "label20")
# Larger is no hex text that anybody pasted.
MAX_TEXT_BYTES = 64 << 20

Decoder = Callable[..., dict[str, Any]]
"""(bytes, what they begin with, size on the wire) to a packet."""
Packets = Iterator[tuple[str, dict[str, Any]]]


@click.command("decode")
@click.option(
    "--from",
    "start",
    type=click.Choice(["frame", "ip", "bth"]),
    default="frame",
    show_default=True,
    help="What HEX begins with: Ethernet, IP, or BTH.",
)
@click.option(
    "--icrc",
    type=click.Choice(["auto", "yes", "no"]),
    default="auto",
    show_default=True,
    help="--from bth: whether HEX ends with the iCRC (auto: by the lengths).",
)
@click.option(
    "--packing",
    type=click.Choice(PACKINGS),
    help="Where the EV's upper half is.  [default: as --interop says]",
)
@click.option(
    "--interop",
    default="reference",
    show_default=True,
    metavar="PROFILE",
    help="Whose UDP port, EV packing and trim DSCPs to expect.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object a packet and line.")
@click.option("--check", is_flag=True, help="Exit 1 when a packet has a problem.")
@click.option("--all", "everything", is_flag=True, help="Of a capture: also what is not MRC.")
@click.option("--payload", is_flag=True, help="Print whole payloads.")
@click.argument("packets", nargs=-1, required=True, metavar="HEX... | FILE.pcap[ng] | -")
def decode_command(
    start: str,
    icrc: str,
    packing: str | None,
    interop: str,
    as_json: bool,
    check: bool,
    everything: bool,
    payload: bool,
    packets: tuple[str, ...],
) -> int:
    """Print every field of MRC packets, and what is wrong with them.

    HEX is one packet: digits with or without spaces, colons or 0x. A FILE is a
    pcap or pcapng, or text with one packet a line or a dump (tcpdump -xx, xxd).
    - reads such text from standard input.

    \b
    Examples:
      ./lab decode --from bth d100ffff000000110000000500000001 1f000001
      ./lab decode capture.pcapng --json | jq .bth.psn
      sudo tcpdump -xx -c 5 -i eth0 udp port 4791 | ./lab decode -
    """
    from hosts.core.interop import InteropError, profile_named
    from hosts.wire.constants import UDP_PORTS
    from hosts.wire.decode import decode
    from hosts.wire.show import lines, summary

    try:
        profile = profile_named(interop)
    except InteropError as error:
        raise UserError(f"--interop: {error}") from None

    def decoded(data: bytes, begins: str, size: int | None = None) -> dict[str, Any]:
        return decode(
            data,
            begins,  # type: ignore[arg-type]
            packing=profile.ev_packing if packing is None else _packing(packing),
            ports=UDP_PORTS | {profile.udp_port},
            dscp=profile.dscp,
            bth_icrc={"auto": None, "yes": True, "no": False}[icrc],
            size=size,
        )

    bad = shown = 0
    for number, (title, packet) in enumerate(_read(packets, start, decoded, everything), 1):
        shown = number
        bad += bool(packet["problems"])
        if as_json:
            print(json.dumps(packet))
            continue
        print(f"{'' if number == 1 else chr(10)}{title or f'packet {number}'}: {summary(packet)}")
        for line in lines(packet, payload=payload, dscp=profile.dscp):
            print(line)
    if not as_json and shown > 1:
        print(f"\n{shown} packets, {bad} with problems")
    return EXIT_FAIL if check and bad else 0


def _packing(name: str) -> Any:
    from hosts.wire.constants import EvPacking

    return EvPacking[name.replace("-", "_").upper()]


def _read(
    packets: tuple[str, ...],
    start: str,
    decoded: Decoder,
    everything: bool,
) -> Packets:
    """(title, decoded packet) of all that the arguments name, in their order."""
    from hosts.capture.hextext import HexTextError, parse_hex, parse_packets
    from hosts.capture.reader import is_capture

    for argument in packets:
        path = Path(argument)
        if argument != "-" and not _is_file(path):
            if "." in argument or "/" in argument:
                raise UserError(f"{argument}: no such file")
            try:
                yield "", decoded(parse_hex(argument), start)
            except HexTextError as error:
                shown = argument if len(argument) < 24 else argument[:20] + "..."
                raise UserError(
                    f"{shown}: {error}; give hex, a pcap file, or - for standard input"
                ) from None
            continue
        try:
            if argument == "-":
                raw = sys.stdin.buffer.read(MAX_TEXT_BYTES + 1)
            else:
                with path.open("rb") as file:
                    raw = file.read(4)
                    if not is_capture(raw):
                        raw += file.read(MAX_TEXT_BYTES)
        except OSError as error:
            raise UserError(f"{argument}: {error.strerror}") from None
        name = "standard input" if argument == "-" else argument
        if is_capture(raw):
            if argument == "-":
                raise UserError("standard input: a capture; give its file name instead of -")
            yield from _capture(path, decoded, everything)
            continue
        if len(raw) > MAX_TEXT_BYTES:
            raise UserError(f"{name}: larger than {MAX_TEXT_BYTES >> 20} MiB and no pcap")
        try:
            found = parse_packets(raw.decode("ascii"))
        except UnicodeDecodeError:
            raise UserError(f"{name}: neither a pcap or pcapng nor hex text") from None
        except HexTextError as error:
            raise UserError(f"{name}: {error}") from None
        if not found:
            raise UserError(f"{name}: no packet in it")
        for line, data in found:
            yield f"line {line}", decoded(data, start)


def _is_file(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:  # a name that is too long, as long hex is
        return False


def _capture(path: Path, decoded: Decoder, everything: bool) -> Packets:
    from hosts.capture.reader import CaptureError, read_capture

    foreign = 0
    try:
        for item in read_capture(path):
            missing = item.wire_length - item.kept
            packet = decoded(item.data, item.start or "frame", len(item.data) + max(0, missing))
            if not everything and (item.start is None or not _is_mrc(packet)):
                foreign += 1
                continue
            title = f"packet {item.number}"
            capture: dict[str, Any] = {"number": item.number}
            if item.time_ns is not None:
                capture["time_ns"] = item.time_ns
                seconds, rest = divmod(item.time_ns, 10**9)
                clock = datetime.fromtimestamp(seconds, timezone.utc)
                title += f"  {clock:%H:%M:%S}.{rest:09d}"
            if item.interface:
                capture["interface"] = item.interface
                title += f"  {item.interface}"
            if missing > 0:
                capture |= {"kept": item.kept, "length": item.wire_length}
                title += f"  ({item.kept} of {item.wire_length} bytes kept)"
            yield title, {"capture": capture, **packet}
    except CaptureError as error:
        raise UserError(str(error)) from None
    if foreign:
        print(
            f"lab decode: {path}: {foreign} packets that are not MRC left out (--all shows them)",
            file=sys.stderr,
        )


def _is_mrc(packet: dict[str, Any]) -> bool:
    """An MRC port, or (reference, section 1) any port when BTH looks like MRC."""
    from hosts.wire.constants import OPCODE_MRC, UDP_PORTS

    if "udp" not in packet:
        return False
    known = packet["udp"]["dport"] in UDP_PORTS
    return known or packet.get("bth", {}).get("opcode", 0) >> 5 == OPCODE_MRC


@click.command("encode")
@click.option(
    "--packing",
    type=click.Choice(PACKINGS),
    default=PACKINGS[0],
    show_default=True,
    help="Where the EV's upper half goes.",
)
@click.option(
    "--pcap",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write a pcapng file instead of hex (packets that begin with eth or IP).",
)
@click.argument("source", type=click.Path(path_type=Path), metavar="[FILE.json]", default=Path("-"))
def encode_command(packing: str, pcap: Path | None, source: Path) -> int:
    """Turn the JSON of `./lab decode --json` back into bytes, one packet a line.

    Lengths, checksums, pad and iCRC that are left out are computed. FILE holds one
    object, an array of them, or one a line; without FILE: standard input.

    \b
    Examples:
      ./lab decode --json --from bth HEX | ./lab encode
      ./lab encode packets.jsonl --pcap packets.pcapng
    """
    from hosts.wire.encode import EncodeError, encode

    name = "standard input" if str(source) == "-" else str(source)
    try:
        text = sys.stdin.read() if str(source) == "-" else source.read_text()
    except OSError as error:
        raise UserError(f"{name}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise UserError(f"{name}: not text") from None
    frames: list[tuple[dict[str, Any], bytes]] = []
    for where, packet in _objects(name, text):
        try:
            data = encode(packet, packing=_packing(packing))
        except EncodeError as error:
            raise UserError(f"{where}: {error}") from None
        if not data:
            raise UserError(f"{where}: no header in it (eth, ipv6, ipv4, udp, bth, ...)")
        frames.append((packet, data))
    if not frames:
        raise UserError(f"{name}: no packet in it")
    if pcap is None:
        for _packet, data in frames:
            print(data.hex())
    else:
        _write(pcap, frames)
    return 0


def _objects(name: str, text: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """(where, packet) for one object, an array, or one object a line."""
    decoder = json.JSONDecoder()
    at = 0
    while True:
        while at < len(text) and text[at].isspace():
            at += 1
        if at == len(text):
            return
        line = text.count("\n", 0, at) + 1
        try:
            value, at = decoder.raw_decode(text, at)
        except json.JSONDecodeError as error:
            raise UserError(f"{name}:{error.lineno}:{error.colno}: {error.msg}") from None
        except RecursionError:
            raise UserError(f"{name}:{line}: nested too deeply") from None
        items = value if isinstance(value, list) else [value]
        for index, item in enumerate(items, 1):
            where = f"{name}:{line}" + (f" item {index}" if isinstance(value, list) else "")
            if not isinstance(item, dict):
                raise UserError(f"{where}: a packet is an object, not {json.dumps(item)[:30]}")
            yield where, item


def _write(path: Path, frames: list[tuple[dict[str, Any], bytes]]) -> None:
    from hosts.capture.reader import LINKTYPE_ETHERNET
    from hosts.capture.writer import LINKTYPE_RAW, PcapngWriter

    with path.open("wb") as file:
        writer = PcapngWriter(file)
        for number, (packet, data) in enumerate(frames, 1):
            if not {"eth", "ipv4", "ipv6", "outer_ipv6"} & packet.keys():
                raise UserError(f"packet {number}: begins at BTH; a capture needs at least IP")
            capture = packet.get("capture", {})
            kind = LINKTYPE_ETHERNET if "eth" in packet else LINKTYPE_RAW
            interface = writer.interface(str(capture.get("interface", "mrclab")), kind)
            length = max(len(data), int(capture.get("length", 0)))
            writer.packet(interface, int(capture.get("time_ns", 0)), data, wire_length=length)
