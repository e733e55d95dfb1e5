"""What a command is given and what comes of it are the same with and without the recorder."""

import json
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tests.launch import starting

FAILS = "import sys\nprint('out')\nprint('err', file=sys.stderr)\nraise ValueError('no')\n"

# Each way to end, as a command.
ENDINGS = {
    "well": ["bash", "-c", "printf out; printf err >&2"],
    "exit code 3": ["bash", "-c", "exit 3"],
    "exit code 255": ["bash", "-c", "exit 255"],
    "sys.exit with words": [sys.executable, "-c", "import sys; sys.exit('no more')"],
    "os._exit": [sys.executable, "-c", "import os; os.write(1, b'x'); os._exit(7)"],
    "exception": [sys.executable, "fails.py"],
    "SIGKILL": ["bash", "-c", "echo before; kill -KILL $$"],
    "SIGTERM": ["bash", "-c", "kill -TERM $$"],
    "SIGINT": [sys.executable, "-c", "import os; os.kill(os.getpid(), 2)"],
    "SIGSEGV": ["bash", "-c", "ulimit -c 0; kill -SEGV $$"],
    "SIGABRT": ["bash", "-c", "ulimit -c 0; kill -ABRT $$"],
    "SIGPIPE": ["bash", "-c", "kill -PIPE $$"],
    "bytes": [sys.executable, "-c", "import os; os.write(1, bytes(range(256)) * 4096)"],
    "its own group": ["bash", "-c", "kill -TERM 0"],
    "arguments": ["printf", "%s|", "--quiet", "--out", "-h", "--", "--e", "a b", ""],
    "options of Python's": [sys.executable, "-X", "utf8", "-c", "print(1)", "--version"],
}

# With --slow alone: other codes and other signals are among those that always run.
LIKE_OTHERS = {"exit code 255", "os._exit", "SIGABRT", "SIGSEGV", "SIGPIPE", "SIGTERM"}


@pytest.mark.parametrize(
    "command",
    [
        pytest.param(command, id=name, marks=pytest.mark.slow if name in LIKE_OTHERS else ())
        for name, command in ENDINGS.items()
    ],
)
def test_a_command_ends_as_it_would_have(command: list[str], tmp_path: Path) -> None:
    (tmp_path / "fails.py").write_text(FAILS)
    expected = starting.run_plainly(command, tmp_path)
    process = starting.run(command, tmp_path)
    assert (process.returncode, process.stdout) == (expected.returncode, expected.stdout)
    assert starting.strip_report(process.stderr) == expected.stderr
    manifest = json.loads((starting.run_folder(tmp_path) / "run.json").read_text())
    assert manifest["exit_code"] == expected.returncode
    assert manifest["command"] == command
    assert manifest["spool"] is None


@pytest.mark.parametrize(
    ("command", "code", "message"),
    [
        (["no-such-command"], 127, b"gapless: no-such-command: command not found\n"),
        (["plain.py"], 127, b"not found; a script needs its interpreter: python plain.py\n"),
        (["python plain.py"], 127, b"not found; leave out the quotes around the command\n"),
        (["./gone"], 127, b"gapless: ./gone: No such file or directory\n"),
        (["./plain.txt"], 126, b"gapless: ./plain.txt: Permission denied\n"),
        (["."], 126, b"gapless: .: Permission denied\n"),
        ([], 2, b"gapless explain usage"),
        (["--nonsense", "true"], 2, b"--nonsense"),
    ],
)
def test_what_cannot_start_is_said_in_one_line(
    command: list[str], code: int, message: bytes, tmp_path: Path
) -> None:
    (tmp_path / "plain.txt").write_text("text")
    (tmp_path / "plain.py").write_text("text")
    spools = tmp_path / "spools"
    spools.mkdir()
    process = starting.run(command, tmp_path, env={**os.environ, "TMPDIR": str(spools)})
    assert (process.returncode, process.stdout) == (code, b"")
    assert message in process.stderr
    assert process.stderr.count(b"\n") == 1
    assert not list(spools.iterdir())
    assert not (tmp_path / ".gapless").exists()


def test_a_script_without_a_first_line_is_run_by_the_shell(tmp_path: Path) -> None:
    script = tmp_path / "train.sh"
    script.write_text("echo $1\nexit 4\n")
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    process = starting.run(["./train.sh", "hi"], tmp_path)
    assert (process.returncode, process.stdout) == (4, b"hi\n")


# What a process inherits, printed by a shell and by a Python below it.
INHERITED = f"""
# without 32 and 33, which are glibc's own: its posix_spawn lets them be ignored
echo signals; sed -En 's/^(Sig[BI].*)(.{{7}})/\\2/p' /proc/self/status
echo limits; ulimit -a
echo open files; ls /proc/$$/fd
echo folder and mask; pwd; umask; nice
echo groups; {sys.executable} -c '
import os
print(os.getsid(0), os.getpgrp() == int(os.environ["LEADER"]))'
"""


@pytest.mark.parametrize("trap", ["", "trap '' HUP INT USR1; "], ids=["", "ignored"])
def test_a_command_inherits_what_it_would_have(trap: str, tmp_path: Path) -> None:
    """Also descriptors that the shell opened, and signals that it ignores (``nohup``)."""
    script = trap + 'exec 7</dev/null; export LEADER=$$; "$@"'
    command = ["bash", "-c", INHERITED]
    plain, recorded = (
        starting.run_plainly(["bash", "-c", script, "-", *prefix, *command], tmp_path).stdout
        for prefix in ((), (*starting.GAPLESS, "run", "--quiet"))
    )
    assert recorded.decode() == plain.decode()
    names = {"signals", "limits", "open files", "folder and mask", "groups"}
    assert names <= {*plain.decode().splitlines()}
    assert len(plain.splitlines()) > 20


