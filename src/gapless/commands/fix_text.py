"""The text and the JSON of ``gapless fix``."""

import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec
from rich.text import Text

from gapless.apply.drafts.checking import PatchCheck
from gapless.apply.drafts.draft import PatchDraft, gain_text
from gapless.apply.drafts.selection import FixSelection
from gapless.apply.files.guards import find_objections
from gapless.model.edit import Location
from gapless.model.tuning import ProvenFix
from gapless.report.patch import diff_texts, fix_rows, manual_texts
from gapless.report.run.sentences import relative_path
from gapless.report.text.console import Pen
from gapless.report.text.text import clean, cut_middle
from gapless.report.text.wrap import fold

_COMMAND_CELLS: Final = 60


def draft_texts(draft: PatchDraft, pen: Pen, next_command: str) -> Iterator[Text]:
    """Yield a draft: its fixes and gains, the diff, what is left to do by hand, what comes next."""
    yield from fold(_headline(draft), pen.width, style="bold")
    yield from fix_rows(fix_gains(draft.selection), pen)
    for sentence in draft.selection.notes:
        yield from fold(clean(f"  {sentence}"), pen.width)
    yield from diff_texts(diff_lines(draft))
    yield from by_hand_texts(draft, pen)
    for sentence in _remarks(draft):
        yield from fold(clean(f"note: {sentence}"), pen.width, style="yellow")
    if not draft.patch.files and not draft.patch.manual:
        yield from fold("nothing is to be changed: the source says all of it already", pen.width)
    if draft.patch.files:
        yield from fold(f"next: {next_command} --check   runs it patched, briefly", pen.width)
        yield from fold(
            f"      {next_command} --apply   writes it: nothing is written yet", pen.width
        )


def _remarks(draft: PatchDraft) -> Iterator[str]:
    """Yield what --apply objects to, and which other sources have changed."""
    yield from find_objections(draft.patch, draft.subject.sums)
    for path in draft.changed:
        yield f"{relative_path(path)} has changed since the run; record it again (gapless run)"


def unwritten_text(draft: PatchDraft) -> str:
    """Return why there is nothing to write."""
    if draft.patch.manual:
        return "all of it is to be done by hand; gapless fix prints it"
    return "the source says all of it already"


def applied_texts(draft: PatchDraft, pen: Pen, undo_command: str) -> Iterator[Text]:
    """Yield what was written, and how to take it back."""
    for file in draft.patch.files:
        word = "created" if file.before is None else "changed"
        yield Text(f"{word} {relative_path(file.path)}")
    yield from by_hand_texts(draft, pen)
    if draft.patch.files:
        yield from fold(f"next: {undo_command}   restores what was before, to the byte", pen.width)
    else:
        yield from fold(f"nothing was written: {unwritten_text(draft)}", pen.width)


def check_texts(check: PatchCheck, draft: PatchDraft, pen: Pen) -> Iterator[Text]:
    """Yield what a check of a patch has shown."""
    names = clean(" + ".join(fix.fix for fix in draft.selection.fixes))
    if check.differences:
        line = f"{names}: the patched program is not what was tried"
        yield from fold(line, pen.width, style="red")
    else:
        line = f"{names}: the patched program trains as it does with the edits applied"
        yield from fold(line, pen.width, style="green")
    for sentence in (*check.differences, *check.notes):
        yield from fold(clean(f"  {sentence}"), pen.width)


def by_hand_texts(draft: PatchDraft, pen: Pen) -> Iterator[Text]:
    """Yield what a person has to write."""
    for change in draft.patch.manual:
        location_words = _place_text(change.location, draft.root)
        is_named = location_words is None or location_words in change.summary
        title = f"{change.fix}: {change.summary}{'' if is_named else f' ({location_words})'}"
        yield from manual_texts(title, change.reason, change.text, pen)


def diff_lines(draft: PatchDraft) -> tuple[str, ...]:
    """Return the lines of the whole diff, with their ends."""
    return tuple(line for file in draft.patch.files for line in draft.file_lines(file))


def fix_gains(selection: FixSelection) -> list[tuple[str, str, str]]:
    """Return of each fix its name, what it changes, and what it gains."""
    return [(fix.fix, fix.summary, gain_text(selection, fix)) for fix in selection.fixes]


def _headline(draft: PatchDraft) -> str:
    command = cut_middle(clean(shlex.join(draft.subject.command)), _COMMAND_CELLS)
    recording = draft.subject.recording
    run = "" if recording is None else f" · run {clean(recording.manifest.id)}"
    return f"gapless fix · {command}{run}"


def _place_text(location: Location | None, root: Path) -> str | None:
    if location is None:
        return None
    path = Path(location.file)
    name = path.relative_to(root) if path.is_relative_to(root) else path
    return f"{name}:{location.line}"


# ── JSON ────────────────────────────────────────────────────────────────────────────────────────


def draft_object(
    draft: PatchDraft, *, applied: bool = False, check: PatchCheck | None = None
) -> Mapping[str, Any]:
    """Return a draft, and what was done with it, as JSON's object."""
    recording = draft.subject.recording
    return {
        "command": draft.subject.command,
        "run": None if recording is None else recording.manifest.id,
        "root": str(draft.root),
        "fixes": fix_objects(draft.selection, draft.patch.written),
        "files": [
            {
                "path": str(file.path),
                "created": file.before is None,
                "diff": _printable("".join(draft.file_lines(file))),
            }
            for file in draft.patch.files
        ],
        "manual": [msgspec.to_builtins(change) for change in draft.patch.manual],
        "applied": applied,
        "check": None if check is None else msgspec.to_builtins(check),
    }


def fix_objects(selection: FixSelection, written: tuple[str, ...] = ()) -> list[dict[str, Any]]:
    """Return fixes as JSON's objects: those of ``tuned.json``, and how far each is proven."""
    return [_fix_object(fix, selection, written) for fix in selection.fixes]


def _fix_object(
    fix: ProvenFix, selection: FixSelection, written: tuple[str, ...]
) -> dict[str, Any]:
    predicted = selection.predicted.get(fix.fix)
    return {
        **msgspec.to_builtins(fix),
        "proven": selection.is_proven(fix),
        "predicted": None if predicted is None else msgspec.to_builtins(predicted),
        "written": fix.fix in written,
    }


def _printable(text: str) -> str:
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
