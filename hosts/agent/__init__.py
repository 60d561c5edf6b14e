"""The host agent: drives an MRC endpoint over packet sockets, controlled through a UNIX socket.

One process per host, in the host's network namespace, one event loop, no threads. It must start
fast and stay small: nothing here imports more than the standard library and the pure cores.
"""
