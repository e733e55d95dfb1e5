"""worker-threads: each worker of a loader computes with so many threads (option ``threads``)."""

from __future__ import annotations

import functools
import sys
from typing import Any

from ... import imports
from .. import workers
from ..patch import edit_counters, targets

TARGET = "threads of a worker"


def apply(number: int, edit: Any) -> targets.Undo:
    """Apply an edit; return what reverts it."""
    threads = int(edit["options"]["threads"])
    edit_counters.register_edit(number, TARGET)
    return workers.run_in_workers(number, edit, begin, (number, threads))


def begin(number: int, threads: int) -> None:
    """Let this worker have so many threads, also in libraries that it imports later."""
    torch = sys.modules["torch"]
    edit_counters.record_effect(number, TARGET, torch.get_num_threads(), threads)
    torch.set_num_threads(threads)
    imports.when_imported("cv2", functools.partial(_limit_cv2, threads))
    imports.when_imported("threadpoolctl", functools.partial(_limit_pools, threads))


def _limit_cv2(threads: int, module: Any) -> None:
    module.setNumThreads(threads)


def _limit_pools(threads: int, module: Any) -> None:
    module.threadpool_limits(threads)
