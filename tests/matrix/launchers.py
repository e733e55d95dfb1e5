"""How people start trainings. Each gives a command line and what it needs in the environment."""

import os
import socket
import subprocess
import sys
import sysconfig
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from threading import Lock

PYTHON = os.environ.get("GAPLESS_MATRIX_PYTHON", sys.executable)  # with accelerate and its like
Start = tuple[list[str], dict[str, str]]
_PREPARE_LOCK = Lock()  # both runs of a row are prepared at once


@dataclass(frozen=True)
class RowFolders:
    """Where a training runs, and where things lie that many rows need."""

    folder: Path
    shared: Path


def packages_without_gapless(shared: Path) -> Path:
    """Return a folder of all that is installed here but gapless."""
    folder = shared / "packages"
    if not folder.exists():
        folder.mkdir(parents=True)
        for path in Path(sysconfig.get_path("purelib")).iterdir():
            if "gapless" not in path.name and path.suffix not in {".pth", ".pyc"}:
                (folder / path.name).symlink_to(path)
    return folder


def python_of_other_venv(shared: Path) -> str:
    """Return the Python of a virtual environment in which gapless is not installed."""
    folder = shared / "venv"
    python = str(folder / "bin" / "python")
    if not folder.exists():
        packages = packages_without_gapless(shared)
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
        (site,) = folder.glob("lib/python3*/site-packages")
        (site / "torch.pth").write_text(f"{packages}\n")
    process = subprocess.run([python, "-c", "import gapless"], capture_output=True, check=False)
    assert b"No module named 'gapless'" in process.stderr
    return python


def launch_command(name: str, folders: RowFolders, arguments: list[str]) -> Start:
    """Return the command line of a launcher, run in a place, and what it adds to variables."""
    if name in _SIMPLE:
        return [PYTHON, *_SIMPLE[name], *arguments], {}
    with _PREPARE_LOCK:
        return _SPECIAL[name](folders, arguments)


_TORCHRUN = ["torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
_SIMPLE: dict[str, list[str]] = {
    "script": ["training.py"],
    "module": ["-m", "package.train"],
    "warnings-as-errors": ["-W", "error", "training.py"],
    "development-mode": ["-X", "dev", "training.py"],
    "optimised": ["-OO", "training.py"],
    "isolated": ["-I", "in_place.py"],
    "ignores-environment": ["-E", "training.py"],
    "distributed-run": ["-m", *_TORCHRUN, "training.py"],
    "accelerate": [
        *["-m", "accelerate.commands.launch", "--num_processes", "1", "--cpu"],
        "training.py",
    ],
}


def _command(_folders: RowFolders, arguments: list[str]) -> Start:
    return [PYTHON, "-c", f"import training; training.main({arguments!r})"], {}


def _stdin(_folders: RowFolders, arguments: list[str]) -> Start:
    return ["sh", "-c", f"{PYTHON} - {' '.join(arguments)} < training.py"], {}


def _archive(folders: RowFolders, arguments: list[str]) -> Start:
    with zipfile.ZipFile(folders.folder / "training.zip", "w") as archive:
        for path in sorted(folders.folder.glob("*.py")):
            name = "__main__.py" if path.name == "training.py" else path.name
            archive.writestr(zipfile.ZipInfo(name), path.read_bytes())
    return [PYTHON, "training.zip", *arguments], {}


def _shell(_folders: RowFolders, arguments: list[str]) -> Start:
    return ["bash", "run.sh", *arguments], {"PYTHON": PYTHON}


def _ranks(_folders: RowFolders, arguments: list[str]) -> Start:
    return ["bash", "ranks.sh", *arguments], {"PYTHON": PYTHON}


def _parent(_folders: RowFolders, arguments: list[str]) -> Start:
    return [PYTHON, "parent.py", *arguments], {}


def _timeout(_folders: RowFolders, arguments: list[str]) -> Start:
    return ["timeout", "90", "nice", PYTHON, "-u", "training.py", *arguments], {}


def _torchrun(_folders: RowFolders, arguments: list[str]) -> Start:
    torchrun = str(Path(PYTHON).with_name("torchrun"))
    return [torchrun, *_TORCHRUN[1:], "training.py", *arguments], {}


def _distributed_launch(_folders: RowFolders, arguments: list[str]) -> Start:
    line = ["-m", "torch.distributed.launch", *_TORCHRUN[1:], "training.py"]
    # It warns that torchrun follows it, with torch's own line; and is told to use variables.
    return [PYTHON, "-W", "ignore", *line[:2], "--use-env", *line[2:], *arguments], {}


def _start_deepspeed(_folders: RowFolders, arguments: list[str]) -> Start:
    with socket.socket() as free:  # both runs of a row may be under way at once
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    line = ["-m", "deepspeed.launcher.runner", "--num_gpus", "1", "--master_port", port]
    return [PYTHON, *line, "--no_local_rank", "training.py", *arguments], {}


def _other_venv(folders: RowFolders, arguments: list[str]) -> Start:
    return [python_of_other_venv(folders.shared), "training.py", *arguments], {}


def _with_site_modules(folders: RowFolders, arguments: list[str]) -> Start:
    """Start a Python outside of any environment, with all that a user may lay on its path."""
    own_packages = folders.folder / "own"
    own_packages.mkdir()
    for name in ("sitecustomize", "usercustomize"):
        (own_packages / f"{name}.py").write_text(
            # gapless, too, is a Python that is started with what the user set.
            f"import sys\nif 'gapless' not in sys.orig_argv:\n    print({name!r})\n"
        )
    path = os.pathsep.join(map(str, (own_packages, packages_without_gapless(folders.shared))))
    return [str(vars(sys)["_base_executable"]), "training.py", *arguments], {"PYTHONPATH": path}


def _safe_path(folders: RowFolders, arguments: list[str]) -> Start:
    return [PYTHON, "training.py", *arguments], {
        "PYTHONSAFEPATH": "1",
        "PYTHONPATH": str(folders.folder),
    }


def _quiet_kineto(_folders: RowFolders, arguments: list[str]) -> Start:
    """Start a training that profiles itself: torch then prints two lines, which we silence."""
    return [PYTHON, "training.py", *arguments], {"KINETO_LOG_LEVEL": "99"}


def _no_environment(_folders: RowFolders, arguments: list[str]) -> Start:
    return ["env", "-i", PYTHON, "training.py", *arguments], {}


def _no_site(folders: RowFolders, arguments: list[str]) -> Start:
    return [PYTHON, "-S", "training.py", *arguments], {
        "PYTHONPATH": str(packages_without_gapless(folders.shared))
    }


def _no_python(_folders: RowFolders, _arguments: list[str]) -> Start:
    return ["sh", "-c", "echo out; echo err >&2; echo written > file.txt; exit 4"], {}


_SPECIAL: dict[str, Callable[[RowFolders, list[str]], Start]] = {
    "command": _command,
    "stdin": _stdin,
    "archive": _archive,
    "shell": _shell,
    "ranks": _ranks,
    "parent": _parent,
    "timeout": _timeout,
    "torchrun": _torchrun,
    "distributed-launch": _distributed_launch,
    "deepspeed": _start_deepspeed,
    "other-venv": _other_venv,
    "customised": _with_site_modules,
    "safe-path": _safe_path,
    "quiet-kineto": _quiet_kineto,
    "no-environment": _no_environment,
    "no-site": _no_site,
    "no-python": _no_python,
}
