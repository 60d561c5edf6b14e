"""MRC on the wire: names, headers, whole frames, iCRC, decoding (reference sections 1-3).

Pure: no socket, clock or random generator. `layers` (Scapy) is the one module here with a
heavy import and is never imported by the others.
"""
