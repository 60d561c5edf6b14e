"""Checked syntax tree -> flat model of the six blocks, by evaluating the instances.

Sub-parsers, sub-controls, functions and directly called actions are inlined while walking;
structs become their fields, so that what is left speaks bmv2's language: headers, fields,
primitives, tables, conditionals.
"""

from softswitch.p4.lower.program import lower

__all__ = ["lower"]
