"""Record this very process: what stands behind ``gapless.record()``."""

import importlib
import os
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from gapless import wire
from gapless.launch.environment import SITE, RecorderSettings, build_environment, make_spool
from gapless.launch.run import exports, folder, spool_transfer
from gapless.launch.unobserved import Journal

if TYPE_CHECKING:
    from gapless.model.recording import Manifest

_PACKAGE = "_gapless"  # as in the processes below `gapless run`: one set of hooks, one name


@contextmanager
def record(out: Path | None = None, settings: RecorderSettings | None = None) -> Generator[Path]:
    """Record this process and its workers while the block runs; yield the run folder.

    Afterwards everything is as it was, the same objects. Within ``gapless run``, which records
    already, nothing is done, and the folder is the one that it writes to. Raises ``OSError``
    where no folder can be made.
    """
    spool = os.environ.get(wire.SPOOL)
    if spool:
        yield Path(spool)
        return
    started = time.monotonic_ns(), time.time_ns()
    run = folder.make(out)
    manifest = folder.new_manifest(run.name, sys.argv, started)
    with _spool(run, manifest, settings or RecorderSettings()) as (new_spool, boot):
        status = "failed"
        boot.load()
        try:
            yield run
            status = "finished"
        finally:
            boot.leave("record")
            ended_ns, journal = time.monotonic_ns(), Journal(new_spool)
            adopted = exports.adopt(new_spool, run, journal, lambda _: None)
            all_carried = spool_transfer.SpoolTransfer(new_spool, run, journal).sweep(is_last=True)
            final_manifest = replace(manifest, ended=ended_ns, status=status, adopted=adopted)
            if all_carried:
                spool_transfer.remove(new_spool)
            folder.write(run, final_manifest, None if all_carried else new_spool)


@contextmanager
def _spool(
    run: Path, manifest: "Manifest", settings: RecorderSettings
) -> Generator[tuple[Path, Any]]:
    """Make a spool, known to this process and its children as long as the block runs."""
    spool = make_spool()
    folder.write(run, manifest, spool)
    old_variables = dict(os.environ)
    variables = build_environment(old_variables, spool, settings)
    os.environ.update(variables)
    try:
        yield spool, _boot()
    finally:
        for name in (
            variable for variable in variables if variables[variable] != old_variables.get(variable)
        ):
            if name in old_variables:
                os.environ[name] = old_variables[name]
            else:
                os.environ.pop(name, None)


def _boot() -> ModuleType:
    if _PACKAGE not in sys.modules:
        package = ModuleType(_PACKAGE)
        package.__path__ = [str(SITE.parents[1])]
        sys.modules[_PACKAGE] = package
    return importlib.import_module(f"{_PACKAGE}.payload.boot")
