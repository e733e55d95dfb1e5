"""affinity: the training and the workers of its loaders run on the processors that they are given.

Options: ``cpus`` for the training, ``workers`` for workers (as the training's, if not given): lists
such as "0-3,8". Of them, those that the process was allowed before.
"""

from __future__ import annotations

import contextlib
import functools
import os
from typing import Any

from .. import targets, telling, workers

ALLOWED = "GAPLESS_CPUS"  # what the command was allowed, for processes that one restricted starts


def lay(number: int, edit: Any) -> targets.Undo:
    """Lay an edit, at once; give what takes it off."""
    options = edit.get("options") or {}
    telling.laid(number, "affinity")
    if not hasattr(os, "sched_setaffinity"):
        telling.refused(number, "affinity", "this system has none")
        return functools.partial(telling.lifted, number)
    before = os.sched_getaffinity(0)
    allowed = parsed(os.environ.setdefault(ALLOWED, told(before)))
    undos: list[targets.Undo] = [functools.partial(telling.lifted, number)]
    if options.get("workers"):
        mine = sorted(allowed & parsed(options["workers"]))
        if mine:
            undos.append(workers.in_each(number, edit, begin, (number, mine)))
        else:
            telling.refused(number, "affinity", f"workers: none of {options['workers']} is allowed")
    if options.get("cpus"):
        mine = sorted(allowed & parsed(options["cpus"]))
        if mine:
            begin(number, mine)
            undos.append(functools.partial(_set, before))
        else:
            telling.refused(number, "affinity", f"none of {options['cpus']} is allowed")
    undos.append(_forget)
    return functools.partial(targets.undo_all, undos)


def begin(number: int, cpus: list[int]) -> None:
    """Let all threads of this process, and those that they start, run on these processors."""
    telling.told(number, "affinity", told(os.sched_getaffinity(0)), told(cpus))
    _set(cpus)


def parsed(text: str) -> set[int]:
    """Give the numbers of a list such as "0-3,8"."""
    numbers: set[int] = set()
    for part in text.split(","):
        first, _, last = part.strip().partition("-")
        numbers.update(range(int(first), int(last or first) + 1))
    return numbers


def told(cpus: Any) -> str:
    """Give the shortest list of some numbers: "0-3,8"."""
    parts: list[list[int]] = []
    for cpu in sorted(cpus):
        if parts and cpu == parts[-1][-1] + 1:
            parts[-1][1:] = [cpu]
        else:
            parts.append([cpu])
    return ",".join("-".join(map(str, part)) for part in parts)


def _forget() -> None:
    os.environ.pop(ALLOWED, None)


def _set(cpus: Any) -> None:
    try:
        threads = [int(name) for name in os.listdir("/proc/self/task")]
    except OSError:
        threads = [0]
    for thread in threads:
        with contextlib.suppress(OSError):  # one that has just ended
            os.sched_setaffinity(thread, cpus)
