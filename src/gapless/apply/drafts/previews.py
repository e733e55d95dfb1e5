"""What proposals of a run would change in the source, shown and not written."""

from collections.abc import Sequence
from pathlib import Path

from gapless.apply.drafts.draft import draft_patch, subject_of_run
from gapless.apply.drafts.selection import FixSelection, add_proposals
from gapless.errors import GaplessError
from gapless.model.edit import Proposal
from gapless.store.run.recordings import load


def preview_diffs(run: Path, proposals: Sequence[Proposal]) -> dict[str, tuple[str, ...]]:
    """Return the lines of a diff for each fix that can be written by itself.

    What cannot be is left out: a source that is gone, a change by hand, libcst not installed.
    """
    subject = subject_of_run(load(run))
    diffs: dict[str, tuple[str, ...]] = {}
    if not subject.folder.is_dir():
        return diffs
    for proposal in proposals:
        selection = add_proposals(FixSelection(()), [proposal])
        try:
            draft = draft_patch(subject, selection)
        except GaplessError:
            continue
        if draft.changed:  # lines of the run are not those of the source any more
            continue
        lines = [line.rstrip("\n") for file in draft.patch.files for line in draft.file_lines(file)]
        if lines:
            diffs[proposal.fix] = tuple(lines)
    return diffs
