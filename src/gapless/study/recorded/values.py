"""Values as processes told them, if they are of the kind that is meant."""

from gapless.model.edit import Where
from gapless.model.recording import Fact


def where(fact: Fact) -> Where | None:
    """Give the line of the user's that a fact is about."""
    if fact.file is None or fact.line is None:
        return None
    return Where(fact.file, fact.line, fact.function)


def whole(value: object) -> int | None:
    """Give a whole number as it was recorded; ``None`` for anything else."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def truth(value: object) -> bool | None:
    """Give a truth value as it was recorded; ``None`` for anything else."""
    return value if isinstance(value, bool) else None


def text(value: object) -> str | None:
    """Give a text as it was recorded; ``None`` for anything else."""
    return value if isinstance(value, str) else None
