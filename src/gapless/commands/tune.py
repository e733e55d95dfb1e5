"""Make a training faster: try what its report proposes, keep what is proven, prove the whole.

The command is recorded (unless it was before, or RUN is given). Then the proposals are tried, the
one with the highest predicted lower bound first, each on top of what is kept so far, in turns with
and without it, as gapless try does. A fix is kept if its interval lies above the noise, and the
training sees the same data and losses as its class promises; all else is dropped. After each kept
fix the training is recorded with it, and what to try next is predicted anew: fixing one thing
exposes the next. That goes on until nothing proposed is worth more than the noise, or --budget is
spent. At the end all that is kept is measured once more against the untouched command, in fresh
processes in turns, with losses, data and the whole job compared: only that gain is reported.

What can be switched while the training runs is tried in one process, which takes a fraction of the
time; all else, and everything with --fresh, in fresh processes in turns.

Nothing is written into your source. What is proven is in tuned.json in the folder of the run:
gapless run --with applies it while a command starts, gapless fix writes it into the source.

Ctrl-C keeps what is proven so far, prints it, and ends with 130; --resume goes on from there, also
after a kill or a spent budget.

Examples:
  gapless tune -- python train.py            record, try, prove: ten minutes at most
  gapless tune                               the same for the last recorded run
  gapless tune --budget 30m --risky          longer; precision and behaviour may change, too
  gapless tune --fix more-workers foreach    only these two
  gapless tune --skip compile                all that is proposed but that
  gapless tune --resume                      go on where it stopped
  gapless tune --out tuned.json -- python train.py
  gapless run --with tuned.json python train.py
      the training with what was proven

"""

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from gapless.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from gapless.model.tuning import TuningState
    from gapless.tune.workbench import TuningTask

