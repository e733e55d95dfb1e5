"""When the launcher imports what the report will need."""

import os
import threading
import time
from pathlib import Path

from gapless.launch.process_tree import Tree
from gapless.launch.run import sidecar
from gapless.launch.run_spec import RunSpec
from gapless.launch.unobserved import Journal
from tests import waiting


def make_sidecar(folder: Path, is_prepared: threading.Event) -> sidecar.Sidecar:
    started = (time.monotonic_ns(), time.time_ns())
    spec = RunSpec(("true",), folder / "runs", on_idle=is_prepared.set)
    return sidecar.Sidecar(
        spec, folder, os.getpid(), started, Journal(folder), Tree(os.getpid(), folder)
    )


def test_the_report_is_prepared_while_a_command_runs(tmp_path: Path) -> None:
    is_prepared = threading.Event()
    beside = make_sidecar(tmp_path, is_prepared)
    sidecar.start(beside)
    assert is_prepared.wait(waiting.PATIENCE_S)
    beside.stop.set()
    for thread in beside.threads:
        thread.join(waiting.PATIENCE_S)


def test_no_report_is_prepared_of_what_ends_at_once(tmp_path: Path) -> None:
    is_prepared = threading.Event()
    beside = make_sidecar(tmp_path, is_prepared)
    beside.stop.set()
    sidecar.start(beside)
    for thread in beside.threads:
        thread.join(waiting.PATIENCE_S)
    assert not is_prepared.is_set()
    assert beside.transfer is not None, "its folder is made"
