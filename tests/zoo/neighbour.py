"""A program of somebody else's that computes on the same GPU, as on a machine that is shared."""

import os
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import Final

STARTED_VARIABLE: Final = (
    "ZOO_NEIGHBOUR"  # set: one is there already, and was started by somebody else
)
# It is started by a program that ends at once, so that it is nobody's child, and ends with us.
_WORK_CODE: Final = """
import os, sys, torch
mine = torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16)
print(os.getpid(), flush=True)
while os.path.exists(f"/proc/{sys.argv[1]}"):
    for _ in range(20):
        mine @ mine
    torch.cuda.synchronize()
"""
_START_CODE: Final = """
import subprocess, sys
child = subprocess.Popen(
    [sys.executable, "-c", sys.argv[2], sys.argv[1]],
    stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, start_new_session=True,
)
print(child.stdout.readline().strip(), flush=True)
"""
_OWN_PREFIXES: Final = ("PYTHONPATH", "GAPLESS")


@contextmanager
def neighbour(*, is_wanted: bool) -> Generator[None]:
    """Let somebody compute on the GPU meanwhile, if asked to.

    Of a run that is recorded all its descendants are part: for that, start it beside the run, and
    set ``BESIDE`` for the run.
    """
    if not is_wanted or STARTED_VARIABLE in os.environ:
        yield
        return
    plain = {name: text for name, text in os.environ.items() if not name.startswith(_OWN_PREFIXES)}
    line = [sys.executable, "-c", _START_CODE, str(os.getpid()), _WORK_CODE]
    process = subprocess.run(line, env=plain, capture_output=True, text=True, check=True)
    pid = int(process.stdout)  # nothing, if it could not compute: then the case is no case
    try:
        yield
    finally:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