COMMAND_AFTER = "--"  # what follows is not an option of ours (cli)
SUMMARY = "measure edits on top of one another, and keep what is proven"
_INTERRUPTED: Final = 130  # Ctrl-C, as the shell reports it


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``gapless tune``."""
    from gapless.commands.options import budget

    parser.usage = "gapless tune [RUN] [options] [-- COMMAND ...]"
    parser.allow_abbrev = False  # --s may be an option of the command's
    choice_group = parser.add_argument_group("what to try")
    for name, words in (
        ("--fix", "only these fixes (gapless try --list)"),
        ("--skip", "all but these"),
    ):
        choice_group.add_argument(
            name, metavar="NAME", nargs="+", action="extend", default=[], help=words
        )
    change_group = parser.add_argument_group(
        "what may change", "by default the classes same and equivalent (docs/fixes.md)"
    )
    change_group.add_argument("--strict", action="store_true", help="only what changes no result")
    change_group.add_argument("--risky", action="store_true", help="also precision and behaviour")
    change_group.add_argument(
        "--allow-writes", metavar="PATH", type=Path, action="append", default=[],
        help="arms may write there, outside the working folder",
    )  # fmt: skip
    change_group.add_argument("--yes", action="store_true", help="ask nothing")
    how_group = parser.add_argument_group("how")
    how_group.add_argument(
        "--budget", metavar="TIME", type=budget, default=600.0, help="for all of it: 5m, 1h (10m)"
    )
    how_group.add_argument("--fresh", action="store_true", help="every arm in a new process")
    how_group.add_argument("--resume", action="store_true", help="go on where the last one stopped")
    how_group.add_argument(
        "--in", metavar="DIR", dest="place", type=Path, help="the folder of runs"
    )
    how_group.add_argument(
        "--out", metavar="FILE", type=Path, help="write what is proven there, too (tuned.json)"
    )
    how_group.add_argument(
        "--json", action="store_true", help="print one JSON object (docs/json.md)"
    )
    how_group.add_argument(
        "--html", metavar="FILE", type=Path, help="also write a page that works offline"
    )
    parser.add_argument("run", metavar="RUN", nargs="?", help="folder or id of a run (last)")


def main(arguments: argparse.Namespace) -> int:
    """Tune the command, print what came of it, and keep it with the run."""
    from gapless.commands.options import check_page, progress
    from gapless.tune import rounds
    from gapless.tune.workbench import make_workbench

    _check_names(arguments)
    check_page(arguments.html)
    with progress() as say:
        task, state = _begin(arguments, say)
        state = rounds.tune(state, make_workbench(task, say), arguments.budget)
    _write_outcome(task, state, arguments)
    return _INTERRUPTED if state.end == rounds.INTERRUPTED else 0


def _check_names(arguments: argparse.Namespace) -> None:
    """Raise ``UsageError`` for an unknown name, before anything is run."""
    from gapless.catalogue.declare import listing

    joined = next((name for name in arguments.fix if "+" in name), None)
    if joined is not None:
        raise UsageError(f"{joined}: tune stacks fixes by itself; name them one by one")
    for name in arguments.fix:
        listing.parse_fix(name)
    for name in arguments.skip:
        listing.find_fix(name)


def _begin(
    arguments: argparse.Namespace, report_progress: "Callable[[str], None]"
) -> "tuple[TuningTask, TuningState]":
    """Return the task and the state to go on from; a command never recorded is run once."""
    from gapless.commands.trying import ask_permission, find_subject, runs_home
    from gapless.model.tuning import TuningState
    from gapless.tune.workbench import TuningTask
    from gapless.verify.requests import TrialRequest
    from gapless.verify.specs import ArmMode
    from gapless.verify.trial import TrialTask, scout

    if arguments.resume and arguments.run is None and not arguments.command_line:
        arguments.run = _find_begun(runs_home(arguments))
    recording, command, folder = find_subject(arguments)
    if arguments.resume and recording is None:
        raise UsageError("there is nothing to resume: this command was never recorded here")
    trial_task = TrialTask(
        request=TrialRequest(strict=arguments.strict, risky=arguments.risky),
        command=command,
        folder=folder,
        home=runs_home(arguments),
        has_private_view=ask_permission(arguments, recording, folder),
        mode=ArmMode.FRESH if arguments.fresh else ArmMode.SWITCHED_FIRST,
    )
    if recording is None:
        recording = scout(trial_task, report_progress, takes_window=True).recording
    run = Path(recording.path)
    task = TuningTask(trial_task, run, tuple(arguments.fix), tuple(arguments.skip))
    if arguments.resume:
        return task, _read_state(run)
    _forget_last(run)
    return task, TuningState(command, str(folder), recording.manifest.id, str(run))


def _find_begun(home: Path) -> str | None:
    """Return the newest run of which a tuning has begun, if there is one."""
    from gapless.store.run import runs, tunings

    begun_paths = (
        entry.path for entry in runs.list_runs(home) if (entry.path / tunings.STATE).exists()
    )
    return next(map(str, begun_paths), None)


def _read_state(run: Path) -> "TuningState":
    from msgspec.structs import replace

    from gapless.store.run import tunings

    state = tunings.read_state(run)
    if state is None:
        raise UsageError(f"there is nothing to resume: no tuning of {run} has begun")
    is_gone = state.record is not None and not Path(state.record).is_dir()
    return replace(state, record=None if state.fixes else str(run)) if is_gone else state


def _forget_last(run: Path) -> None:
    """Remove what an earlier tuning of a run has proven: it does not hold for this one."""
    from gapless.store.run import tunings

    for name in (tunings.FILE, tunings.STATE):
        (run / name).unlink(missing_ok=True)


def _write_outcome(task: "TuningTask", state: "TuningState", arguments: argparse.Namespace) -> None:
    from gapless.report.documents.tuning import tuning_json
    from gapless.report.sections.tuning import print_tuning
    from gapless.store.run import tunings
    from gapless.tune.rounds import tuning_of

    tuning = tuning_of(state)
    path = task.run / tunings.FILE
    tunings.write_tuning(tuning, path)
    if arguments.out is not None:
        path = arguments.out
        try:
            tunings.write_tuning(tuning, path)
        except OSError as error:
            raise UsageError(f"{path} cannot be written: {error.strerror}") from None
    if arguments.json:
        sys.stdout.write(tuning_json(state, tuning, path))
    else:
        print_tuning(state, tuning, Path(os.path.relpath(path)))
    if arguments.html is not None:
        from gapless.commands.options import write_page
        from gapless.page.trials import tuning_page

        page = tuning_page(state, tuning, Path(os.path.relpath(path)))
        write_page(page, arguments.html, sys.stderr)
