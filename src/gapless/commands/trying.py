"""What ``gapless try`` does: the run, the permission, the trial, what is printed."""

import argparse
import sys
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final

from gapless.errors import NotFoundError, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gapless.model.edit import Proposal
    from gapless.model.recording import Recording
    from gapless.verify.trying import Tried
    from gapless.verify.wishes import Wish

_LOOKED_AT: Final = 5  # runs of a command
_INTERRUPTED: Final = 130  # Ctrl-C, as the shell says it


def listed(arguments: argparse.Namespace) -> int:
    """List the edits, and what each would do in the run; without a run: what each is for."""
    from gapless.catalogue.declare import spoken
    from gapless.catalogue.listing import FIXES
    from gapless.study.recorded.facts import facts
    from gapless.verify.wishes import survey

    try:
        recording, _, _ = _subject(arguments)
    except NotFoundError:
        recording = None
    if recording is None:
        for one in FIXES:
            print(f"{one.name:26} {one.summary}")
        return 0
    for proposal in survey(facts(recording)):
        print(f"{proposal.fix:26} {spoken(proposal)}")
    return 0


def measured(arguments: argparse.Namespace) -> int:
    """Measure the machine in the interpreter of the run, print that, and keep it."""
    from gapless.commands.options import progress
    from gapless.report.machine_constants import document, lines
    from gapless.study.machine_constants import Keeping, constants
    from gapless.study.recorded.constants import asked_of

    if arguments.fix or arguments.set or arguments.ceilings or arguments.check_prediction:
        raise UsageError("--machine tries nothing; leave out what is to be tried")
    recording, _, _ = _subject(arguments)
    asked = None if recording is None else asked_of(recording)
    if asked is None:
        raise UsageError("no run tells which interpreter it is about; record one (gapless run)")
    with progress() as say:
        found = constants(asked.python, asked.device, None, say, Keeping(anew=True))
    if arguments.json:
        sys.stdout.write(document(found))
    else:
        print(*lines(found), sep="\n")
    if not found.alone:
        print("gapless: others used the machine: no prediction will use this", file=sys.stderr)
    return int(found.place is None)


def tried(arguments: argparse.Namespace) -> int:
    """Try what is asked for, print it, and keep it with the run."""
    from gapless.commands.options import progress
    from gapless.verify import plan, trying, wishes

    wish = _wish(arguments)
    wishes.check(wish)
    recording, command, folder = _subject(arguments)
    private = _permitted(arguments, recording, folder)
    asked = trying.Asked(
        wish=wish,
        command=command,
        folder=folder,
        home=_home(arguments),
        private=private,
        budget_s=arguments.budget,
        out=arguments.out,
        steps=arguments.steps,
    )
    with progress() as say:
        try:
            found = trying.attempt(asked, recording, say)
        except KeyboardInterrupt:
            say("")  # the line of progress goes
            print("gapless: interrupted before two arms could be compared", file=sys.stderr)
            return _INTERRUPTED
    _print(found, arguments)
    cut = found.trial is not None and plan.INTERRUPTED in found.trial.notes
    return _INTERRUPTED if cut else 0


def _wish(arguments: argparse.Namespace) -> "Wish":
    from gapless.verify.wishes import Wish

    named = bool(arguments.fix or arguments.set)
    if arguments.check_prediction and (named or arguments.ceilings):
        raise UsageError(
            "--check-prediction is a trial by itself; leave out what else is to be tried"
        )
    return Wish(
        fixes=tuple(arguments.fix),
        settings=tuple(arguments.set),
        ceilings=arguments.ceilings,
        proposed=not (named or arguments.ceilings or arguments.check_prediction),
        together=arguments.together,
        strict=arguments.strict,
        risky=arguments.risky,
        override=arguments.override,
        check=arguments.check_prediction,
    )


def _home(arguments: argparse.Namespace) -> Path:
    from gapless.store import runs

    return (arguments.place or runs.home()).absolute()


