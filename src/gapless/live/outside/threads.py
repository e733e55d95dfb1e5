"""The threads of a process: which of them were on a processor, and how much."""

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from gapless.live.activity import PROC, read_clock
from gapless.live.outside.attached import ThreadShare

_MAX_THREADS: Final = 6  # that are told apart
_MIN_PROCESSORS: Final = 0.01
ThreadTimes = Mapping[int, tuple[str, int]]  # number → name, ns on a processor


def read_threads(pid: int, proc: Path = PROC) -> ThreadTimes:
    """Return each thread's name and time on a processor so far; empty if the process is gone."""
    times: dict[int, tuple[str, int]] = {}
    folder = proc / str(pid) / "task"
    with suppress(OSError):
        for number in map(int, os.listdir(folder)):  # noqa: PTH208 - names alone
            with suppress(OSError):
                name = (folder / str(number) / "comm").read_text(errors="replace").strip()
                clock = read_clock(pid, number, proc)
                times |= {} if clock is None else {number: (name, clock.ran_ns)}
    return times


def busiest_threads(first: ThreadTimes, last: ThreadTimes, wall_ns: int) -> tuple[ThreadShare, ...]:
    """Return the threads that were on a processor most between two readings."""
    shares = [
        ThreadShare(number, name, (ran_ns - first.get(number, (name, 0))[1]) / wall_ns)
        for number, (name, ran_ns) in last.items()
        if wall_ns > 0
    ]
    shares.sort(key=lambda share: -share.processors)
    return tuple(share for share in shares if share.processors >= _MIN_PROCESSORS)[:_MAX_THREADS]
