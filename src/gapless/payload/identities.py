"""Number loaders, optimizers, models and lines of the user's, without touching them.

A thing is known by its identity as long as it lives; nothing is set on it, nothing keeps it alive.
What dies is noticed by a C function (``deque.append``), so that no Python of ours runs in the
middle of the user's clean-up.
"""

from __future__ import annotations

import itertools
import weakref
from collections import deque
from typing import TYPE_CHECKING, Any

from .. import wire
from .process_state import keep

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_LINES = 10_000
MAX_PER_LINE = 256  # things of one line; those after share a number: one a step, say


class _Identities:
    """The numbers that were given; a child goes on with them."""

    def __init__(self) -> None:
        self.entities: dict[tuple[str, int], tuple[weakref.ref[Any] | None, int]] = {}
        self.keys: dict[int, tuple[str, int]] = {}  # by address of the reference
        self.dead: deque[weakref.ref[Any]] = deque()
        self.counts: dict[str, Iterator[int]] = {}
        self.line_ids: dict[tuple, int] = {}
        self.facts: dict[tuple[str, int], dict[str, Any]] = {}  # (noun, id): what a FACT says
        self.written: set[tuple[str, int]] = set()
        # By noun and line: how many, the last one.
        self.tallies: dict[tuple[str, tuple | None], list[int]] = {}
        self.shared: set[tuple[str, int]] = set()  # numbers of many things, told as the first

    def begin(self) -> None:
        """Have everything written again: another log begins. The ids stay."""
        self.written.clear()


_ids = keep(_Identities())


def register_entity(
    noun: str, entity: object, values: dict[str, Any], location: tuple | None
) -> tuple[int, bool]:
    """Return the id of ``entity``, and whether what is said of it is new."""
    number = find(noun, entity)
    if number is None:
        number = _next_number(noun, location)
        alias(noun, entity, number)
    shared_values = _ids.facts[noun, number]["values"] if (noun, number) in _ids.shared else {}
    return number, _learn(noun, number, {**values, **shared_values}, location)


def _next_number(noun: str, location: tuple | None) -> int:
    """Return the number of one more thing that was made at a line."""
    tally = _ids.tallies.setdefault((noun, location), [0, 0])
    if tally[0] == MAX_PER_LINE:
        _ids.shared.add((noun, tally[1]))
        return tally[1]
    tally[0] += 1
    tally[1] = next(_ids.counts.setdefault(noun, itertools.count()))
    return tally[1]


def find(noun: str, entity: object) -> int | None:
    """Return the id of ``entity``, or None."""
    entry = _ids.entities.get((noun, id(entity)))
    if entry is None or (entry[0] is not None and entry[0]() is not entity):
        return None
    return entry[1]


def has_any(noun: str) -> bool:
    """Return whether there is any thing of this noun."""
    return noun in _ids.counts


def count(noun: str) -> int:
    """Return how many things of this noun there were."""
    return sum(key[0] == noun for key in _ids.facts.copy())


def alias(noun: str, entity: object, number: int) -> None:
    """Let ``entity`` have this id."""
    _bury()
    if find(noun, entity) == number:
        return
    key = (noun, id(entity))
    try:
        ref: weakref.ref[Any] | None = weakref.ref(entity, _ids.dead.append)
        _ids.keys[id(ref)] = key
    except TypeError:  # of a type without weak references: known by its address alone
        ref = None
    _ids.entities[key] = (ref, number)


def register_line(location: tuple) -> tuple[int, bool]:
    """Return the id of a line in the source, and whether it is new; NOBODY once there are many."""
    number = _ids.line_ids.get(location)
    if number is None:
        if len(_ids.line_ids) >= MAX_LINES:
            return wire.NOBODY, False
        number = _ids.line_ids[location] = len(_ids.line_ids)
    return number, _learn("site", number, {}, location)


def description(noun: str, number: int) -> dict[str, Any]:
    """Return the value of a FACT frame."""
    return _ids.facts[noun, number]


def _learn(noun: str, number: int, values: dict[str, Any], location: tuple | None) -> bool:
    key = (noun, number)
    before = _ids.facts.get(key)
    if before is not None and before["values"] == values and key in _ids.written:
        return False
    if before is not None and before["file"] is not None:  # where it was made, not where it is used
        location = before["file"], before["line"], before["function"]
    file, line, function = location or (None, None, None)
    _ids.facts[key] = {
        "noun": noun,
        "id": number,
        "file": file,
        "line": line,
        "function": function,
        "values": values,
    }
    _ids.written.add(key)
    return True


def _bury() -> None:
    while _ids.dead:
        ref = _ids.dead.popleft()
        key = _ids.keys.pop(id(ref), None)
        if key is not None and _ids.entities.get(key, (None, 0))[0] is ref:
            del _ids.entities[key]
