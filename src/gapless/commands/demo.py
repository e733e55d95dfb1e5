"""Check a small training that waits for its data, and print what is found: a first look.

A script and 256 JPEG files are written into a new folder, and `gapless check` runs the script
there, unchanged. It needs no GPU; it needs PyTorch and Pillow, and half a minute.

Examples:
  gapless demo
  gapless demo --folder here        into a folder of your choice, to try things in
  gapless demo --python ~/venv/bin/python

"""

import argparse
import sys
from pathlib import Path

SUMMARY = "check a small training that waits for its data: a first look"
_NEEDED = "import torch, PIL.Image"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``gapless demo``."""
    parser.add_argument("--folder", metavar="DIR", type=Path, help="where to (a new folder in TMP)")
    parser.add_argument(
        "--python", metavar="PATH", default=sys.executable, help="an interpreter with PyTorch"
    )


def main(arguments: argparse.Namespace) -> int:
    """Write the training, check it, and give the exit code."""
    import os
    import shutil
    import tempfile

    import gapless
    from gapless.commands import check

    require(arguments.python)
    folder: Path = arguments.folder or Path(tempfile.mkdtemp(prefix="gapless-demo-"))
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(Path(gapless.__file__).parent / "demo" / "train.py", folder / "train.py")
    os.chdir(folder)
    print(f"gapless: in {folder}: gapless check python train.py", file=sys.stderr, flush=True)
    parser = argparse.ArgumentParser()
    check.arguments(parser)
    code = check.main(parser.parse_args([arguments.python, "train.py", "--epochs", "100"]))
    if code == 0:
        print(f"gapless: to go on: cd {folder}; gapless report; edit train.py", file=sys.stderr)
    return code


def require(python: str) -> None:
    """Raise ``UsageError`` unless an interpreter has what the training imports."""
    import subprocess

    from gapless.errors import UsageError

    try:
        done = subprocess.run(  # noqa: S603  the user's own interpreter
            [python, "-c", _NEEDED], capture_output=True, text=True, check=False
        )
    except OSError as error:
        raise UsageError(f"{python}: {error.strerror or error}") from error
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["it failed"])[-1]
        raise UsageError(
            f"the demo trains with PyTorch and Pillow, and {python} says {last!r}; name another"
            " interpreter with --python, or: pip install torch pillow"
        )
