"""Reading JSON objects that someone else wrote: every error names the field."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from ipaddress import ip_address
from typing import Any, cast

_MISSING: Any = object()


class FieldError(ValueError):
    """A field that is missing, of the wrong type or out of range; str() is one line."""


class Fields:
    """Typed access to a JSON object. Call `done()` last: it refuses keys nobody asked for."""

    def __init__(self, data: Any, path: str = "") -> None:
        if not isinstance(data, Mapping):
            raise FieldError(f"{path or 'request'}: must be a JSON object")
        self._data = data
        self._path = path
        self._asked: set[str] = set()

    def name(self, key: str) -> str:
        """The key with its path, as errors show it."""
        return f"{self._path}.{key}" if self._path else key

    def _get(self, key: str, default: Any) -> Any:
        self._asked.add(key)
        value = self._data.get(key, default)
        if value is _MISSING:
            raise FieldError(f"{self.name(key)}: missing")
        return value

    def has(self, key: str) -> bool:
        return key in self._data

    def raw(self, key: str) -> Any:
        """The value as it is, for someone else to check."""
        return self._get(key, _MISSING)

    def integer(
        self, key: str, default: Any = _MISSING, low: int | None = None, high: int | None = None
    ) -> int:
        """A whole number in low..high; the default is returned as it is."""
        value: Any = self._get(key, default)
        if key not in self._data:
            return cast("int", value)
        if isinstance(value, bool) or not isinstance(value, int):
            raise FieldError(f"{self.name(key)}: {value!r} is not a whole number")
        if (low is not None and value < low) or (high is not None and value > high):
            bounds = f"at least {low}" if high is None else f"{low}..{high}"
            raise FieldError(f"{self.name(key)}: {value} must be {bounds}")
        return int(value)

    def flag(self, key: str, default: Any = _MISSING) -> bool:
        value = self._get(key, default)
        if not isinstance(value, bool):
            raise FieldError(f"{self.name(key)}: {value!r} must be true or false")
        return value

    def text(self, key: str, default: Any = _MISSING) -> str:
        value = self._get(key, default)
        if not isinstance(value, str):
            raise FieldError(f"{self.name(key)}: {value!r} must be a text")
        return value

    def choice(self, key: str, choices: Mapping[str, Any], default: Any = _MISSING) -> Any:
        """One of the names in `choices`, as the value it stands for."""
        value = self.text(key, default)
        if value not in choices:
            raise FieldError(f"{self.name(key)}: {value!r} must be one of {', '.join(choices)}")
        return choices[value]

    def mac(self, key: str) -> bytes:
        text = self.text(key)
        try:
            raw = bytes.fromhex(text.replace(":", ""))
        except ValueError:
            raw = b""
        if len(raw) != 6:
            raise FieldError(f"{self.name(key)}: {text!r} is not a MAC address")
        return raw

    def ip(self, key: str) -> bytes:
        return address(self.text(key), self.name(key))

    def hex(self, key: str) -> bytes:
        text = self.text(key)
        try:
            return bytes.fromhex(text)
        except ValueError:
            raise FieldError(f"{self.name(key)}: not hexadecimal") from None

    def object(self, key: str, default: Any = _MISSING) -> Fields:
        return Fields(self._get(key, default), self.name(key))

    def objects(self, key: str) -> list[Fields]:
        """A list of objects."""
        found = self.items(key)
        return [Fields(item, f"{self.name(key)}[{i}]") for i, item in enumerate(found)]

    def items(self, key: str, default: Any = _MISSING) -> Sequence[Any]:
        """A list of anything."""
        value: Any = self._get(key, default)
        if isinstance(value, str) or not isinstance(value, Sequence):
            raise FieldError(f"{self.name(key)}: must be a list")
        return cast("Sequence[Any]", value)

    def integers(self, key: str, low: int, high: int, default: Any = _MISSING) -> list[int]:
        """A list of whole numbers in low..high."""
        values = self.items(key, default)
        for value in values:
            if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
                raise FieldError(f"{self.name(key)}: {value!r} must be a number in {low}..{high}")
        return list(values)

    def mapping(self, key: str, default: Any = _MISSING) -> Mapping[str, Any]:
        """An object whose keys are data."""
        value = self._get(key, default)
        if not isinstance(value, Mapping):
            raise FieldError(f"{self.name(key)}: must be a JSON object")
        return value

    def done(self) -> None:
        """Refuse unknown keys, with the nearest known one."""
        for key in self._data:
            if key not in self._asked:
                near = get_close_matches(str(key), self._asked, 1)
                hint = f"; did you mean {near[0]!r}?" if near else ""
                raise FieldError(f"{self.name(str(key))}: unknown field{hint}")


def address(text: str, where: str) -> bytes:
    """Packed IP address of a text. Raises FieldError."""
    try:
        return ip_address(text).packed
    except ValueError:
        raise FieldError(f"{where}: {text!r} is not an IP address") from None
