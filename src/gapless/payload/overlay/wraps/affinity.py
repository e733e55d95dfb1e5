"""affinity: the training and the workers of its loaders run on the processors that they are given.

Options: ``cpus`` for the training, ``workers`` for workers (as the training's, if not given): lists
such as "0-3,8". Of them, those that the process was allowed before.
"""

from __future__ import annotations

import contextlib
import functools
import os
from typing import Any

from .. import workers
from ..patch import edit_counters, targets

ALLOWED = "GAPLESS_CPUS"  # what the command was allowed, for processes that one restricted starts


def apply(number: int, edit: Any) -> targets.Undo:
    """Apply an edit at once; return what reverts it."""
    options = edit.get("options") or {}
    edit_counters.register_edit(number, "affinity")
    if not hasattr(os, "sched_setaffinity"):
        edit_counters.record_refusal(number, "affinity", "this system has none")
        return functools.partial(edit_counters.record_revert, number)
    before = os.sched_getaffinity(0)
    allowed = parse_cpus(os.environ.setdefault(ALLOWED, format_cpus(before)))
    undos: list[targets.Undo] = [functools.partial(edit_counters.record_revert, number)]
    if options.get("workers"):
        cpus = sorted(allowed & parse_cpus(options["workers"]))
        if cpus:
            undos.append(workers.run_in_workers(number, edit, begin, (number, cpus)))
        else:
            edit_counters.record_refusal(
                number, "affinity", f"workers: none of {options['workers']} is allowed"
            )
    if options.get("cpus"):
        cpus = sorted(allowed & parse_cpus(options["cpus"]))
        if cpus:
            begin(number, cpus)
            undos.append(functools.partial(_set, before))
        else:
            edit_counters.record_refusal(
                number, "affinity", f"none of {options['cpus']} is allowed"
            )
    undos.append(_forget)
    return functools.partial(targets.undo_all, undos)


def begin(number: int, cpus: list[int]) -> None:
    """Let all threads of this process, and those that they start, run on these processors."""
    edit_counters.record_effect(
        number, "affinity", format_cpus(os.sched_getaffinity(0)), format_cpus(cpus)
    )
    _set(cpus)


def parse_cpus(text: str) -> set[int]:
    """Return the numbers of a list such as "0-3,8"."""
    numbers: set[int] = set()
    for span in text.split(","):
        first_cpu, _, last_cpu = span.strip().partition("-")
        numbers.update(range(int(first_cpu), int(last_cpu or first_cpu) + 1))
    return numbers


def format_cpus(cpus: Any) -> str:
    """Return the shortest list of some numbers: "0-3,8"."""
    ranges: list[list[int]] = []
    for cpu in sorted(cpus):
        if ranges and cpu == ranges[-1][-1] + 1:
            ranges[-1][1:] = [cpu]
        else:
            ranges.append([cpu])
    return ",".join("-".join(map(str, bounds)) for bounds in ranges)


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
