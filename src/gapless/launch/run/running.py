"""Run a command with the recorder inside.

The command is started first; all else is imported and done in threads beside it, which may fail
without harm.
"""

import os
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from gapless.launch import process, search_path, signal_witness
from gapless.launch.environment import build_environment, make_spool
from gapless.launch.run_spec import RunSpec
from gapless.launch.unobserved import Journal, contain_failures, describe_error

if TYPE_CHECKING:
    from gapless.launch.run.sidecar import Sidecar


@dataclass(frozen=True)
class CommandResult:
    """A command that has ended: its exit code, or the number of a signal, negative."""

    code: int
    ended_ns: int  # CLOCK_MONOTONIC
    sidecar: "Sidecar | None"  # None: nothing could be recorded
    why: str | None


def run(spec: RunSpec) -> CommandResult:
    """Run a command to its end. Raises ``StartError``."""
    spool, why = _try_spool()
    command, variables = spec.command, dict(os.environ)
    if spool is not None:
        recorder_variables = build_environment(os.environ, spool, spec.settings)
        command, variables = search_path.keep_entry(spec.command, recorder_variables, spool, Path())
    with process.watch_signals() as signals:
        group = signal_witness.start_witness(signals.watched)
        try:
            started = time.monotonic_ns(), time.time_ns()
            child = process.start(command, variables, signals)
            sidecar = None
            if spool is not None:
                with contain_failures() as failures:
                    sidecar = _start_sidecar(spec, spool, child, started)
                why = "; ".join(map(describe_error, failures))
            code = process.wait(child, signals, group)
            return CommandResult(code, time.monotonic_ns(), sidecar, why)
        except process.StartError:
            if spool is not None:
                search_path.remove(spool)
                with suppress(OSError):
                    spool.rmdir()
            raise
        finally:
            if group is not None:
                group.dismiss()


def _try_spool() -> tuple[Path | None, str | None]:
    try:
        return make_spool(), None
    except OSError as error:
        return None, f"there is no place to write to: {error.strerror}"


def _start_sidecar(spec: RunSpec, spool: Path, child: int, started: tuple[int, int]) -> "Sidecar":
    from gapless.launch import process_tree
    from gapless.launch.run import sidecar

    journal = Journal(spool)
    tree = process_tree.Tree(child, spool)
    threads = sidecar.Sidecar(spec, spool, child, started, journal, tree)
    sidecar.start(threads)
    return threads
