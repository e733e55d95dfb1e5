"""A patch is written completely or not at all, and undone to the byte."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from gapless.apply.files import journal, writing
from gapless.apply.patch import Patch, PatchedFile
from gapless.errors import GaplessError, UsageError

BEFORE = b"loader = DataLoader(data)\r\n# caf\xe9\n"
AFTER = b"loader = DataLoader(data, num_workers=4)\r\n# caf\xe9\n"


@pytest.fixture
def sources(tmp_path: Path) -> list[Path]:
    paths = [tmp_path / "project" / name for name in ("data.py", "train.py")]
    paths[0].parent.mkdir()
    for path in paths:
        path.write_bytes(BEFORE)
    return paths


@pytest.fixture
def patches(tmp_path: Path) -> Path:
    return tmp_path / ".gapless" / "patches"


def patch_of(paths: list[Path], *, created: Path | None = None) -> Patch:
    files = [PatchedFile(path, BEFORE, AFTER) for path in paths]
    files += [] if created is None else [PatchedFile(created, None, b"x = 1\n")]
    return Patch(tuple(files), (), ("more-workers",))


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_all_files_are_written_and_restored(sources: list[Path], patches: Path) -> None:
    created = sources[0].with_name("gapless_parts.py")
    sources[0].chmod(0o750)
    writing.write_patch(patch_of(sources, created=created), patches)
    assert [path.read_bytes() for path in sources] == [AFTER, AFTER]
    assert sources[0].stat().st_mode & 0o777 == 0o750
    assert created.read_bytes() == b"x = 1\n"
    assert names_in(created.parent) == ["data.py", "gapless_parts.py", "train.py"]
    undone = writing.undo_patch(patches)
    assert [(file.path.name, file.removed) for file in undone] == [
        ("data.py", False),
        ("train.py", False),
        ("gapless_parts.py", True),
    ]
    assert [path.read_bytes() for path in sources] == [BEFORE, BEFORE]
    assert sources[0].stat().st_mode & 0o777 == 0o750
    assert names_in(created.parent) == ["data.py", "train.py"]
    with pytest.raises(UsageError, match="nothing to undo"):
        writing.undo_patch(patches)


def test_patches_are_undone_from_the_last_to_the_first(sources: list[Path], patches: Path) -> None:
    writing.write_patch(patch_of(sources[:1]), patches)
    later = PatchedFile(sources[0], AFTER, b"pass\n")
    writing.write_patch(Patch((later,), (), ()), patches)
    writing.undo_patch(patches)
    assert sources[0].read_bytes() == AFTER
    writing.undo_patch(patches)
    assert sources[0].read_bytes() == BEFORE


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
@pytest.mark.parametrize("failing_call", range(3))
def test_a_failure_leaves_all_as_it_was(
    sources: list[Path],
    patches: Path,
    monkeypatch: pytest.MonkeyPatch,
    error: BaseException,
    failing_call: int,
) -> None:
    replace, calls = Path.replace, iter(range(100))

    def fail_once(path: Path, target: Path) -> Path:
        if next(calls) == failing_call + 1:  # the first puts the journal in its place
            raise error
        return replace(path, target)

    monkeypatch.setattr(Path, "replace", fail_once)
    expected = GaplessError if isinstance(error, OSError) else KeyboardInterrupt
    with pytest.raises(expected):
        writing.write_patch(patch_of(sources), patches)
    assert [path.read_bytes() for path in sources] == [BEFORE, BEFORE]
    assert names_in(sources[0].parent) == ["data.py", "train.py"]
    assert journal.last_patch(patches) is None


def test_a_patch_is_written_through_a_link(sources: list[Path], patches: Path) -> None:
    link = sources[0].parent.parent / "linked.py"
    link.symlink_to(sources[0])
    writing.write_patch(patch_of([link]), patches)
    assert link.is_symlink()
    assert sources[0].read_bytes() == AFTER
    writing.undo_patch(patches)
    assert link.is_symlink()
    assert sources[0].read_bytes() == BEFORE


def test_what_changed_since_it_was_read_is_not_overwritten(
    sources: list[Path], patches: Path
) -> None:
    sources[1].write_bytes(b"mine\n")
    with pytest.raises(UsageError, match=r"train\.py has changed just now"):
        writing.write_patch(patch_of(sources), patches)
    assert [path.read_bytes() for path in sources] == [BEFORE, b"mine\n"]


@pytest.mark.parametrize("content", [b"mine\n", None])
def test_an_undo_keeps_what_was_edited_since(
    sources: list[Path], patches: Path, content: bytes | None
) -> None:
    writing.write_patch(patch_of(sources), patches)
    if content is None:
        sources[1].unlink()
    else:
        sources[1].write_bytes(content)
    with pytest.raises(UsageError, match=r"train\.py (was edited|is gone) since"):
        writing.undo_patch(patches)
    assert sources[0].read_bytes() == AFTER
    writing.undo_patch(patches, force=True)
    assert [path.read_bytes() for path in sources] == [BEFORE, BEFORE]


def test_an_apply_that_was_killed_half_way_is_undone(sources: list[Path], patches: Path) -> None:
    """The process dies by SIGKILL after it has put the first of two files in its place."""
    code = """
import os, signal, sys
from pathlib import Path
from gapless.apply.files import writing
from gapless.apply.patch import Patch, PatchedFile
replace = Path.replace
def die_after(path, target):
    replace(path, target)
    if target.name == "data.py":
        os.kill(os.getpid(), signal.SIGKILL)
Path.replace = die_after
before, after, patches = (os.fsencode(sys.argv[1]), os.fsencode(sys.argv[2]), Path(sys.argv[3]))
files = tuple(PatchedFile(Path(name), before, after) for name in sys.argv[4:])
writing.write_patch(Patch(files, (), ()), patches)
"""
    words = [sys.executable, "-c", code, os.fsdecode(BEFORE), os.fsdecode(AFTER), patches, *sources]
    code_of_end = subprocess.run(words, check=False).returncode
    assert code_of_end == -signal.SIGKILL
    assert [path.read_bytes() for path in sources] == [AFTER, BEFORE]
    with pytest.raises(UsageError, match="interrupted half-way"):
        writing.write_patch(patch_of(sources[1:]), patches)
    writing.undo_patch(patches)
    assert [path.read_bytes() for path in sources] == [BEFORE, BEFORE]
    assert names_in(sources[0].parent) == ["data.py", "train.py"]


def test_damaged_copies_are_not_restored(sources: list[Path], patches: Path) -> None:
    folder = writing.write_patch(patch_of(sources), patches)
    (folder / "0-data.py").write_bytes(b"")
    with pytest.raises(GaplessError, match="is damaged"):
        writing.undo_patch(patches)
    assert sources[0].read_bytes() == AFTER


def test_two_do_not_write_at_once(sources: list[Path], patches: Path) -> None:
    with journal.hold_lock(patches), pytest.raises(GaplessError, match="another gapless fix"):
        writing.write_patch(patch_of(sources), patches)
    assert sources[0].read_bytes() == BEFORE
