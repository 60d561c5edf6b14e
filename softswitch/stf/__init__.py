"""Packet tests in p4c's STF format, in memory or on bmv2. See README.md."""
