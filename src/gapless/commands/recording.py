"""What ``run`` and ``check`` share: options, the run itself, and what is printed at its end."""

import argparse
import gc
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Final

from gapless.commands.options import add_depth, positive, progress, tell
from gapless.commands.tracking import add_log_to, check_log_to, log_to_trackers
from gapless.errors import GaplessError, UsageError

_NOTHING_SEEN: Final = 2
_EARLY_TIMEOUT_S: Final = 120
_PATIENCE_S: Final = 3.0  # for each of our threads
_END_MODULES: Final = (  # modules that the end of a run imports
    "gapless.launch.run.finalize",
    "gapless.store.run.recordings",
    "gapless.study.build_run",
    "gapless.report.brief",
    "gapless.commands.heap",
)

if TYPE_CHECKING:
    from gapless.launch.run.finalize import RunOutcome
    from gapless.launch.run.running import CommandResult
    from gapless.launch.run.sidecar import Sidecar
    from gapless.launch.run_spec import RunSpec


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
    add_log_to(parser)
    parser.add_argument(
        "command_line", metavar="COMMAND", nargs=argparse.REMAINDER, help="any command, as it is"
    )


def command_of(arguments: argparse.Namespace) -> tuple[str, ...]:
    """Return the command to run. Raises ``UsageError`` if there is none."""
    words = tuple(arguments.command_line)
    if words[:1] == ("--",):
        words = words[1:]
    if not words:
        raise UsageError("there is no command; for example: gapless run python train.py")
    return words


def import_end_modules() -> None:
    """Import what the report will need, while the command runs."""
    for module in _END_MODULES:
        import_module(module)


def show_early_verdict(folder: Path, is_running: Callable[[], bool]) -> None:
    """Print the first verdict of a running run, computed in a process of its own.

    Its memory is freed with it, and it does not hold the GIL of the training's launcher.
    """
    import subprocess

    code = "import sys; from gapless.commands.recording import print_early; print_early()"
    command = [sys.executable, "-P", "-c", code, str(folder)]
    completed = subprocess.run(  # noqa: S603 - this interpreter, on a folder of ours
        command, stdin=subprocess.DEVNULL, capture_output=True, timeout=_EARLY_TIMEOUT_S, check=True
    )
    if is_running():
        sys.stderr.write(completed.stdout.decode())
        sys.stderr.flush()


def print_early() -> None:
    """Print the verdict so far on the run whose folder is the first argument."""
    from gapless.report.run.page import early_line
    from gapless.study import Options, open_run

    os.nice(5)  # next to a training that takes every core, 10 would turn it into a minute
    print(early_line(open_run(Path(sys.argv[1]), Options(diagnose=False), lambda _: None)))


def record(run_spec: "RunSpec", arguments: argparse.Namespace) -> int:
    """Run the command, print its report on stderr, and return the exit code; or die as it did."""
    from dataclasses import replace

    from gapless.launch.process import StartError, interruptible
    from gapless.launch.run.running import run
    from gapless.launch.unobserved import contain_failures

    for check in (check_log_to, _check_gather):
        try:
            check(arguments)
        except GaplessError as error:  # the training is not to fail for it
            tell(f"{error}; the command runs")
    gc.enable()  # this process may live for weeks
    try:
        command_result = run(replace(run_spec, on_idle=import_end_modules))
    except StartError as error:
        tell(str(error))
        return error.code
    outcome = None
    with interruptible(), contain_failures() as failures:
        try:
            outcome = _finish_run(command_result, arguments)
        except KeyboardInterrupt:
            speak("interrupted; `gapless report` shows what was recorded", arguments)
    _speak_faults(failures, arguments)
    if outcome is None and command_result.sidecar is not None:
        _join_threads(command_result.sidecar)
    return _exit_code(command_result, outcome, is_check=run_spec.settings.check)


def _join_threads(sidecar: "Sidecar") -> None:
    """Wait for our threads if the end was cut short: one that imports would crash our exit."""
    sidecar.stop.set()
    for thread in sidecar.threads:
        thread.join(_PATIENCE_S)


def _speak_faults(failures: list[Exception], arguments: argparse.Namespace) -> None:
    for error in failures:
        speak(_fault_text(error), arguments)


def _fault_text(error: Exception) -> str:
    if isinstance(error, GaplessError):
        return f"{error} (gapless explain {error.slug})"
    if os.environ.get("GAPLESS_DEBUG"):
        raise error
    return f"this is a mistake of gapless, not yours: {type(error).__name__}: {error}"


