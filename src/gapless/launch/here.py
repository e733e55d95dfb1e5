"""Record this very process: what stands behind ``gapless.record()``."""

import importlib
import os
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from gapless import wire
from gapless.launch import carrying, exports, folder
from gapless.launch.environment import SITE, Settings, environment, make_spool
from gapless.launch.unseen import Journal

if TYPE_CHECKING:
    from gapless.model.recording import Manifest

_PACKAGE = "_gapless"  # as in the processes below `gapless run`: one set of hooks, one name


@contextmanager
def record(out: Path | None = None, settings: Settings | None = None) -> Generator[Path]:
    """Record this process and its workers while the block runs; give the run folder.

    Afterwards everything is as it was, the same objects. Within ``gapless run``, which records
    already, nothing is done, and the folder given is the one that it writes to. Raises ``OSError``
    where no folder can be made.
    """
    spool = os.environ.get(wire.SPOOL)
    if spool:
        yield Path(spool)
        return
    started = time.monotonic_ns(), time.time_ns()
    run = folder.make(out)
    begun = folder.manifest(run.name, sys.argv, started)
    with _spool(run, begun, settings or Settings()) as (written, boot):
        status = "failed"
        boot.load()
        try:
            yield run
            status = "finished"
        finally:
            boot.leave("record")
            ended, journal = time.monotonic_ns(), Journal(written)
            adopted = exports.adopt(written, run, journal, lambda _: None)
            carried = carrying.Carrier(written, run, journal).sweep(last=True)
            done = replace(begun, ended=ended, status=status, adopted=adopted)
            if carried:
                carrying.remove(written)
            folder.write(run, done, None if carried else written)


@contextmanager
def _spool(run: Path, begun: "Manifest", settings: Settings) -> Generator[tuple[Path, Any]]:
    """Make a spool; let this process and its children know of it as long as the block runs."""
    spool = make_spool()
    folder.write(run, begun, spool)
    before = dict(os.environ)
    changed = environment(before, spool, settings)
    os.environ.update(changed)
    try:
        yield spool, _boot()
    finally:
        for name in (one for one in changed if changed[one] != before.get(one)):
            if name in before:
                os.environ[name] = before[name]
            else:
                os.environ.pop(name, None)


def _boot() -> ModuleType:
    if _PACKAGE not in sys.modules:
        package = ModuleType(_PACKAGE)
        package.__path__ = [str(SITE.parents[1])]
        sys.modules[_PACKAGE] = package
    return importlib.import_module(f"{_PACKAGE}.payload.boot")
