"""A patch and where its changes come from: which fix changes which lines, with which gain."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from gapless.apply.drafts.selection import FixSelection
from gapless.apply.files.diffs import changed_lines, diff_lines
from gapless.apply.files.guards import find_git_root
from gapless.apply.patch import Patch, PatchedFile
from gapless.apply.patching import make_patch
from gapless.errors import UsageError
from gapless.model.edit import SetArgument, Skip, Wrap
from gapless.model.recording import Recording
from gapless.model.tuning import ProvenFix
from gapless.report.sections.trials import ratio_text
from gapless.report.text.text import clean
from gapless.store.run.sources import (
    find_script,
    find_sources,
    follow_imports,
    is_installed,
    read_sources,
    sha256,
)


class Subject(Struct, frozen=True):
    """What is to be patched: a command, the folder it works in, and what its run recorded."""

    command: tuple[str, ...]
    folder: Path
    recording: Recording | None
    sums: Mapping[Path, str]  # SHA-256 of the files that are known to be what was run


class PatchDraft(Struct, frozen=True):
    """A patch that was not written yet."""

    subject: Subject
    selection: FixSelection
    patch: Patch
    root: Path  # names in the diff are relative to it
    singles: Mapping[str, Patch]  # of each fix alone
    changed: tuple[Path, ...]  # sources that have changed since the run

    def file_lines(self, file: PatchedFile) -> tuple[str, ...]:
        """Return the diff of a file, each hunk headed by its fixes and their gains."""
        return tuple(
            diff_lines(file, self.root, lambda low, high: "; ".join(self._causes(file, low, high)))
        )

    def _causes(self, file: PatchedFile, low: int, high: int) -> Iterator[str]:
        for fix in self.selection.fixes:
            single = self.singles.get(fix.fix)
            spans = [
                span
                for changed in (() if single is None else single.files)
                if changed.path == file.path
                for span in changed_lines(changed)
            ]
            if any(first <= high and low <= last for first, last in spans):
                yield f"{clean(fix.fix)}: {gain_text(self.selection, fix)}"


def gain_text(selection: FixSelection, fix: ProvenFix) -> str:
    """Return what a fix gains, as measured, or that it is not proven."""
    if selection.is_proven(fix):
        return "gain not recorded" if fix.speedup is None else ratio_text(fix.speedup)
    predicted = selection.predicted.get(fix.fix)
    return "not proven" + ("" if predicted is None else f", predicted {ratio_text(predicted)}")


def subject_of_run(recording: Recording) -> Subject:
    """Return what a recorded run is about."""
    manifest = recording.manifest
    folder, run = Path(manifest.folder), Path(recording.path)
    return Subject(manifest.command, folder, recording, read_sources(run))


def draft_patch(subject: Subject, selection: FixSelection) -> PatchDraft:
    """Make the patch of the selected fixes. Raises ``UsageError`` where a source is not there."""
    sources = _read_sources(subject, selection)
    script = _find_script(subject)
    patch = _place_created(make_patch(selection.fixes, sources, script), script)
    singles = (
        {fix.fix: patch for fix in selection.fixes}
        if len(selection.fixes) == 1
        else {fix.fix: make_patch([fix], sources, script) for fix in selection.fixes}
    )
    root = find_root(patch, subject.folder)
    changed = tuple(
        path
        for path, content in sources.items()
        if subject.sums.get(path, sha256(content)) != sha256(content)
    )
    return PatchDraft(subject, selection, patch, root, singles, changed)


def _place_created(patch: Patch, script: Path | None) -> Patch:
    """Put what is created beside a script beside what it leads to: Python looks there.

    What an earlier patch has left there as it is to be is not created again.
    """
    files = [
        replace(file, path=script.resolve().parent / file.path.name)
        if script is not None and file.before is None and file.path.parent == script.parent
        else file
        for file in patch.files
    ]
    return replace(patch, files=tuple(file for file in files if not _is_there(file)))


def _is_there(file: PatchedFile) -> bool:
    return file.before is None and file.path.is_file() and file.path.read_bytes() == file.after


def keep_written(draft: PatchDraft) -> PatchDraft:
    """Return the patch of the fixes alone that are written without a person's hand."""
    selection = draft.selection
    fixes = tuple(fix for fix in selection.fixes if fix.fix in draft.patch.written)
    if len(fixes) == len(selection.fixes):
        return draft
    return draft_patch(draft.subject, replace(selection, fixes=fixes))


def find_root(patch: Patch, folder: Path) -> Path:
    """Return the folder to which a diff is relative: the git tree's top, else the nearest of all.

    It is an ancestor of every file of the patch.
    """
    paths = [file.path.resolve() for file in patch.files]
    top = find_git_root(paths[0].parent if paths else folder)
    for root in (top, folder.resolve()):
        if root is not None and all(root in path.parents for path in paths):
            return root
    ancestors = paths[0].parents
    return next(root for root in ancestors if all(root in path.parents for path in paths))


def _find_script(subject: Subject) -> Path | None:
    if subject.recording is not None:
        script = find_script(subject.recording)
        if script is not None:
            return script
    scripts = (subject.folder / word for word in subject.command if word.endswith(".py"))
    return next((script for script in scripts if script.is_file()), None)


def _read_sources(subject: Subject, selection: FixSelection) -> Mapping[Path, bytes]:
    """Return the text of the user's own files, under one name each."""
    paths = list(subject.sums)
    if subject.recording is not None:
        paths += find_sources(subject.recording)
    script = _find_script(subject)
    if subject.recording is None and script is not None:
        paths += follow_imports([script], script, subject.folder)
    paths += [path for fix in selection.fixes for path in _named_files(fix, subject.folder)]
    texts: dict[Path, bytes] = {}
    resolved: set[Path] = set()
    for path in paths:
        if path.resolve() in resolved or is_installed(path.resolve()) or not path.is_file():
            continue
        resolved.add(path.resolve())
        try:
            texts[path] = path.read_bytes()
        except OSError as error:
            raise UsageError(f"{path} cannot be read: {error.strerror}") from None
    return texts


def _named_files(fix: ProvenFix, folder: Path) -> Iterator[Path]:
    """Yield the files that a fix is about. Raises ``UsageError`` for one that is gone."""
    places = [edit.where for edit in fix.edits if isinstance(edit, SetArgument | Wrap | Skip)]
    for place in (fix.location, *places):
        if place is None or place.file.startswith("<"):
            continue
        path = folder / place.file
        if not path.is_file():
            raise UsageError(f"{path}, which {fix.fix} is about, is not there any more")
        yield path
