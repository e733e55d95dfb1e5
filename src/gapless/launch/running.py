"""Run a command with the recorder inside.

The command is started first; all else is imported and done beside it, in threads that may fail
without harm.
"""

import os
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from gapless.launch import process, search_path, witness
from gapless.launch.environment import environment, make_spool
from gapless.launch.order import Order
from gapless.launch.unseen import Journal, border, said

if TYPE_CHECKING:
    from gapless.launch.beside import Beside


@dataclass(frozen=True)
class Ended:
    """A command that has ended: its exit code, or the number of a signal, negative."""

    code: int
    at: int  # CLOCK_MONOTONIC
    beside: "Beside | None"  # None: nothing could be recorded
    why: str | None


def run(order: Order) -> Ended:
    """Run a command to its end. Raises ``StartError``."""
    spool, why = _spool()
    command, variables = order.command, dict(os.environ)
    if spool is not None:
        ours = environment(os.environ, spool, order.settings)
        command, variables = search_path.kept(order.command, ours, spool, Path())
    with process.watched_signals() as signals:
        group = witness.call(signals.watched)
        try:
            started = time.monotonic_ns(), time.time_ns()
            child = process.start(command, variables, signals)
            beside = None
            if spool is not None:
                with border() as failures:
                    beside = _accompany(order, spool, child, started)
                why = "; ".join(map(said, failures))
            code = process.wait(child, signals, group)
            return Ended(code, time.monotonic_ns(), beside, why)
        except process.StartError:
            if spool is not None:
                search_path.remove(spool)
                with suppress(OSError):
                    spool.rmdir()
            raise
        finally:
            if group is not None:
                group.dismiss()


def _spool() -> tuple[Path | None, str | None]:
    try:
        return make_spool(), None
    except OSError as error:
        return None, f"there is no place to write to: {error.strerror}"


def _accompany(order: Order, spool: Path, child: int, started: tuple[int, int]) -> "Beside":
    from gapless.launch import beside, tree

    journal = Journal(spool)
    threads = beside.Beside(order, spool, child, started, journal, tree.Tree(child, spool))
    beside.start(threads)
    return threads
