"""The fabric, its switches and its hosts in one process, on a clock that is computed.

The same compiled P4 program, traffic manager and endpoints as in a running lab; only what
moves bytes and tells the time is different. docs/virtual-time.md says what is modelled.
"""

import hosts as hosts  # where it is settled whether compiled modules are taken
