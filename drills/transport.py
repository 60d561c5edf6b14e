"""What a drill may choose of the endpoints: congestion control, path selector, interop profile."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from pydantic import Field, model_validator

from hosts.core.cc.registry import REGISTRY
from hosts.core.ev.selector import SELECTORS
from hosts.core.interop import PROFILES
from topologies.yamlspec import Bool, FieldError, Float, SpecModel, Str, suggest


class TransportSpec(SpecModel):
    """The `transport` section; names are those of the endpoint's registries."""

    cc: Str = "nscc"
    cc_params: dict[str, Float] = Field(default_factory=dict)
    """Parameters of the congestion control (reference 5.2), by name."""
    selector: Str = "rotation"
    interop: Str = "reference"
    """Which way an implementer reads the points that MRC 1.0 leaves open (section 9)."""
    dynamic_mpr: Bool = False
    svc_time: Bool = False

    @model_validator(mode="after")
    def _known(self) -> TransportSpec:
        tables: tuple[tuple[str, str, Mapping[str, Any]], ...] = (
            ("cc", self.cc, REGISTRY),
            ("selector", self.selector, SELECTORS),
            ("interop", self.interop, PROFILES),
        )
        for key, name, known in tables:
            if name not in known:
                raise FieldError((key,), f"no {key} {name!r}; {suggest(name, known)}")
        parameters = {item.name for item in fields(REGISTRY[self.cc][0])}
        for name in self.cc_params:
            if name not in parameters:
                hint = suggest(name, parameters)
                raise FieldError(("cc_params", name), f"{self.cc} has no such parameter; {hint}")
        return self
