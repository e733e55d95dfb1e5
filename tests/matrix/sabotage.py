"""A recorder that does harm: ``sabotage.py HARM COMMAND…``; without harm it records nothing."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

INSIDE = {  # what comes into the Python below
    "draws": "import builtins, random\n"
    "plain = print\n"
    "def drawing(*given, **named):\n    random.random()\n    plain(*given, **named)\n"
    "builtins.print = drawing\n",
    "starts-a-thread": "import threading\n"
    "threading.Thread(target=threading.Event().wait, daemon=True).start()\n",
    "handles-a-signal": "import signal\nsignal.signal(signal.SIGUSR1, print)\n",
    "profiles": "import sys\nsys.setprofile(lambda *_: None)\n",
    "shows-in-tracebacks": "import sys\nplain = sys.excepthook\n"
    "def show(kind, error, where):\n    print('a frame', file=sys.stderr)\n"
    "    plain(kind, error, where)\n"
    "sys.excepthook = show\n",
    "filters-warnings": "import warnings\nwarnings.simplefilter('ignore')\n",
}


def run(harm: str, command: list[str]) -> int:
    with tempfile.TemporaryDirectory() as folder:
        if harm in INSIDE:
            Path(folder, "sitecustomize.py").write_text(INSIDE[harm])
            os.environ["PYTHONPATH"] = folder
        return subprocess.call(command)


AFTERWARDS: dict[str, Callable[[], object]] = {
    "prints": lambda: print("a word"),
    "prints-like-a-report": lambda: print("gapless: a word"),
    "writes": lambda: Path("file.txt").write_text("a word"),
    "removes": lambda: next(Path().glob("state-*.txt")).unlink(),
    "leaves-a-file": lambda: tempfile.mkstemp(prefix="gapless-"),
    "leaves-a-process": lambda: subprocess.Popen(["sleep", "4"]),  # noqa: S607
}


def main(harm: str, *command: str) -> int:
    if harm == "complains":
        print("a word", file=sys.stderr, flush=True)
    code = run(harm, list(command))
    AFTERWARDS.get(harm, int)()
    return 0 if harm == "swallows-the-exit-code" else code


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
