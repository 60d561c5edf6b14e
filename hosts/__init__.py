"""Hosts: the endpoint, its wire format, and what runs it."""

from hosts.compiled import install as _install

_install()
