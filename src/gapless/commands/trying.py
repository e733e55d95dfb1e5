"""What ``gapless try`` does: the run, the permission, the trial, what is printed."""

import argparse
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from gapless.errors import NotFoundError, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gapless.model.edit import Proposal
    from gapless.model.recording import Recording
    from gapless.verify.requests import TrialRequest
    from gapless.verify.specs import ArmMode
    from gapless.verify.trial import TrialOutcome

_MAX_RUNS: Final = 5  # runs of a command
_INTERRUPTED: Final = 130  # Ctrl-C, as the shell reports it


def list_edits(arguments: argparse.Namespace) -> int:
    """List the edits, and what each would do in the run; without a run, what each is for."""
    from gapless.catalogue.declare.fix import describe_proposal
    from gapless.catalogue.declare.listing import FIXES
    from gapless.recorded.facts import facts
    from gapless.verify.requests import survey_fixes

    try:
        recording, _, _ = find_subject(arguments)
    except NotFoundError:
        recording = None
    if recording is None:
        for fix in FIXES:
            print(f"{fix.name:26} {fix.summary}")
        return 0
    for proposal in survey_fixes(facts(recording)):
        print(f"{proposal.fix:26} {describe_proposal(proposal)}")
    return 0


def measure_machine(arguments: argparse.Namespace) -> int:
    """Measure the machine in the interpreter of the run, print that, and keep it."""
    from gapless.commands.options import progress, tell
    from gapless.report.sections.machine_constants import constant_lines, constants_json
    from gapless.study.machine_constants import ReusePolicy, constants
    from gapless.study.run_constants import find_interpreter

    if arguments.fix or arguments.set or arguments.ceilings:
        raise UsageError("--machine tries nothing; leave out what is to be tried")
    recording, _, _ = find_subject(arguments)
    probe_target = None if recording is None else find_interpreter(recording)
    if probe_target is None:
        raise UsageError("no run records which interpreter it is about; record one (gapless run)")
    with progress() as say:
        measured_constants = constants(
            probe_target.python, probe_target.device, None, say, ReusePolicy(remeasure=True)
        )
    if arguments.json:
        sys.stdout.write(constants_json(measured_constants))
    else:
        print(*constant_lines(measured_constants), sep="\n")
    if not measured_constants.alone:
        tell("others used the machine: no prediction will use this")
    return int(measured_constants.place is None)


def try_edits(arguments: argparse.Namespace) -> int:
    """Try what is requested, print it, and keep it with the run."""
    from gapless.commands.options import check_page, progress, tell
    from gapless.verify import plan, requests, trial

    check_page(arguments.html)
    request = _build_request(arguments)
    requests.check_names(request)
    recording, command, folder = find_subject(arguments)
    has_private_view = ask_permission(arguments, recording, folder)
    task = trial.TrialTask(
        request=request,
        command=command,
        folder=folder,
        home=runs_home(arguments),
        has_private_view=has_private_view,
        budget_s=arguments.budget,
        out=arguments.out,
        steps=arguments.steps,
        mode=_arm_mode(arguments),
        apart=arguments.apart,
    )
    with progress() as say:
        try:
            outcome = trial.attempt(task, recording, say)
        except KeyboardInterrupt:
            say("")  # the progress line is cleared
            tell("interrupted before two arms could be compared")
            return _INTERRUPTED
    _print_outcome(outcome, arguments)
    was_interrupted = outcome.trial is not None and plan.INTERRUPTED in outcome.trial.notes
    return _INTERRUPTED if was_interrupted else 0


def _arm_mode(arguments: argparse.Namespace) -> "ArmMode":
    from gapless.verify.specs import ArmMode

    if arguments.fresh:
        return ArmMode.FRESH
    return ArmMode.SWITCHED if arguments.in_process else ArmMode.FRESH_FIRST


def _build_request(arguments: argparse.Namespace) -> "TrialRequest":
    from gapless.verify.requests import TrialRequest

    has_named_edits = bool(arguments.fix or arguments.set)
    return TrialRequest(
        fixes=tuple(arguments.fix),
        settings=tuple(arguments.set),
        ceilings=arguments.ceilings,
        proposed=not (has_named_edits or arguments.ceilings),
        together=arguments.together,
        strict=arguments.strict,
        risky=arguments.risky,
        override=arguments.override,
    )


def runs_home(arguments: argparse.Namespace) -> Path:
    """Return the folder of runs."""
    from gapless.store.run import runs

    return (arguments.place or runs.home()).absolute()


def find_subject(
    arguments: argparse.Namespace,
) -> "tuple[Recording | None, tuple[str, ...], Path]":
    """Return the recorded run, the command, and the folder it works in.

    A command is known if it was recorded here before. Raises ``GaplessError``.
    """
    from gapless.store.run.recordings import load

    home = runs_home(arguments)
    if arguments.command_line:
        if arguments.run is not None:
            raise UsageError("a RUN has its own command; leave out RUN, or what follows --")
        command = arguments.command_line
        return _find_recording(home, command), command, Path.cwd()
    recording = load(_find_run(home, arguments))
    path = recording.path
    if not has_trained(recording):
        raise UsageError(f"{path} has no steps: there is nothing to try; record another run")
    if not recording.manifest.command:
        raise UsageError(f"{path} does not record its command; name it after --")
    folder = Path(recording.manifest.folder)
    if not folder.is_dir():
        raise UsageError(f"the run's working folder {folder} is not here; go there, and use --")
    return recording, recording.manifest.command, folder


