"""What holds for all tests."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

# The same examples every time, and no opinion on how fast the machine is: a test fails for
# what the code does. Searching for new examples: pytest --hypothesis-profile=search.
settings.register_profile(
    "repeatable", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("search", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("repeatable")
