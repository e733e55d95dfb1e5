"""What ``run`` and ``check`` share: options, the run itself, and what is printed at its end."""

import argparse
import gc
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Final

from gapless.commands.options import add_depth, positive, progress
from gapless.errors import GaplessError, UsageError

_NOTHING_SEEN: Final = 2
_EARLY_S: Final = 120
_PATIENCE_S: Final = 3.0  # for each of our threads
_LATER: Final = (  # what the end of a run imports
    "gapless.launch.homecoming",
    "gapless.store.recordings",
    "gapless.study.recorded.making",
    "gapless.report.brief",
    "gapless.commands.heap",
)

if TYPE_CHECKING:
    from gapless.launch.beside import Beside
    from gapless.launch.homecoming import Outcome
    from gapless.launch.order import Order
    from gapless.launch.running import Ended


def add_recording(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``run`` and ``check``, and the command, which is all that follows."""
    parser.allow_abbrev = False  # --e may be an option of the command's
    parser.add_argument("--out", metavar="DIR", type=Path, help="where runs go (.gapless/runs)")
    parser.add_argument("--quiet", action="store_true", help="record, but print nothing at the end")
    parser.add_argument(
        "--window-steps", metavar="N", type=positive, default=6, help="steps of a window (6)"
    )
    add_depth(parser)
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


def prepare() -> None:
    """Import what the report will need, while the command runs."""
    for module in _LATER:
        import_module(module)


def early(folder: Path, still: Callable[[], bool]) -> None:
    """Print the first verdict of a run that goes on, made in a process of its own.

    Its memory goes with it, and Python's lock is not held beside the training's launcher.
    """
    import subprocess

    code = "import sys; from gapless.commands.recording import print_early; print_early()"
    command = [sys.executable, "-P", "-c", code, str(folder)]
    done = subprocess.run(  # noqa: S603 - this interpreter, on a folder of ours
        command, stdin=subprocess.DEVNULL, capture_output=True, timeout=_EARLY_S, check=True
    )
    if still():
        sys.stderr.write(done.stdout.decode())
        sys.stderr.flush()


def print_early() -> None:
    """Print the verdict so far on the run whose folder is the first argument."""
    from gapless.report.run import early_line
    from gapless.study import Options, open_run

    os.nice(5)  # beside a training that takes every core, 10 would make a minute of it
    print(early_line(open_run(Path(sys.argv[1]), Options(diagnose=False), lambda _: None)))


def record(order: "Order", arguments: argparse.Namespace) -> int:
    """Run the command, print its report on stderr, and give the exit code; or die as it did."""
    from gapless.launch.process import StartError, interruptible
    from gapless.launch.running import run
    from gapless.launch.unseen import border

    gc.enable()  # this process may live for weeks
    try:
        ended = run(replace(order, meanwhile=prepare))
    except StartError as error:
        print(f"gapless: {error}", file=sys.stderr)
        return error.code
    told = None
    with interruptible(), border() as failures:
        try:
            told = _tell(ended, arguments)
        except KeyboardInterrupt:
            speak("interrupted; `gapless report` shows what was recorded", arguments)
    for error in failures:
        speak(_fault(error), arguments)
    if told is None and ended.beside is not None:
        _settle(ended.beside)
    return _code(ended, told, checked=order.settings.check)


def _settle(beside: "Beside") -> None:
    """Wait for our threads where the end was cut short: one that imports would crash our exit."""
    beside.stop.set()
    for thread in beside.threads:
        thread.join(_PATIENCE_S)


def _fault(error: Exception) -> str:
    if isinstance(error, GaplessError):
        return f"{error} (gapless explain {error.slug})"
    if os.environ.get("GAPLESS_DEBUG"):
        raise error
    return f"this is a mistake of gapless, not yours: {type(error).__name__}: {error}"


def _code(ended: "Ended", outcome: "Outcome | None", *, checked: bool) -> int:
    """Give the command's exit code; of a check that was followed to its end, whether it saw any."""
    from gapless.launch.process import die_by

    if checked and outcome is not None and (outcome.stopped or ended.code == 0):
        return 0 if outcome.recorded else _NOTHING_SEEN
    if ended.code < 0:
        die_by(-ended.code)
    return ended.code


def _tell(ended: "Ended", arguments: argparse.Namespace) -> "Outcome | None":
    from gapless.launch.homecoming import End, bring_home

    if ended.beside is None:
        speak(f"nothing was recorded: {ended.why}", arguments)
        return None
    with progress() as say:
        outcome = bring_home(ended.beside, End(ended.code, ended.at), say)
    if outcome.goes_on and not outcome.recorded:
        speak("nothing was recorded yet: a Python that the command left goes on", arguments)
        speak("once it has stepped, `gapless report` shows it", arguments)
    elif outcome.goes_on:
        speak("a process of the command goes on and is recorded; see `gapless report`", arguments)
    elif outcome.kept is not None:
        speak(f"not all fits in {outcome.folder}; the rest is in {outcome.kept}", arguments)
    if outcome.why is not None:
        failed = f"the command failed with exit code {ended.code}; " if ended.code > 0 else ""
        speak(f"{failed}nothing was recorded: {outcome.why}", arguments)
        for sentence in outcome.instead:
            speak(sentence, arguments)
    _report(outcome, arguments)
    return outcome


def _report(outcome: "Outcome", arguments: argparse.Namespace) -> None:
    """Derive what is asked later, and print the report."""
    from gapless.commands.heap import settle_heap
    from gapless.report.forms import tell_run
    from gapless.store.recordings import finish
    from gapless.study import Options, study_recording

    settle_heap()
    recording = finish(outcome.folder)
    if not outcome.recorded or arguments.quiet:
        what = "recorded" if outcome.recorded else "what was seen is"
        speak(f"{what} in {_short(outcome.folder)}", arguments)
        return
    with progress() as say:
        study = study_recording(recording, Options(price=arguments.price), say)
    with suppress(OSError):  # a progress bar may have left the cursor in the middle of a line
        sys.stderr.write("\n")
    speak(f"recorded in {_short(outcome.folder)}", arguments)
    tell_run(study, arguments, sys.stderr)


def _short(path: Path) -> str:
    with suppress(ValueError, OSError):
        return str(path.relative_to(Path.cwd()))
    return str(path)


def speak(sentence: str, arguments: argparse.Namespace) -> None:
    """Print a line of ours on stderr, unless none is wanted."""
    if not arguments.quiet:
        with suppress(OSError):
            print(f"gapless: {sentence}", file=sys.stderr, flush=True)
