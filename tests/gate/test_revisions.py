"""Other revisions: checked out, linked, removed; and what git refuses."""

import subprocess
from pathlib import Path

import pytest

from gapless.errors import UsageError
from gapless.gate.revisions import describe_head, map_search_path, open_revision


def git(folder: Path, *words: str) -> str:
    identity = ("-c", "user.email=a@example.org", "-c", "user.name=a")
    process = subprocess.run(
        ("git", "-C", str(folder), *identity, *words),  # noqa: S607 - as users start it
        capture_output=True,
        text=True,
        check=True,
    )
    return process.stdout


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    top = tmp_path / "project"
    (top / "jobs").mkdir(parents=True)
    git(top, "init", "-q")
    script = top / "jobs" / "train.py"
    for text in ("first", "second"):
        script.write_text(text)
        git(top, "add", ".")
        git(top, "commit", "-qm", text)
    script.write_text("third")
    return top


def count_worktrees(top: Path) -> int:
    return len(git(top, "worktree", "list").splitlines())


def test_a_revision_is_there_and_then_gone(repository: Path) -> None:
    with open_revision("git:HEAD~1", repository / "jobs", ()) as revision:
        assert (revision.folder / "train.py").read_text() == "first"
        assert revision.folder == revision.top / "jobs"
        assert count_worktrees(repository) == 2
    assert not revision.top.exists()
    assert count_worktrees(repository) == 1
    assert (repository / "jobs" / "train.py").read_text() == "third"


def test_it_is_gone_after_ctrl_c(repository: Path) -> None:
    with pytest.raises(KeyboardInterrupt), open_revision("git:HEAD", repository, ()) as revision:
        raise KeyboardInterrupt
    assert not revision.top.parent.exists()
    assert count_worktrees(repository) == 1


def test_data_that_is_not_in_git_is_linked(repository: Path) -> None:
    (repository / "data").mkdir()
    (repository / "data" / "a.bin").write_bytes(b"abc")
    with open_revision("git:HEAD", repository, ("data",)) as revision:
        assert (revision.folder / "data" / "a.bin").read_bytes() == b"abc"
    assert (repository / "data" / "a.bin").exists()
    with (
        pytest.raises(UsageError, match="--link nothing: there is no such path"),
        open_revision("git:HEAD", repository, ("nothing",)),
    ):
        pass
    assert count_worktrees(repository) == 1


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("git:nowhere", "git knows no revision 'nowhere'.*fetch-depth"),
        ("git:--all", "is no revision"),
        ("nowhere", "there is no folder nowhere; a revision of git is git:nowhere"),
    ],
)
def test_what_is_not_there_is_named(repository: Path, name: str, words: str) -> None:
    with pytest.raises(UsageError, match=words), open_revision(name, repository, ()):
        pass


def test_without_git_there_is_no_revision(tmp_path: Path) -> None:
    with (
        pytest.raises(UsageError, match="git rev-parse failed"),
        open_revision("git:HEAD", tmp_path, ()),
    ):
        pass
    assert describe_head(tmp_path) == ""


def test_a_changed_tree_is_said_to_be(repository: Path) -> None:
    assert describe_head(repository).endswith(" with uncommitted changes")
    git(repository, "commit", "-qam", "third")
    assert " " not in describe_head(repository)


def test_the_search_path_is_that_of_the_revision(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", f"{repository}/src:{tmp_path}/elsewhere")
    with open_revision("git:HEAD", repository, ()) as revision:
        assert map_search_path(repository, revision) == {
            "PYTHONPATH": f"{revision.top}/src:{tmp_path}/elsewhere"
        }
