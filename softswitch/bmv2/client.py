"""Client of bmv2's Thrift server: three services over one connection.

Calls are those of `runtime.thrift`; a refusal becomes `Bmv2Error` with words instead of a
number. Thread-safe: one call at a time.
"""

from __future__ import annotations

import functools
import threading
from pathlib import Path
from typing import Any

IDL = Path(__file__).with_name("runtime.thrift")
CONTEXT = 0
"""The only context of simple_switch."""

_TABLE = {
    1: "the table is full",
    2: "there is no such entry",
    3: "the entry is gone",
    4: "the table has no counters",
    5: "the table has no meters",
    7: "there is no such table",
    8: "the table does not have this action",
    9: "the table does not take this kind of entry",
    10: "there is no such member",
    11: "the member is still used",
    12: "the member is in the group already",
    13: "the member is not in the group",
    14: "there is no such group",
    15: "the group is still used",
    16: "the group is empty",
    17: "an entry with this key exists",
    18: "the key does not fit the table",
    20: "the default action is const",
    21: "the default entry is const",
    23: "there is no such action profile",
    24: "the action profile is not a selector",
    25: "the table has const entries only",
    26: "the arguments do not fit the action",
    27: "the table has no key",
}
_WORDS: dict[str, dict[int, str]] = {
    "TableProblem": _TABLE,
    "CounterProblem": {1: "there is no such counter", 2: "the index is out of range"},
    "MeterProblem": {
        1: "there is no such meter",
        2: "the index is out of range",
        3: "the number of rates is wrong",
        4: "a rate is wrong",
        5: "a burst is wrong",
    },
    "RegisterProblem": {1: "there is no such register", 2: "the index is out of range"},
    "PortProblem": {},
    "MulticastProblem": {
        1: "no room is left",
        2: "the group exists already or is out of range",
        3: "there is no such group",
        4: "there is no such node",
    },
    "MirrorProblem": {1: "there is no such mirroring session"},
}


class Bmv2Error(Exception):
    """bmv2 refused a call or cannot be reached. One line."""


@functools.cache
def types() -> Any:
    """The module of the Thrift types; reading the IDL takes some ten milliseconds."""
    import thriftpy2

    return thriftpy2.load(str(IDL), module_name="bmv2_runtime_thrift")


class Client:
    """A connection to the Thrift server of one switch; raises Bmv2Error when there is none."""

    def __init__(self, port: int, host: str = "127.0.0.1", timeout: float = 20.0) -> None:
        from thriftpy2.protocol import TBinaryProtocol, TMultiplexedProtocol
        from thriftpy2.thrift import TClient, TException
        from thriftpy2.transport import TBufferedTransport, TSocket

        self._exception = TException
        self._lock = threading.Lock()
        socket = TSocket(host, port, socket_timeout=int(timeout * 1000))
        self._transport = TBufferedTransport(socket)
        self._where = f"{host}:{port}"
        try:
            self._transport.open()
        except (TException, OSError) as error:
            raise Bmv2Error(f"no Thrift server on {self._where}: {_words(error)}") from None
        protocol = TBinaryProtocol(self._transport)
        module = types()
        self._services = [
            TClient(service, TMultiplexedProtocol(protocol, name))
            for service, name in (
                (module.Standard, "standard"),
                (module.SimplePreLAG, "simple_pre_lag"),
                (module.SimpleSwitch, "simple_switch"),
            )
        ]

    def close(self) -> None:
        """Drop the connection."""
        self._transport.close()

    def call(self, method: str, *arguments: Any) -> Any:
        """Call a method of one of the services; what it returns, or Bmv2Error."""
        service = next((s for s in self._services if method in s._service.thrift_services), None)
        if service is None:
            raise Bmv2Error(f"{method} is not in {IDL.name}")
        with self._lock:
            try:
                return getattr(service, method)(*arguments)
            except (self._exception, OSError) as error:
                raise Bmv2Error(_words(error)) from None


def _words(error: BaseException) -> str:
    code = getattr(error, "code", None)
    known = _WORDS.get(type(error).__name__)
    if known is not None and isinstance(code, int):
        return known.get(code, f"refused with code {code}")
    text = getattr(error, "message", None) or getattr(error, "strerror", None) or str(error)
    return " ".join(str(text).split()) or type(error).__name__


def port_map(ports: Any) -> str:
    """Ports as bmv2 has them in multicast nodes: a 1 for each, the lowest port last."""
    members = set(ports)
    return "".join("1" if p in members else "0" for p in range(max(members, default=-1), -1, -1))
