"""P4-16 for the v1model architecture -> bmv2 JSON and P4Info.

    compiled = compile_file(Path("prog.p4"))
    compiled.json       # dict in the bmv2 JSON format, keys in p4c's order
    compiled.p4info     # p4.config.v1.p4info_pb2.P4Info
    compiled.warnings   # list[Diagnostic]

`compile_file` raises `P4Error` for a program it refuses; its text reads like a compiler's.
"""

from softswitch.p4.api import Compiled, compile_file, compile_program, compile_text, write_outputs
from softswitch.p4.diagnostics import Diagnostic, P4Error

__all__ = [
    "Compiled",
    "Diagnostic",
    "P4Error",
    "compile_file",
    "compile_program",
    "compile_text",
    "write_outputs",
]
