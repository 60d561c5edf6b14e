"""The MRC endpoint without I/O: bytes and the time in, bytes and the next deadline out.

Start at `endpoint.Endpoint`. `config` holds everything that can be set, `events` everything
that can happen, `constants` the choices of reference section 9 under their own names.
"""
