"""What a drill can expect something of: every measure with its unit and its words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Measure:
    """Unit and meaning of one figure of a run. `title` is what people read in reports."""

    unit: str
    title: str


MEASURES: Mapping[str, Measure] = {
    "goodput_share_before": Measure("share", "Goodput before the fault, of capacity"),
    "goodput_share_during": Measure("share", "Goodput during the fault, of what was left"),
    "goodput_share_after": Measure("share", "Goodput after the repair, of capacity"),
    "goodput_kept": Measure("share", "Goodput during the fault, of that before"),
    "goodput_lost": Measure("share", "Goodput lost to the fault, of that before"),
    "line_rate_share": Measure("share", "Goodput before the fault, of the line rate"),
    "steer_rtts": Measure("RTT", "From the first loss until the dead link was left"),
    "steer_us": Measure("us", "That time, at real speed"),
    "packets_lost": Measure("packets", "Frames lost in the fabric"),
    "packets_retransmitted": Measure("packets", "Data packets sent again"),
    "messages_completed": Measure("messages", "Messages completed"),
    "messages_unfinished": Measure("messages", "Messages that never completed"),
    "messages_failed": Measure("messages", "Messages that ended with an error"),
    "bytes_missing": Measure("bytes", "Bytes acknowledged but not delivered"),
    "duplicates_delivered": Measure("packets", "Packets delivered more than once"),
    "memory_mismatches": Measure("regions", "Destination memory that differs from what was sent"),
    "qp_errors": Measure("QPs", "Connections that went into error"),
    "evs_assumed_bad": Measure("EVs", "EVs given up (ASSUMED_BAD)"),
    "evs_wrongly_demoted": Measure("EVs", "EVs given up though no fault was on their way"),
    "evs_not_demoted": Measure("EVs", "EVs kept although they crossed the fault"),
    "faults_not_named": Measure("faults", "Faults that the MRC controller did not name"),
    "faults_misnamed": Measure("incidents", "Incidents that name something else than a fault"),
    "naming_ms": Measure("ms", "From a fault to its name, at most"),
    "evs_not_recovered": Measure("EVs", "EVs still given up at the end"),
}

NAMING = frozenset({"faults_not_named", "faults_misnamed", "naming_ms"})
"""Measures of what the MRC controller said; there are none without it."""
