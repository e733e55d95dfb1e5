"""Values as processes recorded them, if they are of the expected kind."""

from collections.abc import Mapping
from typing import cast

from gapless.model.edit import Location
from gapless.model.recording import Fact


def source_location(fact: Fact) -> Location | None:
    """Return the user's line that a fact is about."""
    if fact.file is None or fact.line is None:
        return None
    return Location(fact.file, fact.line, fact.function)


def as_int(value: object) -> int | None:
    """Return a whole number as it was recorded; ``None`` for anything else."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def as_bool(value: object) -> bool | None:
    """Return a truth value as it was recorded; ``None`` for anything else."""
    return value if isinstance(value, bool) else None


def as_text(value: object) -> str | None:
    """Return a text as it was recorded; ``None`` for anything else."""
    return value if isinstance(value, str) else None


def as_object(value: object) -> Mapping[str, object]:
    """Return keys and values as they were recorded; none for anything else."""
    return cast("Mapping[str, object]", value) if isinstance(value, Mapping) else {}
