"""Captures: hex text and pcap/pcapng files in, pcapng out."""
