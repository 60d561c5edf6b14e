"""What can be wrong with what users give; str() is one line that says what and why."""

from __future__ import annotations


class ConfigError(ValueError):
    """A value that cannot work."""


class EndpointError(Exception):
    """A verb that cannot be done as asked."""
