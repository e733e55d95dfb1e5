"""worker-threads: each worker of a loader computes with so many threads (option ``threads``)."""

from __future__ import annotations

import functools
import sys
from typing import Any

from ... import imports
from .. import targets, telling, workers

TARGET = "threads of a worker"


def lay(number: int, edit: Any) -> targets.Undo:
    """Lay an edit; give what takes it off."""
    threads = int(edit["options"]["threads"])
    telling.laid(number, TARGET)
    return workers.in_each(number, edit, begin, (number, threads))


def begin(number: int, threads: int) -> None:
    """Let this worker have so many threads, also in libraries that it imports later."""
    torch = sys.modules["torch"]
    telling.told(number, TARGET, torch.get_num_threads(), threads)
    torch.set_num_threads(threads)
    imports.when_imported("cv2", functools.partial(_cv2, threads))
    imports.when_imported("threadpoolctl", functools.partial(_pools, threads))


def _cv2(threads: int, module: Any) -> None:
    module.setNumThreads(threads)


def _pools(threads: int, module: Any) -> None:
    module.threadpool_limits(threads)
