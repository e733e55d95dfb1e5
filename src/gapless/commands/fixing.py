"""What ``gapless fix`` does: which run, which fixes, the diff, and what is done with it."""

import argparse
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from gapless.errors import GaplessError, NotFoundError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from rich.text import Text

    from gapless.apply.drafts.draft import PatchDraft, Subject
    from gapless.apply.drafts.selection import FixSelection
    from gapless.model.edit import Proposal
    from gapless.model.facts import Facts
    from gapless.report.text.console import Pen

_SCHEMA: Final = 1


def undo(arguments: argparse.Namespace) -> int:
    """Restore what the last patch changed."""
    from gapless.apply.files.writing import undo_patch
    from gapless.report.run.sentences import relative_path

    if arguments.run or arguments.file or arguments.fix or arguments.unproven:
        raise UsageError("--undo takes back the whole last patch; leave out which run or fixes")
    files = undo_patch(_patches_folder(arguments), force=arguments.force)
    if arguments.json:
        undone = [{"path": str(file.path), "removed": file.removed} for file in files]
        _print_json({"undone": undone})
        return 0
    for file in files:
        print(f"{'removed' if file.removed else 'restored'} {relative_path(file.path)}")
    return 0


def fix(arguments: argparse.Namespace) -> int:
    """PatchDraft the patch of the selected fixes, and do what is requested with it."""
    from gapless.apply.drafts.draft import draft_patch
    from gapless.apply.drafts.selection import choose_named, drop_superseded
    from gapless.recorded.facts import facts

    subject, selection = _select(arguments)
    selection = choose_named(selection, arguments.fix)
    if subject.recording is not None:
        selection = drop_superseded(selection, facts(subject.recording))
    if arguments.list:
        return _list_fixes(selection, arguments)
    if not selection.fixes:
        raise UsageError(_nothing_text(subject))
    draft = draft_patch(subject, selection)
    if arguments.check:
        return _check(draft, arguments)
    if arguments.apply:
        return _apply(draft, arguments)
    if arguments.out is not None:
        return _write_out(draft, arguments)
    return _show(draft, arguments)


# ── Which run, and which fixes ──────────────────────────────────────────────────────────────────


def _select(arguments: argparse.Namespace) -> "tuple[Subject, FixSelection]":
    from gapless.apply.drafts.draft import subject_of_run
    from gapless.apply.drafts.selection import add_proposals, proven_fixes
    from gapless.store.run.recordings import load

    if arguments.file is not None:
        subject, selection = _read_file(arguments)
    else:
        recording = load(_find_run(arguments))
        subject, selection = subject_of_run(recording), proven_fixes(Path(recording.path))
    if not subject.folder.is_dir():
        raise UsageError(f"the working folder of the run, {subject.folder}, is not here")
    if arguments.unproven:
        selection = add_proposals(selection, _proposals(subject, arguments.fix))
    return subject, selection


def _read_file(arguments: argparse.Namespace) -> "tuple[Subject, FixSelection]":
    from gapless.apply.drafts.draft import Subject, subject_of_run
    from gapless.apply.drafts.selection import FixSelection
    from gapless.store.run import runs, tunings
    from gapless.store.run.recordings import load

    tuning = tunings.read_tuning(arguments.file)
    subject = Subject(tuning.command, Path(tuning.folder), None, {})
    name = arguments.run or tuning.run
    try:
        recording = None if name is None else load(runs.find(_home(arguments), name))
    except NotFoundError:
        if arguments.run is not None:
            raise
        recording = None
    if recording is not None:
        subject = replace(subject_of_run(recording), command=tuning.command)
    return subject, FixSelection(tuning.fixes, is_stacked=True)


def _find_run(arguments: argparse.Namespace) -> Path:
    """Return the requested run; without a name the newest that has proven fixes, else the last."""
    from gapless.apply.drafts.selection import proven_fixes
    from gapless.store.run import runs
    from gapless.store.run.recordings import is_run

    home = _home(arguments)
    if arguments.run is not None and is_run(Path(arguments.run)):
        return Path(arguments.run).absolute()
    last_run = runs.find(home, arguments.run or runs.LAST_RUN)
    if arguments.run is not None or arguments.unproven:
        return last_run
    proven_runs = (entry.path for entry in runs.list_runs(home) if proven_fixes(entry.path).fixes)
    return next(proven_runs, last_run)


def _proposals(subject: "Subject", names: "Sequence[str]") -> "tuple[Proposal, ...]":
    """Return what the report proposes, and what else is asked for by name, or with a value.

    Raises ``UsageError`` for a name whose fix does not fit the run.
    """
    from gapless.commands.options import progress
    from gapless.recorded.facts import facts
    from gapless.study import Options, study_recording

    if subject.recording is None:
        raise UsageError("--unproven needs a recorded run, from which fixes are proposed")
    with progress() as say:
        proposals = study_recording(subject.recording, Options(), say).proposals
    proposed = {proposal.fix for proposal in proposals if proposal.refused is None}
    missing = [name for name in names if name not in proposed and "+" not in name]
    run_facts = facts(subject.recording)
    return (*(named for name in missing for named in _propose(name, run_facts)), *proposals)


def _propose(name: str, run_facts: "Facts") -> "tuple[Proposal, ...]":
    from gapless.catalogue.declare.listing import propose_named

    proposals = propose_named(name, run_facts)
    fitting = tuple(
        proposal for proposal in proposals if proposal.edits and proposal.refused is None
    )
    if not fitting:
        raise UsageError(f"{name} is not written: {proposals[0].refused or proposals[0].summary}")
    return fitting


