"""Hosts: the endpoint, its wire format, and what runs it."""

import os as _os

if _os.environ.get("MRCLAB_COMPILED"):
    from hosts.compiled import install as _install

    _install()
