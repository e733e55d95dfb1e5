"""Run scripts in children of a Python that has imported torch: each saves the seconds it takes.

A child is forked before anything but the import has happened. Its folder, variables, arguments and
streams are its own; a script that comes to its end ends as Python does. For one that the recorder
enters from its first line on there is ``tests.payload.watching.watched``, which starts Python anew.
"""

import atexit
import functools
import json
import os
import select
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

LIMIT_S = 240.0
_PARENT = """
import atexit, json, os, runpy, sys, threading
if os.fork():
    os._exit(0)  # nobody's child: tests count those of theirs
import torch, torch._dynamo, torch.profiler
for line in sys.stdin:
    order = json.loads(line)
    child = os.fork()
    if not child:
        break
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
else:
    sys.exit()
os.chdir(order["folder"])
for number, (path, how) in enumerate(order["streams"]):
    file = os.open(path, how, 0o600)
    os.dup2(file, number)
    os.close(file)
os.environ.clear()
os.environ.update(order["variables"])
sys.argv = order["words"]
sys.path[0] = os.path.dirname(os.path.abspath(sys.argv[0]))
runpy.run_path(sys.argv[0], run_name="__main__")
threading._shutdown()
atexit._run_exitfuncs()
sys.stdout.flush()
os._exit(0)  # to take torch's modules apart takes a second
"""


class ScriptResult(NamedTuple):
    """What can be seen of a command from outside."""

    code: int
    out: str
    err: str


def run(words: Sequence[str], folder: Path, variables: Mapping[str, str]) -> ScriptResult:
    """Run a script with its arguments."""
    with tempfile.TemporaryDirectory() as temp_folder:
        streams = [(os.devnull, os.O_RDONLY)]
        streams += [(f"{temp_folder}/{name}", os.O_WRONLY | os.O_CREAT) for name in ("out", "err")]
        request = {
            "words": list(words),
            "folder": str(folder),
            "variables": dict(variables),
            "streams": streams,
        }
        code = _ask(json.dumps(request))
        return ScriptResult(code, *(Path(path).read_text() for path, _ in streams[1:]))


def _ask(line: str) -> int:
    parent = _start_parent()
    assert parent.stdin is not None
    assert parent.stdout is not None
    parent.stdin.write(line.encode() + b"\n")
    parent.stdin.flush()
    ready, _, _ = select.select([parent.stdout], [], [], LIMIT_S)
    assert ready, f"it was not done after {LIMIT_S} s: {line}"
    return int(parent.stdout.readline())


@functools.cache
def _start_parent() -> subprocess.Popen[bytes]:
    """Start it once; it ends when its standard input does, with this process at the latest."""
    user_variables = {
        name: value for name, value in os.environ.items() if not name.startswith("GAPLESS_")
    }
    start_variables = {"KINETO_LOG_LEVEL": "99", "OMP_NUM_THREADS": "1"}
    parent = subprocess.Popen(
        [sys.executable, "-c", _PARENT],
        env={**user_variables, **start_variables},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    parent.wait()
    atexit.register(parent.communicate)
    return parent
