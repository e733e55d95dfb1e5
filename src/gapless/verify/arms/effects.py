"""Whether the edits of a side took effect, as the processes of its arms recorded it."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from gapless.model.edit import Edit, SetArgument, SetEnv, Skip, Wrap
from gapless.model.recording import Recording

_MAX_NAMED: Final = 3  # edits that are named; more are only counted
_EXPLAINED: Final = (  # parts that say more: how far pixels are off, how a cache was filled
    "decode-by-dali",
    "decode-on-device",
    "jpeg-decoder",
    "picture-cache",
    "reduced-decoding",
    "sample-cache",
)


def find_idle_edits(edits: Sequence[Edit], recordings: Iterable[Recording]) -> tuple[Edit, ...]:
    """Return the edits that took no effect in any arm; those without records are left out.

    Edits are numbered as the arm was given them. Edits that keep loggers quiet come after these.
    """
    counts = count_effects(recordings)
    return tuple(edit for index, edit in enumerate(edits) if counts.get(index) == 0)


def count_effects(recordings: Iterable[Recording]) -> dict[int, int]:
    """Return how often each edit took effect, by its number."""
    counts: dict[int, int] = {}
    for number, count in _read_edit_counts(recordings):
        counts[number] = counts.get(number, 0) + count
    return counts


def describe_effects(edits: Sequence[Edit], recordings: Iterable[Recording]) -> str | None:
    """Return what parts recorded of how they took effect; ``None``: there is nothing."""
    numbers = {
        index
        for index, edit in enumerate(edits)
        if isinstance(edit, Wrap) and edit.part in _EXPLAINED
    }
    descriptions = (
        str(fact.values.get("new"))
        for recording in recordings
        for process in recording.processes
        for fact in process.facts
        if fact.noun == "edit" and fact.values.get("edit") in numbers and fact.values.get("times")
    )
    return next(descriptions, None)


def describe_idle_edits(idle_edits: Sequence[Edit]) -> str:
    """Describe that some edits took no effect, and why."""
    reasons = "; ".join(dict.fromkeys(map(_explain_idle, idle_edits[:_MAX_NAMED])))
    n_more = len(idle_edits) - _MAX_NAMED
    return f"took no effect: {reasons}" + (f"; and {n_more} more" if n_more > 0 else "")


def _read_edit_counts(recordings: Iterable[Recording]) -> Iterator[tuple[int, int]]:
    for recording in recordings:
        for process in recording.processes:
            for fact in process.facts:
                number, times = fact.values.get("edit"), fact.values.get("times")
                if fact.noun == "edit" and isinstance(number, int) and isinstance(times, int):
                    yield number, times


def _explain_idle(edit: Edit) -> str:
    if isinstance(edit, SetArgument | Skip):
        location = "" if edit.where is None else f" at {edit.where.file}:{edit.where.line}"
        return f"{edit.target} was never called{location}"
    if isinstance(edit, Wrap):
        return f"there was nothing to do for {edit.part}"
    return f"there was no {edit.name if isinstance(edit, SetEnv) else edit.target}"
