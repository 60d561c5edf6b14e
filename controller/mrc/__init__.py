"""The MRC controller: what the hosts report, put together to say which link or switch fails.

Reference section 6: one privileged controller sets EV and congestion-control profiles, moves
EVs to and from DENIED and receives EV events from all hosts; beside it a prober in the style
of Clustermapper sends loops through the data plane, for what MRC itself cannot localise.
"""
