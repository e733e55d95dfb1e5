"""A command that sets PYTHONPATH itself is recorded all the same, or it is said why not."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from gapless.launch import search_path
from gapless.launch.environment import SITE
from tests.launch import starting

BIN = Path(sys.executable).parent
SHOW = """
import os, sys
theirs = [one for one in sys.path if not one.endswith("payload/site")]
path = os.environ.get("PYTHON" + "PATH", "").split(":")
print(sys.argv, sys.orig_argv, sys.executable, theirs, os.environ["PATH"])
print([one for one in path if one and not one.endswith("payload/site")], flush=True)
if "GAPLESS_SPOOL" in os.environ:
    door = [one for one in sys.meta_path if type(one).__name__ == "_Door"]
    open(os.environ["SEEN"], "a").write(f"{len(door)}")
"""


def variables(folder: Path, path: str = "") -> Mapping[str, str]:
    return {
        "PATH": path or f"{BIN}:{os.environ['PATH']}",
        "HOME": str(folder),
        "SEEN": str(folder / "seen"),
    }


def compare(folder: Path, *command: str, path: str = "") -> str:
    """Run a command plainly and recorded; give how many doors each of its Pythons had."""
    (folder / "t.py").write_text(SHOW)
    (folder / "x").mkdir()
    env = variables(folder, path)
    plain = starting.run_plainly(command, folder, env)
    process = starting.run(command, folder, env=env)
    assert (process.returncode, process.stdout) == (plain.returncode, plain.stdout), process.stderr
    assert starting.strip_report(process.stderr) == plain.stderr
    assert not list((folder / ".gapless" / "runs").glob("*/programs"))
    return starting.read_text(folder / "seen")


SCRIPTS = {
    "export PYTHONPATH=x\npython t.py a 'b c'": "1",
    "PYTHONPATH=x python t.py": "1",
    "export PYTHONPATH=x; exec python3 t.py": "1",
    'unset PYTHONPATH\nx=$(python t.py); echo "$x"; exit 3': "1",
    "export PYTHONPATH=x${PYTHONPATH:+:$PYTHONPATH}; python t.py": "1",
    "export PYTHONPATH=x; nohup python t.py & wait $!": "1",
    "export PYTHONPATH=x; bash inner.sh": "1",
    "PYTHONPATH=x python -I t.py": "0",
    "PYTHONPATH=x python -E t.py": "0",
    "PYTHONPATH=x python -S t.py": "0",
}


def test_scripts_that_set_it_run_as_alone_and_the_recorder_gets_in(tmp_path: Path) -> None:
    """Each in a shell of its own: what one sets is not there for the next."""
    (tmp_path / "inner.sh").write_text("python t.py\n")
    script = "".join(f"(\n{lines}\n)\necho $?\n" for lines in SCRIPTS)
    (tmp_path / "train.sh").write_text(f"{script}exit 3\n")
    assert compare(tmp_path, "bash", "train.sh") == "".join(SCRIPTS.values())


@pytest.mark.parametrize("words", [*SCRIPTS, "env PYTHONPATH=x python t.py"])
def test_each_script_alone_has_programs_that_let_the_recorder_in(
    words: str, tmp_path: Path
) -> None:
    spool = tmp_path / "spool"
    spool.mkdir()
    (tmp_path / "train.sh").write_text(words)
    command = ("bash", "train.sh")
    kept, env = search_path.keep_entry(command, variables(tmp_path), spool, tmp_path)
    (folder,) = spool.iterdir()
    assert kept == command
    assert env["PATH"].startswith(f"{folder}:{BIN}:")
    assert {program.name for program in folder.iterdir()} >= {"python", "python3"}


@pytest.mark.parametrize(
    "command",
    [
        ("env", "PYTHONPATH=x", sys.executable, "t.py"),
        ("env", "-u", "PYTHONPATH", "python", "t.py"),
        ("sh", "-c", "PYTHONPATH=x python t.py"),
        ("./program",),
    ],
)
def test_commands_that_set_it_do_likewise(command: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "program").write_text("#!/bin/sh\nexport PYTHONPATH=x\nexec python t.py\n")
    (tmp_path / "program").chmod(0o755)
    assert compare(tmp_path, *command) == "1"


def test_programs_that_python_reads_are_followed_too(tmp_path: Path) -> None:
    bin_folder = tmp_path / "bin"
    bin_folder.mkdir()
    (bin_folder / "tool").write_text(f"#!{sys.executable}\n" + SHOW)
    (bin_folder / "tool").chmod(0o755)
    (tmp_path / "train.sh").write_text("PYTHONPATH=x tool --fast\n")
    path = f"{bin_folder}:{os.environ['PATH']}"
    assert compare(tmp_path, "bash", "train.sh", path=path) == "1"


def test_the_users_own_customisation_runs_as_without_us(tmp_path: Path) -> None:
    for name in ("sitecustomize", "usercustomize"):
        (tmp_path / f"{name}.py").write_text(f"print({name!r}, 'is mine')")
    (tmp_path / "train.sh").write_text(f"PYTHONPATH={tmp_path} python t.py\n")
    assert compare(tmp_path, "bash", "train.sh") == "1"


@pytest.mark.parametrize("command", [("python", "t.py"), ("bash", "plain.sh"), ("ls", "-l")])
def test_what_does_not_speak_of_it_is_left_as_it_is(
    command: tuple[str, ...], tmp_path: Path
) -> None:
    (tmp_path / "t.py").write_text("import os")
    (tmp_path / "plain.sh").write_text("python t.py")
    env = {"PATH": os.environ["PATH"]}
    assert search_path.keep_entry(command, env, tmp_path, tmp_path) == (command, env)


def test_where_it_cannot_be_kept_the_report_says_so(tmp_path: Path) -> None:
    (tmp_path / "seen.py").write_text(starting.SAMPLED_PROGRAM)
    script = f"PYTHONPATH=x {sys.executable} seen.py {starting.SAMPLES_LOG}"
    (tmp_path / "train.sh").write_text(script)
    process = starting.run(("bash", "train.sh"), tmp_path, env=variables(tmp_path))
    assert b"starts Python with PYTHONPATH='x' of its own" in process.stderr
    assert str(SITE).encode() not in process.stderr


def test_a_command_that_does_not_start_leaves_no_programs(tmp_path: Path) -> None:
    env = {**variables(tmp_path), "TMPDIR": str(tmp_path)}
    process = starting.run(("nothing-there", "PYTHONPATH=x"), tmp_path, env=env)
    assert process.returncode == 127
    assert not list(tmp_path.glob("gapless-spool-*"))
