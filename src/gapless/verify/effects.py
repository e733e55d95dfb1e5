"""Whether the edits of a side took effect, as the processes of its arms tell of them."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from gapless.model.edit import Edit, SetArgument, SetEnv, Skip, Wrap
from gapless.model.recording import Recording

_NAMED: Final = 3  # edits that are named; of more it is said how many


def idle(edits: Sequence[Edit], recordings: Iterable[Recording]) -> tuple[Edit, ...]:
    """Give the edits that no process of any arm met; those that no process tells of are left out.

    Edits are numbered as the arm was given them. Loggers are kept quiet by edits behind these.
    """
    times: dict[int, int] = {}
    for number, count in _told(recordings):
        times[number] = times.get(number, 0) + count
    return tuple(one for at, one in enumerate(edits) if times.get(at) == 0)


def told(without: Sequence[Edit]) -> str:
    """Say of some edits that they took no effect, and why."""
    named = "; ".join(dict.fromkeys(map(_why, without[:_NAMED])))
    more = len(without) - _NAMED
    return f"took no effect: {named}" + (f"; and {more} more" if more > 0 else "")


def _told(recordings: Iterable[Recording]) -> Iterator[tuple[int, int]]:
    for recording in recordings:
        for process in recording.processes:
            for fact in process.facts:
                number, times = fact.values.get("edit"), fact.values.get("times")
                if fact.noun == "edit" and isinstance(number, int) and isinstance(times, int):
                    yield number, times


def _why(edit: Edit) -> str:
    if isinstance(edit, SetArgument | Skip):
        at = "" if edit.where is None else f" at {edit.where.file}:{edit.where.line}"
        return f"{edit.target} was never called{at}"
    if isinstance(edit, Wrap):
        return f"there was nothing to do for {edit.part}"
    return f"there was no {edit.name if isinstance(edit, SetEnv) else edit.target}"