def _home(arguments: argparse.Namespace) -> Path:
    from gapless.store.run import runs

    return (arguments.place or runs.home()).absolute()


def _patches_folder(arguments: argparse.Namespace) -> Path:
    """Return where patches are kept: beside the usual folder of runs, however it was named."""
    from gapless.apply.files.journal import FOLDER
    from gapless.store.run import runs

    home = _home(arguments)
    is_usual = home.parts[-len(runs.HOME.parts) :] == runs.HOME.parts
    return home.parent / FOLDER if is_usual else home / f".{FOLDER}"


def _nothing_text(subject: "Subject") -> str:
    run = "" if subject.recording is None else f" of run {subject.recording.manifest.id}"
    return (
        f"no trial{run} has proven a fix; gapless tune or gapless try proves some, "
        "--unproven shows the patch of what is proposed"
    )


# ── What is done with the draft ─────────────────────────────────────────────────────────────────


def _apply(draft: "PatchDraft", arguments: argparse.Namespace) -> int:
    from gapless.apply.files.guards import check_files, find_objections
    from gapless.apply.files.writing import write_patch
    from gapless.commands import fix_text

    check_files(draft.patch, draft.subject.sums)
    objections = list(find_objections(draft.patch, draft.subject.sums))
    if objections and not arguments.force:
        raise UsageError(f"{'; '.join(objections)}; nothing was written; --force writes it anyway")
    is_written = bool(draft.patch.files)
    if is_written:
        write_patch(draft.patch, _patches_folder(arguments))
    if arguments.json:
        _print_json(fix_text.draft_object(draft, applied=is_written))
    else:
        place = [] if arguments.place is None else ["--in", str(arguments.place)]
        undo_command = shlex.join(["gapless", "fix", "--undo", *place])
        _print(lambda pen: fix_text.applied_texts(draft, pen, undo_command))
    return 0


def _check(draft: "PatchDraft", arguments: argparse.Namespace) -> int:
    from gapless.apply.drafts.checking import check_patch, find_view_folder
    from gapless.apply.drafts.draft import keep_written
    from gapless.commands import fix_text
    from gapless.commands.options import progress
    from gapless.commands.trying import ask_permission

    checked = keep_written(draft)
    if not checked.patch.files:
        raise UsageError(f"there is nothing to check: {fix_text.unwritten_text(draft)}")
    view_folder = find_view_folder(checked)
    ask_permission(arguments, checked.subject.recording, view_folder)
    with progress() as say:
        check = check_patch(checked, view_folder, say)
    if arguments.json:
        _print_json(fix_text.draft_object(checked, check=check))
    else:
        _print(lambda pen: fix_text.check_texts(check, checked, pen))
    return int(bool(check.differences))


def _write_out(draft: "PatchDraft", arguments: argparse.Namespace) -> int:
    from gapless.apply.files.diffs import diff_bytes
    from gapless.commands import fix_text
    from gapless.report.text.text import clean
    from gapless.store.atomic import write_named_file

    if not draft.patch.files:
        raise UsageError(f"there is no patch: {fix_text.unwritten_text(draft)}")
    try:
        write_named_file(arguments.out, diff_bytes(fix_text.diff_lines(draft)))
    except OSError as error:
        raise GaplessError(f"{arguments.out} cannot be written: {error.strerror}") from None
    if arguments.json:
        _print_json(fix_text.draft_object(draft))
        return 0
    _print(lambda pen: fix_text.by_hand_texts(draft, pen))
    root, path = (shlex.quote(str(place)) for place in (draft.root, arguments.out.absolute()))
    print(clean(f"written: {arguments.out}"))
    print(clean(f"next: git -C {root} apply {path}"))
    return 0


def _list_fixes(selection: "FixSelection", arguments: argparse.Namespace) -> int:
    from gapless.commands import fix_text
    from gapless.report.patch import fix_rows

    if arguments.json:
        _print_json({"fixes": fix_text.fix_objects(selection)})
    elif selection.fixes:
        _print(lambda pen: fix_rows(fix_text.fix_gains(selection), pen))
    else:
        print("no fix is proven; gapless tune or gapless try proves some")
    return 0


def _show(draft: "PatchDraft", arguments: argparse.Namespace) -> int:
    from gapless.commands import fix_text

    if arguments.json:
        _print_json(fix_text.draft_object(draft))
    else:
        _print(lambda pen: fix_text.draft_texts(draft, pen, _same_command(arguments)))
    return 0


def _same_command(arguments: argparse.Namespace) -> str:
    """Return the command that was typed, to which what comes next is an option more."""
    words = ["gapless", "fix", *([arguments.run] if arguments.run else [])]
    words += ["--fix", *arguments.fix] if arguments.fix else []
    words += ["--from", str(arguments.file)] if arguments.file is not None else []
    words += ["--unproven"] if arguments.unproven else []
    words += ["--in", str(arguments.place)] if arguments.place is not None else []
    return shlex.join(words)


def _print(write: "Callable[[Pen], Iterator[Text]]") -> None:
    from gapless.report.text.console import pen_for

    pen = pen_for(sys.stdout)
    pen.write(write(pen))


def _print_json(members: "Mapping[str, object]") -> None:
    import json

    from gapless.model.version import version

    document = {"schema": _SCHEMA, "gapless": version(), **members}
    print(json.dumps(document, indent=1, ensure_ascii=False))
