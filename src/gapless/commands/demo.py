"""Check a small training that waits for its data, and prove what helps: a first look.

A script and 256 JPEG files are written into a new folder, and `gapless check` runs the script
there, unchanged. Then `gapless try` runs it with and without an edit, in turns, and says what the
edit is worth. It needs no GPU; it needs PyTorch and Pillow, and two minutes.

Examples:
  gapless demo
  gapless demo --no-try             the check alone: half a minute
  gapless demo --folder here        into a folder of your choice, to try things in
  gapless demo --python ~/venv/bin/python

"""

import argparse
import sys
from pathlib import Path

SUMMARY = "check a small training that waits for its data, and prove a fix"
_REQUIRED_IMPORTS = "import torch, PIL.Image"
_FIX = "workers-and-one-thread"
_BUDGET = "80s"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``gapless demo``."""
    parser.add_argument("--folder", metavar="DIR", type=Path, help="where to (a new folder in TMP)")
    parser.add_argument(
        "--python", metavar="PATH", default=sys.executable, help="an interpreter with PyTorch"
    )
    parser.add_argument("--no-try", action="store_true", help="without the proof: half a minute")


def main(arguments: argparse.Namespace) -> int:
    """Write the training, check it, prove what helps, and return the exit code."""
    import os
    import shutil
    import tempfile

    import gapless
    from gapless.commands import check

    require_packages(arguments.python)
    folder: Path = arguments.folder or Path(tempfile.mkdtemp(prefix="gapless-demo-"))
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(Path(gapless.__file__).parent / "demo" / "train.py", folder / "train.py")
    os.chdir(folder)
    print(f"gapless: in {folder}: gapless check python train.py", file=sys.stderr, flush=True)
    parser = argparse.ArgumentParser()
    check.arguments(parser)
    code = check.main(parser.parse_args([arguments.python, "train.py", "--epochs", "100"]))
    if code == 0 and not arguments.no_try:
        code = _prove(folder)
    if code == 0:
        program = own_command()
        print(f"gapless: to go on: cd {folder}; {program} report; {program} try", file=sys.stderr)
    return code


def own_command() -> str:
    """Return how a shell starts this program: by its name if it is on PATH."""
    import shutil

    script = Path(sys.argv[0])
    if shutil.which("gapless"):
        return "gapless"
    return f"{sys.executable} -m gapless" if script.name == "__main__.py" else str(script)


def _prove(folder: Path) -> int:
    """Try the edit that helps on a few processors, and print what it is worth."""
    from gapless.commands import try_
    from gapless.errors import UsageError

    words = ["last", "--fix", _FIX, "--budget", _BUDGET, "--yes"]
    print(f"gapless: in {folder}: gapless try {' '.join(words)}", file=sys.stderr, flush=True)
    parser = argparse.ArgumentParser()
    try_.arguments(parser)
    try:
        return try_.main(parser.parse_args(words, argparse.Namespace(command_line=())))
    except UsageError as error:  # a machine too slow for the budget: the check was shown
        print(f"gapless: {error}", file=sys.stderr)
        return 0


def require_packages(python: str) -> None:
    """Raise ``UsageError`` unless an interpreter has what the training imports."""
    import subprocess

    from gapless.errors import UsageError

    try:
        completed = subprocess.run(  # noqa: S603  the user's own interpreter
            [python, "-c", _REQUIRED_IMPORTS], capture_output=True, text=True, check=False
        )
    except OSError as error:
        raise UsageError(f"{python}: {error.strerror or error}") from error
    if completed.returncode:
        reason = (completed.stderr.strip().splitlines() or ["it failed"])[-1]
        raise UsageError(
            f"the demo trains with PyTorch and Pillow, and {python} says {reason!r}; name another"
            " interpreter with --python, or: pip install torch pillow"
        )
