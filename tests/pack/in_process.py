"""Packing within the test's process: what workers do, without the time that starting them takes."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

from gapless.pack import workers
from gapless.pack.packing import PackOutcome, PackRequest, pack
from gapless.pack.sources import choose_format, find_source
from gapless.packer.session import PackingSession, describe_error

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from gapless.pack.workers import Report, WorkerTask


class ThreadWorker:
    """Does a worker's tasks in a thread of this process."""

    def __init__(self, _python: str, specification: dict[str, Any]) -> None:
        self._report: Report = lambda _: None
        try:
            self._session = PackingSession(specification, self._show)
        except Exception as error:  # noqa: BLE001 - as the worker answers it
            workers._raise_error(describe_error(error))  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]

    def _show(self, done: int) -> None:
        self._report(done)

    def ask(self, task: WorkerTask, report: Report) -> Any:  # noqa: ANN401
        self._report = report
        try:
            return getattr(self._session, task.name)(**task.arguments)
        except Exception as error:  # noqa: BLE001 - as the worker answers it
            workers._raise_error(describe_error(error))  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]

    def end(self) -> None:
        """Do nothing: the task that is done ends."""

    def bury(self) -> None:
        """Do nothing."""


def work_in_process(patch: pytest.MonkeyPatch) -> None:
    """Have workers be threads, and files not be synced: nothing here loses power.

    What they add to ``sys.path`` goes with the patch: spawned workers of other tests get a copy.
    """
    patch.setattr(sys, "path", sys.path[:])
    patch.setattr(workers, "PackWorker", ThreadWorker)
    patch.setattr(os, "fsync", lambda _: None)  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]


def pack_source(
    source: str | Path,
    target: Path,
    *,
    named_format: str | None = None,
    verify: bool = False,
    shard_bytes: int | None = None,
    python: str = "python",
) -> PackOutcome:
    """Pack as the command line does."""
    kind = choose_format(target, named_format)
    request = PackRequest(
        find_source(str(source)), target, kind, python, 2, shard_bytes, verify=verify
    )
    return pack(request, lambda _: None, lambda _: None)
