"""Diffs of patches: tools that apply patches read them, and end with the bytes that are meant."""

import shutil
import subprocess
from pathlib import Path

import pytest

from gapless.apply.files.diffs import diff_bytes, diff_lines
from gapless.apply.patch import PatchedFile

NUMBERS = [b"%d\n" % number for number in range(40)]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"a\nb\nc\n", b"a\nB\nc\n"),
        (b"a\r\nb\r\n" * 9, b"a\r\nb\r\n" * 8 + b"a\r\nB\r\n"),
        (b"a\nb", b"a\nb\nc"),
        (b"a\nb\n", b"a\nb"),
        (b"\xe9 = 1\n\x0c\n", b"\xe9 = 2\n\x0c\n"),
        (b"".join(NUMBERS), b"0\n" + b"".join(NUMBERS[:-1])),
        (None, b"new\n"),
    ],
)
@pytest.mark.parametrize("tool", ["git", "patch"])
def test_diffs_are_what_git_and_patch_read(
    tmp_path: Path, before: bytes | None, after: bytes, tool: str
) -> None:
    if shutil.which(tool) is None:
        pytest.skip(f"there is no {tool}")
    path = tmp_path / "in here" / "train.py"
    path.parent.mkdir()
    if before is not None:
        path.write_bytes(before)
    lines = tuple(
        diff_lines(PatchedFile(path, before, after), tmp_path, lambda _low, _high: "fix: 1.3×")
    )
    command = ["git", "apply"] if tool == "git" else ["patch", "-p1", "--binary"]
    subprocess.run(command, input=diff_bytes(lines), cwd=tmp_path, check=True, capture_output=True)
    assert path.read_bytes() == after
