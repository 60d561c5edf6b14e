"""Congestion controls by name. To add one: a profile dataclass, a class, a line in `REGISTRY`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any

from hosts.core.cc.base import CongestionControl, PathFigures
from hosts.core.cc.fixed import FixedProfile, FixedWindow
from hosts.core.cc.nscc import Nscc, NsccProfile
from hosts.core.config import CcConfig, ConfigError

REGISTRY: dict[str, tuple[type[Any], Callable[[PathFigures, Any], CongestionControl]]] = {
    "nscc": (NsccProfile, Nscc),
    "uet-1.0-nscc": (NsccProfile, Nscc),  # the name in the public API
    "fixed": (FixedProfile, FixedWindow),
}


def check_cc(config: CcConfig) -> None:
    """Raises ConfigError when the name or a parameter is unknown."""
    if config.name not in REGISTRY:
        raise ConfigError(f"cc.name {config.name!r}: unknown; known: {', '.join(REGISTRY)}")
    profile, _ = REGISTRY[config.name]
    known = {f.name for f in fields(profile)}
    for name, value in config.params.items():
        if name not in known:
            raise ConfigError(
                f"cc.params {name!r}: {config.name} has no such parameter; "
                f"known: {', '.join(sorted(known))}"
            )
        if isinstance(value, str) or (isinstance(value, (int, float)) and value < 0):
            raise ConfigError(f"cc.params {name}: {value!r} is not a number from 0 on")


def make_cc(config: CcConfig, figures: PathFigures) -> CongestionControl:
    """The congestion control that `config` names. Raises ConfigError."""
    check_cc(config)
    profile, factory = REGISTRY[config.name]
    return factory(figures, profile(**config.params))
