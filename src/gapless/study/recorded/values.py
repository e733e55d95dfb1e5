"""Values as processes told them, if they are of the kind that is meant."""

from gapless.model.edit import Location
from gapless.model.recording import Fact


def source_location(fact: Fact) -> Location | None:
    """Return the line of the user's that a fact is about."""
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
