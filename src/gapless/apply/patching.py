"""Proven fixes as a patch of the user’s files, and what is left to a person."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gapless.apply.patch import ManualChange, Patch, PatchedFile
from gapless.apply.texts import write_by_hand
from gapless.model.edit import Applicability, Edit
from gapless.model.tuning import ProvenFix

if TYPE_CHECKING:
    from gapless.apply.code.project import Project

_UNWRITTEN = {
    Applicability.ABLATION: "it measures what a cause costs, and is no change to keep",
    Applicability.MANUAL: "it is another optimisation problem, and a person's decision",
}


def make_patch(
    fixes: Sequence[ProvenFix], sources: Mapping[Path, bytes], script: Path | None
) -> Patch:
    """Return fixes as changes of the user's own files; nothing is read or written.

    A fix is written wholly or not at all. ``script``: where vendored parts go beside.
    """
    from gapless.apply.code.project import open_project  # noqa: PLC0415 - libcst takes its time
    from gapless.apply.edits.editing import write_edits  # noqa: PLC0415 - likewise

    project = open_project(sources, script)
    manual, written = list[ManualChange](), list[str]()
    for fix in fixes:
        project, reason = _write_fix(project, fix, write_edits)
        if reason is None:
            written.append(fix.fix)
        else:
            text = "\n".join(map(write_by_hand, fix.edits))
            manual.append(ManualChange(fix.fix, fix.summary, fix.location, reason, text))
    unfinished = {change.fix for change in manual}
    return Patch(
        _list_files(project, sources),
        tuple(manual),
        tuple(name for name in dict.fromkeys(written) if name not in unfinished),
    )


def _write_fix(
    project: "Project",
    fix: ProvenFix,
    write_edits: "Callable[[Project, Sequence[Edit]], tuple[Project, str | None]]",
) -> "tuple[Project, str | None]":
    reason = _UNWRITTEN.get(fix.applicability)
    return (project, reason) if reason is not None else write_edits(project, fix.edits)


def _list_files(project: "Project", sources: Mapping[Path, bytes]) -> tuple[PatchedFile, ...]:
    changed = [
        PatchedFile(path, sources[path], source.data)
        for path, source in project.sources.items()
        if source.data != sources[path]
    ]
    created = [PatchedFile(path, None, data) for path, data in project.created.items()]
    return (*changed, *created)
