"""The ranges that the user says are the steps, looked up in a trace."""

from collections import Counter
from fnmatch import fnmatchcase
from typing import Final

import numpy as np
from msgspec.structs import replace

from gapless.errors import UsageError
from gapless.model import category
from gapless.model.trace import Trace

_MAX_SHOWN: Final = 8  # ranges that the message lists


def choose_steps(trace: Trace, pattern: str) -> Trace:
    """Return a trace whose steps are the ranges of a name, or that a pattern matches.

    Raises ``UsageError``, which lists the ranges there are, if none is called so.
    """
    events = trace.events
    is_range = (events.category == category.USER_ANNOTATION) & (events.end > events.start)
    rows: list[int] = events.name[np.flatnonzero(is_range)].tolist()
    counts = Counter(rows)
    labels = {trace.names[name]: count for name, count in counts.most_common()}
    chosen = [label for label in labels if label == pattern] or [
        label for label in labels if fnmatchcase(label, pattern)
    ]
    if not chosen:
        label_words = ", ".join(
            f"{label} ({count:,})" for label, count in [*labels.items()][:_MAX_SHOWN]
        )
        there_are = f"there are: {label_words}" if label_words else "it has no ranges"
        raise UsageError(f"{trace.path}: no range is called {pattern!r}; {there_are}")
    return replace(trace, roles=replace(trace.roles, steps=tuple(sorted(chosen))))
