"""Work on batches in threads: NumPy lets other threads run while it works on a column."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from gapless.formats.processes import count_processors

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")
_THREADS = 4  # more wait for Python's lock


def map_ahead(function: Callable[[_Item], _Result], items: Iterable[_Item]) -> Iterator[_Result]:
    """Yield ``function`` of each item, in order, working on a few of the next ones meanwhile."""
    count = min(count_processors(), _THREADS)
    futures: deque[Future[_Result]] = deque()
    with ThreadPoolExecutor(count) as pool:
        for item in items:
            futures.append(pool.submit(function, item))
            if len(futures) > count:
                yield futures.popleft().result()
        while futures:
            yield futures.popleft().result()
