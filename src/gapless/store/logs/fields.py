"""The value of a key of foreign JSON, if it has the expected type; else ``None``.

Nothing that another process wrote is trusted: a recording with a strange value in it is still a
recording.
"""

import json
import math
from collections.abc import Mapping
from typing import Any, Final, cast

Object = Mapping[str, Any]
_MAX_INTEGER: Final = (1 << 63) - 1  # what a column and a database can hold


def parse(text: bytes | memoryview) -> Object | None:
    """Return the object in a JSON text; ``None`` if it has none."""
    try:
        value: object = json.loads(bytes(text))
    except (ValueError, RecursionError):
        return None
    return cast("Object", value) if isinstance(value, dict) else None


def integer(value: object) -> int | None:
    """Return a whole number of at most 64 bits."""
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    return value if -_MAX_INTEGER <= value <= _MAX_INTEGER else None


def number(value: object) -> float | None:
    """Return a finite number."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    exact = integer(value)
    return None if exact is None else float(exact)


def text(value: object) -> str | None:
    """Return a text."""
    return value if isinstance(value, str) else None


def texts(value: object) -> tuple[str, ...]:
    """Return the texts in a list."""
    return tuple(item for item in items(value) if isinstance(item, str))


def items(value: object) -> list[Any]:
    """Return the items of a list; nothing if it is not a list."""
    return cast("list[Any]", value) if isinstance(value, list) else []


def members(value: object) -> Object:
    """Return an object's keys and values; none if it is not an object."""
    return cast("Object", value) if isinstance(value, dict) else {}
