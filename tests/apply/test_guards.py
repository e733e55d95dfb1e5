"""Which files a patch must not touch, and which only if forced."""

import subprocess
from pathlib import Path

import pytest

from gapless.apply.files.guards import check_files, find_git_root, find_objections
from gapless.apply.patch import Patch, PatchedFile
from gapless.errors import UsageError
from gapless.store.run.sources import sha256

IDENTITY = ("-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "commit.gpgsign=false")


def git(folder: Path, *words: str) -> None:
    subprocess.run(["git", "-C", folder, *IDENTITY, *words], check=True, capture_output=True)  # noqa: S607


@pytest.fixture
def script(tmp_path: Path) -> Path:
    """Return a script that is committed."""
    (tmp_path / "train.py").write_bytes(b"x = 1\n")
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", "train.py")
    git(tmp_path, "commit", "-q", "-m", "x")
    return tmp_path / "train.py"


def objections(path: Path) -> list[str]:
    content = path.read_bytes()
    sums = {path: sha256(content)}
    return list(find_objections(Patch((PatchedFile(path, content, b""),), (), ()), sums))


def test_a_clean_file_as_it_was_run_is_written(script: Path) -> None:
    assert objections(script) == []


def test_a_file_that_changed_since_the_run_is_not(script: Path) -> None:
    patch = Patch((PatchedFile(script, script.read_bytes(), b""),), (), ())
    with pytest.raises(UsageError, match="has changed since the run"):
        check_files(patch, {script: sha256(b"x = 0\n")})
    check_files(patch, {script: sha256(script.read_bytes())})


def test_a_file_of_which_the_run_knows_nothing_is_not(script: Path) -> None:
    files = (PatchedFile(script, script.read_bytes(), b""),)
    (objection,) = find_objections(Patch(files, (), ()), {})
    assert "may have changed" in objection


def test_what_git_does_not_have_is_not(script: Path) -> None:
    script.write_bytes(b"x = 2\n")
    assert objections(script) == [f"{script} has uncommitted changes"]
    git(script.parent, "checkout", "train.py")
    unknown = script.with_name("*.py")
    unknown.write_bytes(b"")
    assert objections(unknown) == [f"{unknown} is not committed to git"]
    assert objections(script) == []  # other files that git does not know are no obstacle
    script.write_bytes(b"x = 2\n")
    assert "other uncommitted changes (train.py)" in objections(unknown)[1]


def test_a_file_in_no_git_tree_is_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    path = tmp_path / "train.py"
    path.write_bytes(b"")
    assert objections(path) == [f"{path} is in no git tree"]
    assert find_git_root(tmp_path) is None


def test_without_git_nothing_is_known(script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(script.parent))
    assert "git cannot be asked" in objections(script)[0]


def test_a_read_only_file_is_not(script: Path) -> None:
    script.chmod(0o444)
    assert objections(script)[-1] == f"{script} is read-only"


def test_installed_packages_are_never_edited(tmp_path: Path) -> None:
    path = tmp_path / "lib" / "python3.11" / "site-packages" / "lightning" / "loop.py"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"")
    link = tmp_path / "loop.py"
    link.symlink_to(path)
    for name in (path, link):
        with pytest.raises(UsageError, match="installed package"):
            check_files(Patch((PatchedFile(name, b"", b"x"),), (), ()), {})


def test_a_created_file_overwrites_none(script: Path) -> None:
    with pytest.raises(UsageError, match="is there already"):
        check_files(Patch((PatchedFile(script, None, b""),), (), ()), {})


def test_a_file_is_not_changed_under_two_names(script: Path) -> None:
    link = script.with_name("link.py")
    link.symlink_to(script)
    files = tuple(PatchedFile(path, b"x = 1\n", b"") for path in (script, link))
    with pytest.raises(UsageError, match="two names"):
        check_files(Patch(files, (), ()), {})
