"""Commands of the docs that open and compare traces, or record a training, are run as they stand.

Those that read a recorded run are in ``test_commands.py``, those that start a training many times
in ``test_commands_stood_in.py``, those of ``fix`` and ``pack`` in ``tests/commands``, of
``mcp`` in ``tests/agents``, of ``watch --serve`` in ``tests/live``.
"""

import gzip
import json
import os
import pty
import re
import select
import shlex
import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

import pytest

from gapless import cli
from gapless.model.tuning import Tuning
from gapless.store.run.tunings import tuning_object
from tests.formats.nsight_writing import loop_rows, write_database
from tests.formats.proto_writing import gpu_profile, perfetto_trace
from tests.formats.rocprof_writing import rocprof_json
from tests.house.test_commands import IN_BLOCKS, IN_SENTENCES, ROOT, RUN, collect
from tests.house.test_commands_stood_in import STOOD_IN, commands
from tests.store import drawing
from tests.traces import recorded_run

DATA: Final = ROOT / "tests/data"
_LATER_NS: Final = 1_900_000_000_000_000_000
COMMANDS: Final = collect([*IN_BLOCKS, *IN_SENTENCES])
_OPENS: Final = re.compile(
    r"gapless open (?:report\.sqlite(?: --step \"train\*\")?|logs/plugins/profile"
    r"|out_results\.json|trace\.pftrace)"
    r"|gapless open (?:'runs/\*/rank\*\.json\.gz'|runs/resnet/|\./log|s3://bucket/job/log|trace\.json(?:\.gz)?)"
    r"(?: --(?:html [a-z.]+|csv kernels|json|leaf idle\.sync|by-shape|sort device-total|top \d+"
    r"|rank 3|steps 10-20))*"
    r"|gapless compare [-./a-zT\d]+ [-./a-z\d]+(?: --json| --top \d+)?"
    r"|gapless report last --rank 3|gapless report (?:/shared/runs|node0/runs node1/runs)"
    r"|gapless runs delete 2026-11-20 --force"
)
OPENING: Final = [command for command in COMMANDS if _OPENS.fullmatch(command)]
RECORDING: Final = tuple(
    command
    for command in IN_BLOCKS
    if re.match("gapless (?:run|check) ", command) and "applies it" not in command
)
SENTENCES: Final = tuple(line for line in IN_BLOCKS if "applies it" in line)  # no command
DOCTOR: Final = tuple(line for line in IN_BLOCKS if line.startswith("gapless doctor"))
WATCH: Final = ("gapless watch", "gapless watch last", "gapless watch --machine")
AFTERWARDS: Final = (  # in this order: the last ones change the folder of runs
    "gapless report --section calls",
    "gapless report --speedscope run.speedscope.json",
    "gapless report --html run.html",
    "gapless try --list",
    "gapless fix --list",
    "gapless watch --once",
    "gapless watch --once --json",
    *DOCTOR,
    *WATCH,
    "gapless runs pack last -o slow.tar.zst",
)


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with traces under the names that the docs use."""
    path = tmp_path_factory.mktemp("traces") / "new"
    path.mkdir()
    packed = DATA / "loader_workers.json.gz"
    for name in ("trace", "before", "after"):
        shutil.copy(packed, path / f"{name}.json.gz")
        shutil.copy(packed, path / f"{name}.json")  # what is packed is known by its first bytes
    write_database(path / "report.sqlite", loop_rows(4, label="train_step {}"))
    (path / "logs/plugins/profile").mkdir(parents=True)
    (path / "logs/plugins/profile/host.xplane.pb").write_bytes(gpu_profile())
    (path / "out_results.json").write_bytes(rocprof_json())
    (path / "trace.pftrace").write_bytes(perfetto_trace())
    for folder in ("log", "log-main", "log-branch", "runs/resnet"):
        (path / folder).mkdir(parents=True)
        for rank in (0, 1):
            shutil.copy(
                DATA / f"two_ranks.rank{rank}.json.gz", path / folder / f"rank{rank}.json.gz"
            )
    text = gzip.decompress((path / "log/rank1.json.gz").read_bytes())
    text = text.replace(b'"rank": 1, "world_size": 2', b'"rank": 3, "world_size": 4')
    (path / "log/rank3.json").write_bytes(text)
    add_runs(path)
    return path


def add_runs(path: Path) -> None:
    """Add recorded runs under the names that the docs use, a folder beside, and packed ones."""
    home = path / ".gapless/runs"
    shutil.copytree(recorded_run().parent, home)
    shutil.copytree(recorded_run().parent, path.parent / "old/.gapless/runs")
    (kept,) = (entry for entry in home.iterdir() if entry.is_dir())
    for name in ("before", "after"):
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(path)
            assert cli.main(["runs", "pack", kept.name, "-o", f"{name}.tar.zst"]) == 0
    training = b"".join(drawing.training()[1:])
    ranks = {
        f"rank{rank}.log": drawing.process(7 + rank, rank=rank, world=4) + training
        for rank in range(4)
    }
    drawing.write_run(home / "2026-11-20T09-00-00-0001", ranks)
    drawing.write_run(home / "2026-11-22T09-00-00-0002", ranks, started_unix_ns=_LATER_NS)
    for number in (0, 1):
        job = {"run": "7", "master": "node0:1", "node": number, "nodes": 2, "restart": 0}
        head = drawing.process(7, rank=number, world=2, job=job)
        for folder in (f"node{number}/runs", "shared/runs"):
            drawing.write_run(path / folder / f"run{number}", {"rank0.log": head + training})


@pytest.mark.parametrize("command", OPENING)
def test_commands_that_open_traces_run(
    command: str,
    traces: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(traces)
    monkeypatch.setenv("GAPLESS_CACHE", str(traces / "cache"))
    remote_command = command.replace("s3://bucket/job", f"local://{traces}")  # through fsspec, too
    words = shlex.split(remote_command.replace(" /shared", f" {traces}/shared"))
    assert cli.main(words[1:]) == 0, capsys.readouterr().err
    output = capsys.readouterr()
    assert output.out or output.err


def test_every_command_in_a_block_is_run() -> None:
    assert len(OPENING) > 10
    assert set(RECORDING) | set(AFTERWARDS) <= set(COMMANDS)
    elsewhere = {line for name in STOOD_IN for line in commands(name)}
    elsewhere |= {line for line in IN_BLOCKS if line.startswith("gapless watch --serve")}
    elsewhere |= {*RUN, *commands("fix"), *commands("pack"), *commands("mcp")}
    assert set(IN_BLOCKS) <= {*OPENING, *RECORDING, *AFTERWARDS, *elsewhere, *SENTENCES}


@pytest.mark.slow
def test_commands_that_record_run_and_those_after_them(tmp_path: Path) -> None:
    """One small training, recorded by each command; then what the docs do with the last run."""
    environment = prepare_trainings(tmp_path)
    for command in (*RECORDING, *AFTERWARDS, "gapless demo --no-try"):
        typed = command.replace("runs/ID", "runs/x")
        for absolute in ("/data/runs", "/tmp/pics"):  # noqa: S108 - as the docs write it
            typed = typed.replace(absolute, f"{tmp_path}{absolute}")
        start = run_in_terminal if command in WATCH else run_in_shell
        code, text = start(typed, tmp_path, environment)
        # doctor ends with 1 where a check of this machine is bad
        allowed = {0, 1} if command.startswith("gapless doctor") else {0}
        assert code in allowed, f"{command}: {text[-500:]}"
        assert text or "--quiet" in command, command
    assert all((tmp_path / name).stat().st_size for name in ("run.html", "slow.tar.zst"))


def prepare_trainings(folder: Path) -> dict[str, str]:
    """Write what the docs name, and return the environment for it."""
    text = (ROOT / "src/gapless/demo/train.py").read_text()
    text = text.replace('"--epochs"', '"--epochs", "--steps"')
    text = text.replace("options.pictures)", "min(32, options.pictures))")
    text = text.replace("range(options.epochs)", "range(min(4, options.epochs))")
    for name in ("train.py", "pictures.py"):
        (folder / name).write_text(text)
    (folder / "train.sh").write_text("python train.py --epochs 3\n")
    (folder / "imagenet").mkdir()
    (folder / "imagenet/a.jpg").write_bytes(bytes(1 << 20))
    proven = tuning_object(Tuning(("python", "train.py"), str(folder), "", ()))
    (folder / ".gapless/runs/x").mkdir(parents=True)
    for path in (folder / "tuned.json", folder / ".gapless/runs/x/tuned.json"):
        path.write_text(json.dumps(proven))
    (folder / "venv/bin").mkdir(parents=True)
    (folder / "venv/bin/python").symlink_to(sys.executable)
    return {
        **os.environ,
        "HOME": str(folder),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "GAPLESS_CACHE": str(folder / "cache"),
        "TERM": "xterm-256color",
    }


def run_in_shell(command: str, folder: Path, environment: dict[str, str]) -> tuple[int, str]:
    process = subprocess.run(
        ["/bin/bash", "-c", f"{sys.executable} -m {command}"],
        cwd=folder, env=environment, capture_output=True, check=False, text=True,
    )  # fmt: skip
    return process.returncode, process.stdout + process.stderr


def run_in_terminal(command: str, folder: Path, environment: dict[str, str]) -> tuple[int, str]:
    """Run a command with a screen, and quit it when it has drawn something."""
    ours, theirs = pty.openpty()
    text = b""
    with subprocess.Popen(
        [sys.executable, "-m", *command.split()],
        cwd=folder, env=environment, stdin=theirs, stdout=theirs, stderr=theirs,
    ) as process:  # fmt: skip
        os.close(theirs)
        while process.poll() is None:
            if select.select([ours], [], [], 1.0)[0]:
                with suppress(OSError):  # it has just ended
                    text += os.read(ours, 1 << 16)
            elif text:
                os.write(ours, b"q")
    os.close(ours)
    return process.returncode, text.decode(errors="replace")