def _subject(
    arguments: argparse.Namespace,
) -> "tuple[Recording | None, tuple[str, ...], Path]":
    """Give the recorded run, the command, and the folder it works in.

    A command is known if it was recorded here before. Raises ``GaplessError``.
    """
    from gapless.store.recordings import load

    home = _home(arguments)
    if arguments.command_line:
        if arguments.run is not None:
            raise UsageError("a RUN has its own command; leave out RUN, or what follows --")
        command = arguments.command_line
        return _known(home, command), command, Path.cwd()
    recording = load(_path(home, arguments.run))
    path = recording.path
    if not trained(recording):
        raise UsageError(f"{path} has no steps: there is nothing to try; record another run")
    if not recording.manifest.command:
        raise UsageError(f"{path} does not tell its command; name it behind --")
    folder = Path(recording.manifest.folder)
    if not folder.is_dir():
        raise UsageError(f"the run's working folder {folder} is not here; go there, and use --")
    return recording, recording.manifest.command, folder


def _path(home: Path, name: str | None) -> Path:
    """Return the folder of the run that is asked for; without a name, of the last that trained.

    A folder of runs stands for the last of them that trained. Raises ``NotFoundError``.
    """
    from gapless.store import runs
    from gapless.store.recordings import is_run

    given = Path(name or runs.LAST)
    if given.is_dir() and is_run(given):
        return given
    try:
        if name not in {None, runs.LAST} and not given.is_dir():
            return runs.find(home, str(given))
        return _last_trained(given if given.is_dir() else home)
    except NotFoundError as error:
        raise NotFoundError(f"{error}; or name a command: gapless try -- python train.py") from None


def _last_trained(home: Path) -> Path:
    """Return the last run of a folder that trained; where none did, the last. Raises as above."""
    from gapless.store import runs
    from gapless.store.recordings import load

    last = runs.find_here(home, runs.LAST)
    paths = [entry.path for entry in islice(runs.listed(home), _LOOKED_AT)]
    return next((path for path in paths if trained(load(path))), last)


def _known(home: Path, command: tuple[str, ...]) -> "Recording | None":
    """Give the last run of a command in this folder that trained; ``None`` if there is none."""
    from gapless.store import runs
    from gapless.store.recordings import load

    here = str(Path.cwd())
    same = (
        one.path
        for one in runs.listed(home)
        if one.manifest.command == command and one.manifest.folder == here
    )
    return next(filter(trained, map(load, islice(same, _LOOKED_AT))), None)


def trained(recording: "Recording") -> bool:
    """Tell whether any process of a run trained."""
    return any(one.role == "training" for one in recording.processes)


def _permitted(arguments: argparse.Namespace, recording: "Recording | None", folder: Path) -> bool:
    """Say what arms may touch, and ask; tell whether they have a view of their own.

    Raises ``UsageError`` where that was not permitted.
    """
    from gapless.launch import outside, sandbox

    known = outside.nothing_known(folder) if recording is None else outside.touched(recording)
    why = sandbox.available(folder, known.inside)
    needed = outside.needs_permission(known, arguments.allow_writes, sandboxed=why is None)
    if needed and not arguments.yes:
        for line in outside.told(known, why_no_view=why):
            print(f"gapless: {line}", file=sys.stderr)
        if not (sys.stdin.isatty() and sys.stderr.isatty()):
            raise UsageError("; ".join(outside.refusal(needed)))
        print(
            f"gapless: arms may touch {', '.join(needed)}; go on? [y/N] ", end="", file=sys.stderr
        )
        sys.stderr.flush()
        if sys.stdin.readline().strip().lower() not in {"y", "yes"}:
            raise UsageError("not started")
    return why is None


def _print(found: "Tried", arguments: argparse.Namespace) -> None:
    from gapless.report.trials import print_trial
    from gapless.store import trials

    if found.trial is not None:
        trials.write(found.trial, Path(found.recording.path))
    if arguments.json:
        _print_json(found)
    elif found.trial is not None:
        print_trial(found.trial)
    else:
        print("nothing was tried")
        for line in (*found.notes, *_reasons(found.proposals)):
            print(line)


def _print_json(found: "Tried") -> None:
    from gapless.report.document import study_json
    from gapless.study import study_recording

    study = study_recording(found.recording)
    trials = () if found.trial is None else (found.trial,)
    sys.stdout.write(study_json(replace(study, trials=trials, proposals=found.proposals)))


def _reasons(proposals: "Sequence[Proposal]") -> list[str]:
    from gapless.catalogue.declare import spoken

    return [f"  {one.fix}: {spoken(one)}" for one in proposals]
