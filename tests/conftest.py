"""What holds for all tests."""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, settings

# Tests are of the sources; what they start as a command of its own takes what a user has.
_given = "MRCLAB_COMPILED" in os.environ
os.environ.setdefault("MRCLAB_COMPILED", "0")
from hosts.compiled import in_use  # noqa: E402

if not _given:
    del os.environ["MRCLAB_COMPILED"]

# The same examples every time, and no opinion on how fast the machine is: a test fails for
# what the code does. Searching for new examples: pytest --hypothesis-profile=search.
settings.register_profile(
    "repeatable", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("search", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("repeatable")


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Compiled code does not let tests put their own parts in its place."""
    if item.get_closest_marker("sources") and in_use():
        pytest.skip("replaces a part of the endpoint: not possible when it is compiled")
