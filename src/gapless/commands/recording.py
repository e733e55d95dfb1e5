"""What ``run`` and ``check`` share: options, the run itself, and what is printed at its end."""

import argparse
import gc
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from gapless.commands.options import positive, progress
from gapless.errors import UsageError

if TYPE_CHECKING:
    from gapless.launch import Ended, Order, Outcome


def add_recording(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``run`` and ``check``, and the command, which is all that follows."""
    parser.allow_abbrev = False  # --e may be an option of the command's
    parser.add_argument("--out", metavar="DIR", type=Path, help="where runs go (.gapless/runs)")
    parser.add_argument("--quiet", action="store_true", help="record, but print nothing at the end")
    parser.add_argument(
        "--window-steps", metavar="N", type=positive, default=6, help="steps of a window (6)"
    )
    parser.add_argument("--price", metavar="P", type=float, help="what an hour of one GPU costs")
    parser.add_argument(
        "command_line", metavar="COMMAND", nargs=argparse.REMAINDER, help="any command, as it is"
    )


def command_of(arguments: argparse.Namespace) -> tuple[str, ...]:
    """Give the command to run. Raises ``UsageError`` if there is none."""
    words = tuple(arguments.command_line)
    if words[:1] == ("--",):
        words = words[1:]
    if not words:
        raise UsageError("there is no command; for example: gapless run python train.py")
    return words


def record(order: "Order", arguments: argparse.Namespace) -> int:
    """Run the command, print its report on stderr, and give the exit code; or die as it did."""
    from gapless.launch import StartError, interruptible, run

    gc.enable()  # this process may live for weeks
    try:
        ended = run(order)
    except StartError as error:
        print(f"gapless: {error}", file=sys.stderr)
        return error.code
    told = None
    with interruptible():
        try:
            told = _tell(ended, arguments)
        except KeyboardInterrupt:
            _say("interrupted; `gapless report` shows what was recorded", arguments)
        except Exception as error:  # the exit code is the command's, come what may
            if os.environ.get("GAPLESS_DEBUG"):
                raise
            _say(f"this is a mistake of gapless: {type(error).__name__}: {error}", arguments)
    return _code(ended, told)


def _code(ended: "Ended", outcome: "Outcome | None") -> int:
    """Give the command's exit code; of a check that was followed to its end, whether it saw any."""
    from gapless.launch import die_by

    if outcome is not None and ended.beside.order.settings.check:
        if outcome.stopped:
            return 0 if outcome.recorded else 2
        if ended.code == 0 and not outcome.recorded:
            return 2
    if ended.code < 0:
        die_by(-ended.code)
    return ended.code


def _tell(ended: "Ended", arguments: argparse.Namespace) -> "Outcome":
    from gapless.launch import bring_home

    with progress() as say:
        outcome = bring_home(ended, say)
    if outcome.kept is not None:
        _say(
            f"not all could be written to {outcome.folder}; it is kept in {outcome.kept}", arguments
        )
    if outcome.why is not None:
        _say(f"nothing was recorded: {outcome.why}", arguments)
    _report(outcome, arguments)
    return outcome


def _report(outcome: "Outcome", arguments: argparse.Namespace) -> None:
    """Derive what is asked later, and print the report."""
    from gapless.store.recordings import finish

    finish(outcome.folder)
    _say(f"recorded in {_short(outcome.folder)}", arguments)


def _short(path: Path) -> str:
    with suppress(ValueError, OSError):
        return str(path.relative_to(Path.cwd()))
    return str(path)


def _say(sentence: str, arguments: argparse.Namespace) -> None:
    if not arguments.quiet:
        with suppress(OSError):
            print(f"gapless: {sentence}", file=sys.stderr, flush=True)
