"""Measurements; `./lab bench` runs them."""

from pathlib import Path

BENCH_CSRC = Path(__file__).resolve().parent / "csrc"
"""C sources of the yardsticks."""
