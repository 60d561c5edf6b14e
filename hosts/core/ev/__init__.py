"""Entropy values: profile (which values), state (the table), evset (active, backup, rotation)."""
