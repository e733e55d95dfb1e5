"""Diffs of proposals that were not written: those that can be, and no others."""

from pathlib import Path

import pytest

from gapless.apply.drafts.previews import preview_diffs
from gapless.model.edit import Applicability, Location, Proposal, SetArgument
from tests.store import drawing

TRAINING = """\
from torch.utils.data import DataLoader
loader = DataLoader(range(8), batch_size=4)
for batch in loader:
    print(batch)
"""


@pytest.fixture
def run(tmp_path: Path) -> Path:
    (tmp_path / "train.py").write_text(TRAINING)
    return drawing.write_run(
        tmp_path / "runs" / "2027-a",
        {"rank0.log": drawing.process(argv=["train.py"])},
        folder=str(tmp_path),
        command=["python", "train.py"],
    )


def more_workers(folder: Path, fix: str = "more-workers") -> Proposal:
    place = Location(str(folder / "train.py"), 2)
    edit = SetArgument("torch.utils.data.DataLoader", "num_workers", 2, place)
    return Proposal(fix, "num_workers 0 → 2", (edit,), Applicability.EQUIVALENT, location=place)


def test_a_proposal_is_shown_and_the_source_stays(run: Path, tmp_path: Path) -> None:
    diffs = preview_diffs(run, [more_workers(tmp_path)])
    assert [line for line in diffs["more-workers"] if line.startswith("+l")] == [
        "+loader = DataLoader(range(8), batch_size=4, num_workers=2)"
    ]
    assert (tmp_path / "train.py").read_text() == TRAINING


def test_what_cannot_be_written_has_no_diff(run: Path, tmp_path: Path) -> None:
    gone = more_workers(tmp_path / "elsewhere")
    assert preview_diffs(run, [gone]) == {}


def test_without_the_working_folder_there_is_no_diff(run: Path, tmp_path: Path) -> None:
    moved = run.rename(tmp_path.parent / f"{tmp_path.name}-moved")
    for path in tmp_path.rglob("*"):
        if path.is_file():
            path.unlink()
    (tmp_path / "runs").rmdir()
    tmp_path.rmdir()
    assert preview_diffs(moved, [more_workers(tmp_path)]) == {}
