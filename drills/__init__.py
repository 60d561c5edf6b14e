"""Failure drills: a scripted fault on a running fabric, a verdict and a report.

format      a drill file, validated on load
runner      drives a testbed through a drill and writes the run directory
events      what is recorded of a run
judge       pure: recorded run -> verdict (ledger, steering, fidelity, ...)
report      the run as one self-contained HTML page
catalog/    the drills that come with the lab
"""
