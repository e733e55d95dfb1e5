"""Private views under fewer rights: of an ordinary user, where the kernel refuses, over mounts."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from gapless.launch.trial import sandbox

CONFINED = (sys.executable, str(Path(__file__).with_name("confined.py")))
_TRY_VIEW = """
import json, sys
from pathlib import Path
from gapless.launch.trial import sandbox
why = sandbox.explain_unavailable(Path(sys.argv[1]), sys.argv[3:])
view = sandbox.make(Path(sys.argv[1])) if why is None else None
code = None
if view is not None:
    import subprocess
    code = subprocess.run([*sandbox.prefix(view), *json.loads(sys.argv[2])], cwd=sys.argv[1])
    code = code.returncode
    sandbox.remove(view)
print(json.dumps([why, code, None if view is None else view.layers.exists()]))
"""


def read_folder(folder: Path) -> dict[str, str | None]:
    return {
        str(path.relative_to(folder)): path.read_text() if path.is_file() else None
        for path in sorted(folder.rglob("*"))
    }


def try_view(
    restriction: str, folder: Path, command: Sequence[str], *written_paths: Path
) -> list[object]:
    """Ask for a view under fewer rights; give the reason why not, the exit code, what is left."""
    words = (
        *CONFINED,
        restriction,
        sys.executable,
        "-c",
        _TRY_VIEW,
        str(folder),
        json.dumps(command),
    )
    process = subprocess.run(
        (*words, *map(str, written_paths)), capture_output=True, text=True, check=True, timeout=240
    )
    return json.loads(process.stdout.splitlines()[-1])


def test_an_ordinary_user_has_a_view_by_a_user_namespace(workdir: Path) -> None:
    before = read_folder(workdir)
    script = 'echo x > model.pt; rm -r old; mkdir old; test -z "$(ls old)" && exit 5'
    why, code, leftover = try_view("no-mounts", workdir, ("sh", "-c", script))
    if why is not None:
        pytest.skip(f"no private view for ordinary users: {why}")
    assert (code, leftover) == (5, False)
    assert read_folder(workdir) == before


def test_an_ordinary_user_is_told_of_files_that_a_view_could_not_change(workdir: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give files away")
    foreign = workdir / "old" / "log"
    os.chown(foreign, 0, 12345)
    why, _, _ = try_view("no-mounts", workdir, ("true",), foreign, workdir / "fine.pt")
    if why is not None and "namespace" in str(why):
        pytest.skip(f"no private view for ordinary users: {why}")
    assert why == f"{foreign} belongs to another user or group"
    assert try_view("no-mounts", workdir, ("true",), workdir / "fine.pt")[0] is None


def test_says_why_there_is_none_where_the_kernel_refuses(folder: Path) -> None:
    why, code, _ = try_view("no-namespaces", folder, ("true",))
    assert isinstance(why, str)
    assert why.startswith("a user namespace: Operation not permitted")
    assert code is None


def test_never_starts_a_command_without_the_view(folder: Path, tmp_path: Path) -> None:
    layers = tmp_path / "place"
    for name in ("upper", "work"):
        (layers / name).mkdir(parents=True)
    words = sandbox.prefix(sandbox.PrivateView(folder, layers))
    process = subprocess.run(
        (*CONFINED, "no-namespaces", *words, "touch", str(folder / "started")),
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 125
    assert process.stderr.startswith(f"gapless: no private view of {folder}: ")
    assert not (folder / "started").exists()


def test_what_is_mounted_inside_is_seen_as_it_is_or_there_is_no_view(workdir: Path) -> None:
    mount_point = workdir / "old"
    mount = ("/usr/bin/env", "mount", "-t", "tmpfs", "none", mount_point)
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("nothing can be mounted here")
    try:
        (mount_point / "data").write_text("there")
        assert sandbox.find_uncovered(workdir) == (mount_point,)
        script = "test there = $(cat old/data) && echo x > old/more && echo x > more"
        with sandbox.open_view(workdir) as view:
            words = (*sandbox.prefix(view), "sh", "-c", script)
            subprocess.run(words, cwd=workdir, check=True, timeout=240)
        assert sorted(read_folder(workdir)) == ["model.pt", "old", "old/data", "old/more"]
        why, code, _ = try_view("no-mounts", workdir, ("true",))
        assert isinstance(why, str)
        assert str(mount_point) in why
        assert code is None
    finally:
        subprocess.run(("/usr/bin/env", "umount", mount_point), check=True)
