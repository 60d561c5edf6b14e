"""A bmv2-compatible software switch: P4-16 front end, compiled engine, P4Runtime server."""
