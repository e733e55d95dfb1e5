"""Lines of the user's source in which sampled stacks stood."""

from collections import Counter
from collections.abc import Iterable
from typing import Final

from gapless.model.recording import Process, StackCount
from gapless.model.run import HotLine
from gapless.study.source import is_library

_MOST: Final = 20
_LEAST: Final = 0.01  # of the samples
_LOOP: Final = "_worker_loop"  # of torch.utils.data
Place = tuple[str, int, str]


def hot_lines(processes: Iterable[Process]) -> tuple[HotLine, ...]:
    """Count sampled stacks by the innermost line that is no library's, most samples first."""
    counts: dict[str, Counter[Place]] = {}
    whole = Counter[str]()
    for process in processes:
        for stack in process.stacks:
            whole[stack.thread] += stack.count
            place = _place(stack)
            if place is not None:
                counts.setdefault(stack.thread, Counter())[place] += stack.count
    return tuple(
        HotLine(thread, *place, count, count / whole[thread])
        for thread in sorted(counts)
        for place, count in counts[thread].most_common(_MOST)
        if count >= _LEAST * whole[thread]
    )


def lines_of_ranks(processes: Iterable[Process]) -> dict[int, tuple[HotLine, ...]]:
    """Give each rank's own lines, if there are several ranks."""
    mine: dict[int, list[Process]] = {}
    for one in processes:
        if one.rank is not None:
            mine.setdefault(one.rank, []).append(one)
    return {rank: hot_lines(some) for rank, some in mine.items()} if len(mine) > 1 else {}


def _place(stack: StackCount) -> Place | None:
    """Give the line, ``None`` for a worker that waits: below its loop is only who started it."""
    for frame in stack.frames:
        if stack.thread == "worker" and frame[2] == _LOOP:
            return None
        if not is_library(frame[0]):
            return frame
    return None
