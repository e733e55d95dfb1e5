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

if TYPE_CHECKING:
    from collections.abc import Iterator

MOST_PLACES = 10_000
MOST_OF_A_LINE = 256  # things made at one line; those after share a number: one for each step, say

_things: dict[tuple[str, int], tuple[weakref.ref[Any] | None, int]] = {}
_keys: dict[int, tuple[str, int]] = {}  # by address of the reference
_dead: deque[weakref.ref[Any]] = deque()
_counts: dict[str, Iterator[int]] = {}
_places: dict[tuple, int] = {}
_known: dict[tuple[str, int], dict[str, Any]] = {}  # (noun, id): what a FACT frame says
_written: set[tuple[str, int]] = set()
_made: dict[tuple[str, tuple | None], list[int]] = {}  # (noun, line): how many, the last one
_shared: set[tuple[str, int]] = set()  # numbers that are many things': told as the first one was


def told(noun: str, thing: object, values: dict[str, Any], at: tuple | None) -> tuple[int, bool]:
    """Give the id of ``thing``, and whether what is told of it is new."""
    number = find(noun, thing)
    if number is None:
        number = _next(noun, at)
        alias(noun, thing, number)
    known = _known[noun, number]["values"] if (noun, number) in _shared else {}
    return number, _learn(noun, number, {**values, **known}, at)


def _next(noun: str, at: tuple | None) -> int:
    """Give the number of one more thing that was made at a line."""
    made = _made.setdefault((noun, at), [0, 0])
    if made[0] == MOST_OF_A_LINE:
        _shared.add((noun, made[1]))
        return made[1]
    made[0] += 1
    made[1] = next(_counts.setdefault(noun, itertools.count()))
    return made[1]


def find(noun: str, thing: object) -> int | None:
    """Give the id of ``thing``, or None."""
    entry = _things.get((noun, id(thing)))
    if entry is None or (entry[0] is not None and entry[0]() is not thing):
        return None
    return entry[1]


def known(noun: str) -> bool:
    """Tell whether there is any thing of this noun."""
    return noun in _counts


def count(noun: str) -> int:
    """Give how many things of this noun there were."""
    return sum(key[0] == noun for key in _known.copy())


def alias(noun: str, thing: object, number: int) -> None:
    """Let ``thing`` have this id."""
    _bury()
    if find(noun, thing) == number:
        return
    key = (noun, id(thing))
    try:
        ref: weakref.ref[Any] | None = weakref.ref(thing, _dead.append)
        _keys[id(ref)] = key
    except TypeError:  # of a type without weak references: known by its address alone
        ref = None
    _things[key] = (ref, number)


def place(at: tuple) -> tuple[int, bool]:
    """Give the id of a line in the source, and whether it is new; NOBODY once there are many."""
    number = _places.get(at)
    if number is None:
        if len(_places) >= MOST_PLACES:
            return wire.NOBODY, False
        number = _places[at] = len(_places)
    return number, _learn("site", number, {}, at)


def description(noun: str, number: int) -> dict[str, Any]:
    """Give the value of a FACT frame."""
    return _known[noun, number]


def forked() -> None:
    """Let everything be told again: another log begins. The ids stay."""
    _written.clear()


def _learn(noun: str, number: int, values: dict[str, Any], at: tuple | None) -> bool:
    key = (noun, number)
    before = _known.get(key)
    if before is not None and before["values"] == values and key in _written:
        return False
    if before is not None and before["file"] is not None:  # where it was made, not where it is used
        at = before["file"], before["line"], before["function"]
    file, line, function = at or (None, None, None)
    _known[key] = {
        "noun": noun,
        "id": number,
        "file": file,
        "line": line,
        "function": function,
        "values": values,
    }
    _written.add(key)
    return True


def _bury() -> None:
    while _dead:
        ref = _dead.popleft()
        key = _keys.pop(id(ref), None)
        if key is not None and _things.get(key, (None, 0))[0] is ref:
            del _things[key]
