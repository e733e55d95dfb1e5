"""``gapless fix``: what it shows, writes, refuses, takes back, and how it ends."""

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from gapless import cli, wire
from gapless.apply.drafts import draft
from gapless.apply.patch import Patch, PatchedFile
from gapless.launch.trial import sandbox
from gapless.model.edit import Applicability, Location, SetArgument
from gapless.model.estimate import Estimate
from gapless.model.trial import Side, Trial, TrialVerdict
from gapless.model.tuning import ProvenFix, Tuning
from gapless.store.run import trials, tunings
from gapless.store.run.recordings import load
from gapless.store.run.sources import FILE, write_sources
from tests.house.test_commands import IN_BLOCKS
from tests.store import drawing

STARTED_NS = 1_800_000_000_000_000_000
TRAINING = """\
import torch
from torch.utils.data import DataLoader

torch.manual_seed(0)
loader = DataLoader(torch.randn(4000, 8), batch_size=4)  # the data
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), 0.01)
for batch in loader:
    loss = model(batch).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
BEFORE = "loader = DataLoader(torch.randn(4000, 8), batch_size=4)  # the data"
AFTER = "loader = DataLoader(torch.randn(4000, 8), batch_size=4, num_workers=2)  # the data"
IDENTITY = ("-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "commit.gpgsign=false")


def git(folder: Path, *words: str) -> None:
    subprocess.run(["git", "-C", folder, *IDENTITY, *words], check=True, capture_output=True)  # noqa: S607


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a committed script, and stand in its folder."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "train.py"
    path.write_text(TRAINING)
    os.utime(path, ns=(STARTED_NS - 10**9, STARTED_NS - 10**9))
    git(tmp_path, "init", "-q")
    (tmp_path / "other.py").write_text("x = 1\n")
    git(tmp_path, "add", "train.py", "other.py")
    git(tmp_path, "commit", "-q", "-m", "x")
    return path


@pytest.fixture
def run(script: Path) -> Path:
    """Return a run of the script, in a trial of which more workers were proven."""
    place = {"file": str(script), "line": 5, "function": "<module>"}
    frame = wire.text_frame(wire.FACT, {"noun": "loader", "id": 0, **place, "values": {}})
    logs = {"rank0.log": drawing.process(argv=["train.py"]) + frame}
    path = drawing.write_run(
        script.parent / ".gapless" / "runs" / "2027-a",
        logs,
        folder=str(script.parent),
        started_unix_ns=STARTED_NS,
        command=[sys.executable, "train.py"],
    )
    write_sources(load(path))
    edit = SetArgument(
        "torch.utils.data.DataLoader", "num_workers", 2, Location(str(script), 5, "<module>")
    )
    side = Side(
        "B", ("more-workers",), "num_workers 0 → 2", (edit,), Applicability.IDENTICAL,
        TrialVerdict.CONFIRMED, Estimate(1.9, 2.0, 2.1), None,
    )  # fmt: skip
    trials.write(
        Trial("01", ("python",), path.name, (), "AB", (side,), 0.01, 10, None, "warm", 1.0), path
    )
    return path


def always_give(patch: Patch) -> Callable[..., Patch]:
    """Return a function that gives a patch, whatever it is asked."""

    def give(*_: object) -> Patch:
        return patch

    return give


def page(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> str:
    assert cli.main(["fix", *words]) == code
    return "".join(capsys.readouterr())


def test_the_diff_shows_the_gain_and_writes_nothing(
    run: Path, script: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = page(capsys)
    assert f"-{BEFORE}\n+{AFTER}\n" in text
    assert "@@ more-workers: 2.00× [1.90 … 2.10]\n" in text.replace("@@ -2,7 +2,7 @@", "@@")
    assert "gapless fix --apply" in text
    assert run.name in text
    assert script.read_text() == TRAINING
    assert not (script.parent / ".gapless" / "patches").exists()


def test_it_is_written_and_taken_back(
    run: Path, script: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "changed" in page(capsys, run.name, "--apply")
    assert script.read_text() == TRAINING.replace(BEFORE, AFTER)
    assert "says all of it already" in page(capsys)
    words = "nothing was written: the source says all of it already"
    assert words in page(capsys, run.name, "--apply")
    assert "restored" in page(capsys, "--undo")
    assert script.read_text() == TRAINING
    assert "nothing to undo" in page(capsys, "--undo", code=2)


def test_what_was_written_from_the_usual_folder_by_its_name_is_taken_back_without_it(
    run: Path, script: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page(capsys, run.name, "--apply", "--in", str(run.parent))
    assert script.read_text() != TRAINING
    assert "restored" in page(capsys, "--undo")
    assert script.read_text() == TRAINING


def test_what_git_or_the_run_do_not_know_is_refused_unless_forced(
    run: Path, script: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script.write_text(TRAINING.replace("0.01", "0.02"))
    for words in ([], ["--apply"]):
        text = page(capsys, *words, code=2 if words else 0)
        assert "has changed since the run" in text
    page(capsys, "--apply", "--force", code=2)  # the lines that were measured are others now
    git(script.parent, "checkout", "train.py")
    (script.parent / "other.py").write_text("x = 2\n")
    assert "other uncommitted changes (other.py)" in page(capsys, "--apply", code=2)
    git(script.parent, "checkout", "other.py")
    (run / FILE).unlink()
    assert "does not record what was in" in page(capsys, "--apply", code=2)
    assert script.read_text() == TRAINING
    page(capsys, "--apply", "--force")
    assert script.read_text() == TRAINING.replace(BEFORE, AFTER)


@pytest.mark.usefixtures("run")
def test_lines_that_moved_since_the_run_are_left_to_a_person(
    script: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script.write_text("# mine\n" + TRAINING)
    text = page(capsys)
    assert "by hand: more-workers" in text
    assert "has changed since the run" in text


def test_a_file_for_git_apply(run: Path, script: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "git -C" in page(capsys, run.name, "--out", "speed.patch")
    git(script.parent, "apply", "speed.patch")
    assert script.read_text() == TRAINING.replace(BEFORE, AFTER)
    assert "says all of it already" in page(capsys, run.name, "--out", "speed.patch", code=2)
    git(script.parent, "checkout", "train.py")
    assert "cannot be written" in page(capsys, run.name, "--out", "not/there.patch", code=2)


def test_a_created_file_goes_beside_the_script_and_is_created_once(
    run: Path,
    script: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text = TRAINING.replace(BEFORE, AFTER).encode()
    changed = PatchedFile(script, TRAINING.encode(), text)
    part = PatchedFile(script.with_name("part.py"), None, b"x = 1\n")
    monkeypatch.setattr(
        draft, "make_patch", always_give(Patch((changed, part), (), ("more-workers",)))
    )
    assert "--- /dev/null\n+++ b/part.py\n" in page(capsys, run.name)
    page(capsys, run.name, "--apply")
    assert part.path.read_bytes() == part.after
    page(capsys, "--undo")
    assert not part.path.exists()
    part.path.write_bytes(part.after)
    assert "part.py" not in page(capsys, run.name)
    part.path.write_bytes(b"mine\n")
    assert "part.py is there already" in page(capsys, run.name, "--apply", code=2)
    assert script.read_text() == TRAINING


def test_lists_and_json(run: Path, script: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert page(capsys, "--list").split()[:2] == ["more-workers", "2.00×"]
    listed = json.loads(page(capsys, "--list", "--json"))
    assert [(fix["fix"], fix["proven"]) for fix in listed["fixes"]] == [("more-workers", True)]
    drafted = json.loads(page(capsys, "--json"))
    assert (drafted["run"], drafted["applied"], drafted["check"]) == (run.name, False, None)
    assert [fix["written"] for fix in drafted["fixes"]] == [True]
    assert f"+{AFTER}\n" in drafted["files"][0]["diff"]
    assert json.loads(page(capsys, "--apply", "--json"))["applied"] is True
    undone = json.loads(page(capsys, "--undo", "--json"))["undone"]
    assert undone == [{"path": str(script), "removed": False}]


def test_fixes_of_a_file(run: Path, script: Path, capsys: pytest.CaptureFixture[str]) -> None:
    edit = SetArgument("torch.utils.data.DataLoader", "pin_memory", value=True)
    fix = ProvenFix("pin-memory", "pin_memory", (edit,), Applicability.IDENTICAL)
    file = script.parent / "tuned.json"
    tunings.write_tuning(Tuning(("python", "train.py"), str(script.parent), run.name, (fix,)), file)
    assert "pin_memory=True" in page(capsys, "--from", "tuned.json")
    page(capsys, "--from", "tuned.json", "--apply")
    assert "pin_memory=True" in script.read_text()
    file.write_bytes(file.read_bytes()[:-20])
    assert "tuned.json" in page(capsys, "--from", "tuned.json", code=2)
    assert "No such file" in page(capsys, "--from", "nothing.json", code=2)


def test_the_commands_of_the_docs_run(
    run: Path, script: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    side = trials.run_trials(run)[0].sides[0]
    proven = ProvenFix(side.fixes[0], side.summary, side.edits, side.applicability)
    tunings.write_tuning(
        Tuning(("python", "train.py"), str(script.parent), run.name, (proven,)),
        script.parent / "tuned.json",
    )
    commands = [line for line in IN_BLOCKS if line.startswith("gapless fix")]
    assert len(commands) > 5
    for command in sorted(commands, key=lambda line: ("--undo" in line, "--apply" in line)):
        if "--check" in command:
            continue  # slow: below
        page(capsys, *shlex.split(command)[2:])
        assert (AFTER in script.read_text()) == ("--apply" in command), command
    assert f"+{AFTER}" in (script.parent / "speed.patch").read_text()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--fix", "fused"], "fused is not among the fixes to write"),
        (["--undo", "--fix", "fused"], "takes back the whole last patch"),
        (["nothing"], "there is no run 'nothing'"),
        (["--apply", "--check"], "not allowed with"),
        (["--in", "elsewhere"], "there are no runs in"),
    ],
)
@pytest.mark.usefixtures("run")
def test_what_cannot_be_followed_is_one_sentence(
    words: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    text = page(capsys, *words, code=2)
    assert sentence in text
    assert text.count("\n") == 1


def test_a_source_that_is_gone(run: Path, script: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script.unlink()
    assert "is not there any more" in page(capsys, run.name, code=2)


def test_a_run_without_proof_says_what_to_do(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (run / "trials" / "01.json").unlink()
    assert "--unproven" in page(capsys, code=2)
    assert "no fix is proven" in page(capsys, "--list")


def test_a_fix_with_its_value_is_written_without_a_trial(
    run: Path, script: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = (run.name, "--unproven", "--fix", "packed-data=a.packed")
    line = 'read_packed(DataLoader(torch.randn(4000, 8), batch_size=4), path="a.packed")'
    text = page(capsys, *words)
    assert line in text
    assert "packed-data: not proven" in text
    page(capsys, *words, "--apply")
    assert line in script.read_text()
    assert (script.parent / "packed_loader.py").exists()
    page(capsys, "--undo")
    assert script.read_text() == TRAINING
    assert not (script.parent / "packed_loader.py").exists()
    assert "there is no fix 'packd'" in page(capsys, *words[:3], "packd=a", code=2)


def test_a_fix_that_nothing_proposes_is_written_by_name_or_says_why_not(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = (run.name, "--unproven", "--fix")
    assert "sample-cache: not proven" in page(capsys, *words, "sample-cache")
    assert "reduced-decoding is not written: " in page(capsys, *words, "reduced-decoding", code=2)


@pytest.mark.slow
@pytest.mark.parametrize("planted", [False, True])
def test_a_check_runs_it_patched(
    run: Path,
    script: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    planted: bool,
) -> None:
    if sandbox.explain_unavailable(script.parent) is not None:
        pytest.skip("there is no private view here")
    if planted:  # a patch that does not do what was tried
        text = TRAINING.replace(BEFORE, AFTER.replace("=2", "=1")).replace("0.01", "0.02")
        file = PatchedFile(script, TRAINING.encode(), text.encode())
        patch = Patch((file,), (), ("more-workers",))
        monkeypatch.setattr(draft, "make_patch", always_give(patch))
    text = page(capsys, run.name, "--check", "--yes", code=int(planted))
    assert ("num_workers is 1 in the patched program, and 2" in text) == planted
    assert ("losses differ" in text) == planted
    assert ("equal to the bit" in text) != planted
    assert script.read_text() == TRAINING