def _exit_code(
    command_result: "CommandResult", outcome: "RunOutcome | None", *, is_check: bool
) -> int:
    """Return the command's exit code; for a check watched to its end, whether it saw steps."""
    from gapless.launch.process import die_by

    if is_check and outcome is not None and (outcome.stopped or command_result.code == 0):
        return 0 if outcome.recorded else _NOTHING_SEEN
    if command_result.code < 0:
        die_by(-command_result.code)
    return command_result.code


def _finish_run(
    command_result: "CommandResult", arguments: argparse.Namespace
) -> "RunOutcome | None":
    from gapless.launch.run.finalize import CommandEnd, finalize_run

    if command_result.sidecar is None:
        speak(f"nothing was recorded: {command_result.why}", arguments)
        return None
    with progress() as say:
        outcome = finalize_run(
            command_result.sidecar, CommandEnd(command_result.code, command_result.ended_ns), say
        )
    if outcome.goes_on and not outcome.recorded:
        speak(
            "nothing was recorded yet: a Python process that the command left is still running",
            arguments,
        )
        speak("once it has stepped, `gapless report` shows it", arguments)
    elif outcome.goes_on:
        speak(
            "a process of the command is still running and is recorded; see `gapless report`",
            arguments,
        )
    elif outcome.leftover_spool is not None:
        speak(
            f"not all fits in {outcome.folder}; the rest is in {outcome.leftover_spool}", arguments
        )
    if outcome.why is not None:
        failure_text = _describe_failure(command_result.code)
        speak(f"{failure_text}nothing was recorded: {outcome.why}", arguments)
        for sentence in outcome.torch_processes:
            speak(sentence, arguments)
    _print_report(outcome, arguments)
    if outcome.recorded and getattr(arguments, "gather", None) is not None:
        _gather_run(outcome.folder, arguments)
    return outcome


def _describe_failure(exit_code: int | None) -> str:
    """Return how a command failed, to begin a sentence with; nothing of one that a signal ended."""
    if exit_code is None or exit_code <= 0:
        return ""
    return f"the command failed with exit code {exit_code}; "


def _check_gather(arguments: argparse.Namespace) -> None:
    """Raise ``RemoteError`` if a package is missing: it is needed at the end."""
    if getattr(arguments, "gather", None) is not None:
        from gapless.remote.files import check_packages

        check_packages(arguments.gather)


def _gather_run(folder: Path, arguments: argparse.Namespace) -> None:
    """Copy a run to where those of all machines are gathered; a failure is said, even if quiet."""
    from platform import node

    from gapless.errors import mask_secrets
    from gapless.remote.folders import upload_folder

    try:
        with progress() as say:
            say("copying the run")
            url = upload_folder(folder, arguments.gather, f"{folder.name}-{node()}")
    except GaplessError as error:
        tell(f"the run is here alone: {_fault_text(error)}")
        return
    speak(f"the run is in {mask_secrets(url)}", arguments)


def _print_report(outcome: "RunOutcome", arguments: argparse.Namespace) -> None:
    """Derive what is needed later, and print the report."""
    from gapless.commands.heap import settle_heap
    from gapless.launch.unobserved import contain_failures
    from gapless.report.run.sentences import relative_path
    from gapless.store.run.recordings import finish
    from gapless.store.run.sources import write_sources

    settle_heap()
    recording = finish(outcome.folder)
    with suppress(
        OSError
    ):  # without it gapless fix cannot know what has changed since, and says so
        write_sources(recording)
    if not outcome.recorded or (arguments.quiet and not arguments.log_to):
        subject = "recorded" if outcome.recorded else "what was seen is"
        speak(f"{subject} in {relative_path(outcome.folder)}", arguments)
        return

    from gapless.report.forms import write_ended_run
    from gapless.study import Options, study_ended_run

    with progress() as say:
        study = study_ended_run(recording, Options(price=arguments.price), say)
    if not arguments.quiet:
        with suppress(OSError):  # a progress bar may have left the cursor in the middle of a line
            sys.stderr.write("\n")
        life = None if study.recorded is None else study.recorded.life
        failed = life is not None and life.stopped_by is None  # not what gapless ended itself
        failure_text = _describe_failure(life.exit_code) if life is not None and failed else ""
        speak(f"{failure_text}recorded in {relative_path(outcome.folder)}", arguments)
        write_ended_run(study, arguments, sys.stderr)
    with contain_failures() as failures:  # of a tracker: the run was recorded all the same
        for sentence in log_to_trackers(study, arguments):
            speak(sentence, arguments)
    _speak_faults(failures, arguments)


def speak(sentence: str, arguments: argparse.Namespace) -> None:
    """Print a line of ours on stderr, unless quiet."""
    if not arguments.quiet:
        with suppress(OSError):
            tell(sentence)
