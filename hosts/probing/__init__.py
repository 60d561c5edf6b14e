"""Probes outside the transport: loops through the switches' data plane, back to their sender."""
