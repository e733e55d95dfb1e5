"""Private views of the working folder: what is written there, what is not, and where none is."""

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from gapless.launch.trial import enter_view, sandbox

_WRITERS = {
    "emergency save": """
try:
    raise KeyboardInterrupt
except BaseException:
    open("last.pt", "w")
    raise""",
    "at exit": "import atexit; atexit.register(lambda: open('last.pt', 'w').write('uploaded'))",
    "subprocess": "import os; os.system('echo x > last.pt; rm model.pt')",
    "fork": "import os; os.fork() == 0 and open('last.pt', 'w') or os.wait()",
}


def run_in_view(
    folder: Path, command: Sequence[str], env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a command in a private view of the folder, in it."""
    with sandbox.open_view(folder) as view:
        words = (*sandbox.prefix(view), *command)
        process = subprocess.run(
            words, cwd=folder, env=env, capture_output=True, text=True, check=False, timeout=240
        )
    assert not view.layers.exists()
    return process


def read_folder(folder: Path) -> dict[str, str | None]:
    return {
        str(path.relative_to(folder)): path.read_text() if path.is_file() else None
        for path in sorted(folder.rglob("*"))
    }


def python_command(text: str) -> tuple[str, ...]:
    return (sys.executable, "-c", text)


def test_a_command_sees_its_writes_and_the_folder_does_not(workdir: Path) -> None:
    before = read_folder(workdir)
    script = """
import os, shutil
open("model.pt", "w").write("overwritten"); open("new.pt", "w").write("new")
shutil.rmtree("old"); os.mkdir("old"); os.rename("new.pt", "old/moved.pt")
print(sorted(os.listdir(".")), os.listdir("old"), open("model.pt").read())
"""
    process = run_in_view(workdir, python_command(script))
    assert process.stdout == "['model.pt', 'old'] ['moved.pt'] overwritten\n"
    assert read_folder(workdir) == before


def test_absolute_paths_into_the_folder_are_private_and_others_are_not(
    workdir: Path, tmp_path: Path
) -> None:
    script = f"open({str(workdir / 'a.pt')!r}, 'w'); open({str(tmp_path / 'b.pt')!r}, 'w')"
    assert run_in_view(workdir, python_command(script)).returncode == 0
    assert not (workdir / "a.pt").exists()
    assert (tmp_path / "b.pt").exists()  # what `launch.outside` is for


@pytest.mark.parametrize("way", ["emergency save", "at exit", "subprocess", "fork"])
def test_no_way_of_writing_into_the_folder_gets_out(workdir: Path, way: str) -> None:
    before = read_folder(workdir)
    with sandbox.open_view(workdir) as view:
        words = (*sandbox.prefix(view), *python_command(_WRITERS[way]))
        subprocess.run(words, cwd=workdir, capture_output=True, check=False, timeout=240)
        assert (view.layers / "upper" / "last.pt").exists()
    assert read_folder(workdir) == before


def test_a_command_is_started_as_it_would_be_without(workdir: Path) -> None:
    script = """
import os, json, signal
status = open("/proc/self/status").read()
print(json.dumps([os.getcwd(), sorted(os.environ.items()), os.getppid(), os.getuid(), os.getgid(),
    [line for line in status.splitlines() if line[:4] in ("SigB", "SigI", "SigC", "SigP", "ShdP")],
    sorted(os.listdir("/proc/self/fd")), os.umask(0), os.getpriority(0, 0)]))
"""
    for env in (None, {"PATH": os.environ["PATH"], "LANG": "C", "ODD": "a=b\n"}):
        command = (sys.executable, "-I", "-S", "-X", "utf8", "-c", script)
        plain = subprocess.run(
            command, cwd=workdir, env=env, capture_output=True, text=True, check=True
        )
        assert run_in_view(workdir, command, env).stdout == plain.stdout
        assert plain.stdout


def test_the_process_is_the_command_itself(workdir: Path) -> None:
    with sandbox.open_view(workdir) as view:
        words = (*sandbox.prefix(view), "sh", "-c", "echo $$; kill -TERM $$")
        child = subprocess.Popen(words, cwd=workdir, stdout=subprocess.PIPE, text=True)
        output, _ = child.communicate(timeout=240)
        assert int(output) == child.pid
        assert child.returncode == -signal.SIGTERM


@pytest.mark.parametrize(
    ("command", "code"),
    [(("sh", "-c", "exit 7"), 7), (("./no-such",), 127), (("./model.pt",), 126)],
)
def test_exit_codes_are_those_of_a_shell(
    workdir: Path, command: tuple[str, ...], code: int
) -> None:
    assert run_in_view(workdir, command).returncode == code


def test_a_script_without_an_interpreter_line_runs_as_in_a_shell(workdir: Path) -> None:
    script = workdir / "run"
    script.write_text("echo ran\n")
    script.chmod(0o755)
    assert run_in_view(workdir, ("./run",)).stdout == "ran\n"


def test_the_recorders_spool_and_shared_memory_are_the_real_ones(workdir: Path) -> None:
    spool = workdir / "tmp" / "spool"
    spool.mkdir(parents=True)
    env = {**os.environ, "GAPLESS_SPOOL": str(spool)}
    name = f"gapless-test-{os.getpid()}"
    shared = Path("/dev/shm") / name  # noqa: S108
    script = f"open('tmp/spool/rank0.log', 'w'); open('tmp/x', 'w'); open({str(shared)!r}, 'w')"
    assert run_in_view(workdir, python_command(script), env).returncode == 0
    assert sorted(read_folder(workdir / "tmp")) == ["spool", "spool/rank0.log"]
    assert shared.exists()
    shared.unlink()


def test_there_is_none_of_everything_and_none_where_nothing_can_lie(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert sandbox.explain_unavailable(Path("/")) == "the working folder is the root of everything"

    def list_folders(_: Path) -> list[Path]:
        return [folder / "no-such"]

    monkeypatch.setattr(sandbox, "_places", list_folders)
    sandbox._test_support.cache_clear()  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
    assert sandbox.explain_unavailable(folder) == f"{folder / 'no-such'}: No such file or directory"
    with pytest.raises(OSError, match="no private view of"):
        sandbox.make(folder)
    sandbox._test_support.cache_clear()  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]


def test_what_was_written_is_removed_whatever_its_rights(tmp_path: Path) -> None:
    layers = tmp_path / "place"
    (layers / "upper" / "closed" / "deep").mkdir(parents=True)
    (layers / "upper" / "link").symlink_to(tmp_path / "kept")
    (tmp_path / "kept").mkdir(mode=0o700)
    (layers / "upper" / "closed" / "deep" / "file").touch()
    (layers / "upper" / "closed" / "deep").chmod(0o500)
    (layers / "upper" / "closed").chmod(0)
    (tmp_path / "kept").chmod(0o500)
    sandbox.remove(sandbox.PrivateView(tmp_path, layers))
    assert not layers.exists()
    assert (tmp_path / "kept").stat().st_mode & 0o777 == 0o500


def test_what_a_killed_process_wrote_through_a_view_is_removed_by_the_next(workdir: Path) -> None:
    script = """
import os, signal, sys
from pathlib import Path
from gapless.launch.trial import sandbox
view = sandbox.make(Path(sys.argv[1]))
print(view.layers, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
    env = {**os.environ, "TMPDIR": tempfile.gettempdir()}  # which it has found out before
    words = (*python_command(script), str(workdir))
    killed_process = subprocess.run(words, env=env, capture_output=True, text=True, check=False)
    leftover = Path(killed_process.stdout.strip())
    assert leftover.is_dir()
    with sandbox.open_view(workdir) as first_view, sandbox.open_view(workdir) as second_view:
        assert not leftover.exists()
        assert first_view.layers.is_dir()  # as long as its maker lives
        assert second_view.layers.is_dir()
    assert not first_view.layers.exists()


def test_names_of_mounts_are_read_whatever_they_hold(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lines = (rb"1 0 0:1 / /a\040b/c rw - x x", rb"2 0 0:1 / /a\040b/c/d rw - x x")
    text = b"\n".join((*lines, "3 0 0:1 / /a\\040b/ü rw - x x".encode()))

    def read_mounts(_: Path) -> bytes:
        return text

    monkeypatch.setattr(Path, "read_bytes", read_mounts)
    assert list(enter_view.mounts_below(Path("/a b"))) == [Path("/a b/c"), Path("/a b/ü")]