def test_only_the_way_to_the_recorder_is_added_to_the_environment(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "import os, json; print(json.dumps(dict(os.environ)))"]
    env = {**os.environ, "PYTHONPATH": "a::b", "KINETO_LOG_LEVEL": "3"}
    before = json.loads(starting.run_plainly(command, tmp_path, env=env).stdout)
    after = json.loads(starting.run(command, tmp_path, env=env).stdout)
    site, _, user_path = after.pop("PYTHONPATH").partition(":")
    assert (user_path, before.pop("PYTHONPATH")) == ("a::b", "a::b")
    assert site.endswith("gapless/payload/site")
    assert json.loads(after.pop("GAPLESS_OPTIONS"))["window_steps"] == 6
    assert not Path(after.pop("GAPLESS_SPOOL")).exists()  # once the run is over
    assert after == before


def test_kineto_is_silenced_where_the_user_said_nothing(tmp_path: Path) -> None:
    env = {name: value for name, value in os.environ.items() if name != "KINETO_LOG_LEVEL"}
    command = ["bash", "-c", "echo $KINETO_LOG_LEVEL"]
    assert starting.run(command, tmp_path, env=env).stdout == b"99\n"


def test_standard_input_is_the_commands(tmp_path: Path) -> None:
    process = starting.run(["cat"], tmp_path, stdin=b"through\x00")
    assert process.stdout == b"through\x00"


def test_a_closed_output_stays_closed(tmp_path: Path) -> None:
    script = 'exec >&- 2>&-; "$@"'
    command = ["bash", "-c", "test ! -e /proc/$$/fd/1 && test ! -e /proc/$$/fd/2"]
    words = ["bash", "-c", script, "-", *starting.GAPLESS, "run", *command]
    assert starting.run_plainly(words, tmp_path).returncode == 0


def test_output_that_outlives_the_command_is_not_waited_for(tmp_path: Path) -> None:
    """A script that ends by ``os._exit`` leaves workers that hold its standard output."""
    with starting.start(["bash", "-c", "sleep 300 & echo $!"], tmp_path) as process:
        assert process.stdout is not None
        sleeper = int(process.stdout.readline())
        assert process.wait(starting.PATIENCE_S) == 0
        assert starting.is_alive(sleeper)
        os.kill(sleeper, signal.SIGKILL)


def test_quiet_prints_nothing(tmp_path: Path) -> None:
    process = starting.run(["bash", "-c", "echo x >&2"], tmp_path, "--quiet")
    assert process.stderr == b"x\n"


def test_the_folder_is_hidden_from_version_control(tmp_path: Path) -> None:
    starting.run(["true"], tmp_path)
    assert (tmp_path / ".gapless" / ".gitignore").read_text() == "*\n"
    elsewhere = tmp_path / "elsewhere"
    starting.run(["true"], tmp_path, "--out", str(elsewhere))
    (run_folder,) = elsewhere.iterdir()
    assert (run_folder / "run.json").exists()


def test_two_runs_in_one_folder_do_not_meet(tmp_path: Path) -> None:
    processes = [starting.start(["sleep", "0.5"], tmp_path) for _ in range(2)]
    for process in processes:
        process.communicate(timeout=starting.PATIENCE_S)
        assert process.returncode == 0
    runs = list((tmp_path / ".gapless" / "runs").iterdir())
    assert len({json.loads((path / "run.json").read_text())["id"] for path in runs}) == 2


def test_a_fault_of_ours_after_the_end_changes_no_exit_code(tmp_path: Path) -> None:
    program = (
        "import sys\n"
        "from gapless import cli\n"
        "from gapless.launch.run import finalize\n"
        "def fails(*_):\n"
        "    raise {}\n"
        "finalize.finalize_run = fails\n"
        "sys.exit(cli.main(['run', 'bash', '-c', 'exit 9']))\n"
    )
    for error in ("ValueError('ours')", "KeyboardInterrupt", "MemoryError"):
        command = [sys.executable, "-c", program.format(error)]
        process = starting.run_plainly(command, tmp_path)
        assert process.returncode == 9
        assert b"Traceback" not in process.stderr
        assert process.stderr.startswith(b"gapless: ")


def test_threads_that_cannot_be_started_change_nothing(tmp_path: Path) -> None:
    program = (
        "import sys, threading\n"
        "from gapless import cli\n"
        "def refuse(_):\n"
        '    raise RuntimeError("can\'t start new thread")\n'
        "threading.Thread.start = refuse\n"
        "sys.exit(cli.main(['run', 'bash', '-c', 'echo x; exit 9']))\n"
    )
    process = starting.run_plainly([sys.executable, "-c", program], tmp_path)
    assert (process.returncode, process.stdout) == (9, b"x\n")
    assert "can't start" in starting.read_unobserved(starting.run_folder(tmp_path))["samplers"]


def test_help_teaches(tmp_path: Path) -> None:
    for command in ("run", "check"):
        process = subprocess.run(
            [*starting.GAPLESS, command, "--help"], cwd=tmp_path, capture_output=True, check=True
        )
        assert f"gapless {command} torchrun --nproc-per-node 8".encode() in process.stdout
