"""Work on batches in threads: NumPy lets other threads run while it works on a column."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from gapless.formats.pool import processors

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")
_THREADS = 4  # more wait for Python's lock


def ahead(function: Callable[[_Item], _Result], items: Iterable[_Item]) -> Iterator[_Result]:
    """Give ``function`` of each item, in order, working on a few of the next ones meanwhile."""
    count = min(processors(), _THREADS)
    waiting: deque[Future[_Result]] = deque()
    with ThreadPoolExecutor(count) as pool:
        for item in items:
            waiting.append(pool.submit(function, item))
            if len(waiting) > count:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