def _find_run(home: Path, arguments: argparse.Namespace) -> Path:
    """Return the folder of the requested run; without a name, of the last that trained.

    A folder of runs means the last of them that trained. Raises ``NotFoundError``.
    """
    from gapless.store.run import runs
    from gapless.store.run.recordings import is_run

    name: str | None = arguments.run
    named_path = Path(name or runs.LAST_RUN)
    if named_path.is_dir() and is_run(named_path):
        return named_path
    try:
        if name not in {None, runs.LAST_RUN} and not named_path.is_dir():
            return runs.find(home, str(named_path))
        return _last_trained(named_path if named_path.is_dir() else home)
    except NotFoundError as error:
        example = f"gapless {arguments.command} -- python train.py"
        raise NotFoundError(f"{error}; or name a command: {example}") from None


def _last_trained(home: Path) -> Path:
    """Return the last run of a folder that trained as its source says.

    Where none did, the last that trained, else the last. Raises as above.
    """
    from gapless.store.run import runs
    from gapless.store.run.recordings import load

    last_run = runs.find_here(home, runs.LAST_RUN)
    paths = [entry.path for entry in islice(runs.list_runs(home), _MAX_RUNS)]
    trained = {path: was_edited(run) for path in paths if has_trained(run := load(path))}
    unedited = (path for path, is_edited in trained.items() if not is_edited)
    return next(unedited, next(iter(trained), last_run))


def _find_recording(home: Path, command: tuple[str, ...]) -> "Recording | None":
    """Return the last run of a command in this folder that trained as its source says.

    ``None`` if there is none.
    """
    from gapless.store.run import runs
    from gapless.store.run.recordings import load

    cwd = str(Path.cwd())
    paths = (
        entry.path
        for entry in runs.list_runs(home)
        if entry.manifest.command == command and entry.manifest.folder == cwd
    )
    recordings = map(load, islice(paths, _MAX_RUNS))
    return next((run for run in recordings if has_trained(run) and not was_edited(run)), None)


def has_trained(recording: "Recording") -> bool:
    """Return whether any process of a run trained."""
    return any(process.role == "training" for process in recording.processes)


def was_edited(recording: "Recording") -> bool:
    """Return whether a run had edits applied (``gapless run --with``), whose settings it shows.

    The first run of a trial keeps its loggers apart, and has no others.
    """
    return any(
        fact.noun == "edit" and process.end_kind != "trial"
        for process in recording.processes
        for fact in process.facts
    )


def ask_permission(
    arguments: argparse.Namespace, recording: "Recording | None", folder: Path
) -> bool:
    """Show what arms may touch, and ask; return whether they have a view of their own.

    Raises ``UsageError`` where that was not permitted.
    """
    from gapless.commands.options import tell
    from gapless.launch.trial import sandbox, side_effects

    effects = (
        side_effects.assume_unobserved(folder)
        if recording is None
        else side_effects.find_side_effects(recording)
    )
    why = sandbox.explain_unavailable(folder, effects.inside)
    unpermitted = side_effects.find_unpermitted(
        effects, arguments.allow_writes, sandboxed=why is None
    )
    if unpermitted and not arguments.yes:
        for line in side_effects.describe_side_effects(effects, why_no_view=why):
            tell(line)
        if not (sys.stdin.isatty() and sys.stderr.isatty()):
            raise UsageError("; ".join(side_effects.refusal(unpermitted)))
        print(
            f"gapless: arms may touch {', '.join(unpermitted)}; go on? [y/N] ",
            end="",
            file=sys.stderr,
        )
        sys.stderr.flush()
        if sys.stdin.readline().strip().lower() not in {"y", "yes"}:
            raise UsageError("not started")
    return why is None


def _print_outcome(outcome: "TrialOutcome", arguments: argparse.Namespace) -> None:
    from gapless.apply.drafts.selection import proven_sides
    from gapless.commands.options import tell
    from gapless.report.sections.trials import print_trial
    from gapless.store.run import trials

    if outcome.trial is not None:
        trials.write(outcome.trial, Path(outcome.recording.path))
    if arguments.json:
        _print_json(outcome)
        for line in _unmeasured_lines(outcome):
            tell(line)
    elif outcome.trial is not None:
        print_trial(outcome.trial)
        if proven_sides(outcome.trial):
            print("next: gapless fix   shows what is proven as a patch of your source")
    else:
        print("nothing was tried")
        for line in (*outcome.notes, *_reason_lines(outcome.proposals)):
            print(line)
    if arguments.html is not None and outcome.trial is not None:
        from gapless.commands.options import write_page
        from gapless.page.trials import trial_page

        write_page(trial_page(outcome.trial), arguments.html, sys.stderr)


def _unmeasured_lines(outcome: "TrialOutcome") -> Iterator[str]:
    """Yield why nothing was measured, which the JSON of sides has no place for."""
    if outcome.trial is None:
        yield from ("nothing was tried", *outcome.notes, *_reason_lines(outcome.proposals))
    elif not outcome.trial.sides:
        yield from ("nothing was measured", *outcome.trial.notes)


def _print_json(outcome: "TrialOutcome") -> None:
    from gapless.report.documents.document import study_json
    from gapless.study import study_recording

    study = study_recording(outcome.recording)
    trials = () if outcome.trial is None else (outcome.trial,)
    sys.stdout.write(study_json(replace(study, trials=trials, proposals=outcome.proposals)))


def _reason_lines(proposals: "Sequence[Proposal]") -> list[str]:
    from gapless.catalogue.declare.fix import describe_proposal

    return [f"  {proposal.fix}: {describe_proposal(proposal)}" for proposal in proposals]
