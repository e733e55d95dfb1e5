"""Commands of the docs that open and compare traces, or record a training, are run as they stand.

Those that read a recorded run are in ``test_commands.py``. What neither has (trials, tunings,
gates, attaching) takes minutes, git, or a process to look at: tests of their own are about that.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from gapless import cli
from tests.house.test_commands import IN_BLOCKS, IN_SENTENCES, ROOT, collect

DATA: Final = ROOT / "tests/data"
COMMANDS: Final = collect([*IN_BLOCKS, *IN_SENTENCES])
_OPENS: Final = re.compile(
    r"gapless open (?:'runs/\*/rank\*\.json\.gz'|runs/resnet/|\./log|trace\.json(?:\.gz)?)"
    r"(?: --(?:html [a-z.]+|csv kernels|json|leaf idle\.sync|by-shape|sort device-total|top \d+))*"
    r"|gapless compare before\.json(?:\.gz)? after\.json(?:\.gz)?(?: --json)?"
)
OPENING: Final = [command for command in COMMANDS if _OPENS.fullmatch(command)]
RECORDING: Final = (
    "gapless run --early python train.py",
    "gapless run --no-windows python train.py",
    "gapless run --price 2.5 python train.py",
    "gapless run bash train.sh",
    "gapless run python train.py --epochs 2",
    "gapless check python train.py",
)
AFTERWARDS: Final = (  # in this order: the last ones change the folder of runs
    "gapless report --section calls",
    "gapless report --speedscope run.speedscope.json",
    "gapless report --html run.html",
    "gapless try --list",
    "gapless fix --list",
    "gapless watch --once",
    "gapless watch --once --json",
    "gapless doctor --fast",
    "gapless doctor --json",
    "gapless runs pack last -o slow.tar.zst",
)


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with traces under the names that the docs use."""
    path = tmp_path_factory.mktemp("traces")
    packed = DATA / "loader_workers.json.gz"
    for name in ("trace", "before", "after"):
        shutil.copy(packed, path / f"{name}.json.gz")
        shutil.copy(packed, path / f"{name}.json")  # what is packed is known by its first bytes
    for folder in ("log", "runs/resnet"):
        (path / folder).mkdir(parents=True)
        for rank in (0, 1):
            shutil.copy(
                DATA / f"two_ranks.rank{rank}.json.gz", path / folder / f"rank{rank}.json.gz"
            )
    return path


@pytest.mark.parametrize("command", OPENING)
def test_commands_that_open_traces_run(
    command: str,
    traces: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(traces)
    monkeypatch.setenv("GAPLESS_CACHE", str(traces / "cache"))
    assert cli.main(shlex.split(command)[1:]) == 0, capsys.readouterr().err
    output = capsys.readouterr()
    assert output.out or output.err


def test_commands_that_open_are_found_in_the_docs() -> None:
    assert len(OPENING) > 10
    assert set(RECORDING) | set(AFTERWARDS) <= set(COMMANDS)


@pytest.mark.slow
def test_commands_that_record_run_and_those_after_them(tmp_path: Path) -> None:
    """One small training, recorded by each command; then what the docs do with the last run."""
    shutil.copy(ROOT / "src/gapless/demo/train.py", tmp_path / "train.py")
    (tmp_path / "train.sh").write_text("python train.py --pictures 64 --epochs 3\n")
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "GAPLESS_CACHE": str(tmp_path / "cache"),
    }
    for command in (*RECORDING, *AFTERWARDS):
        process = subprocess.run(
            [sys.executable, "-m", *shlex.split(command)],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            check=False,
            text=True,
        )
        # doctor ends with 1 where a check of this machine is bad
        allowed = {0, 1} if command.startswith("gapless doctor") else {0}
        assert process.returncode in allowed, f"{command}: {process.stderr[-500:]}"
        assert process.stdout or process.stderr, command
    assert all((tmp_path / name).stat().st_size for name in ("run.html", "slow.tar.zst"))
