"""Train a tiny model with windows alone, in a process of its own; print what it then finds.

``train_with_windows.py STEPS [WISH …]``: the wishes are what a test wants to see happen.
"""

import _thread
import contextlib
import gc
import json
import os
import signal
import sys
import threading
import time
from types import FrameType
from typing import Any

import torch
from torch._C import _autograd

from gapless import wire
from gapless.payload import boot, declare, recorder, windows
from gapless.payload.hooks import profilers
from gapless.payload.process_state import STATE

STEPS = int(sys.argv[1])
WISH_PAIRS = [wish.split("=") for wish in sys.argv[2:]]
WISHES = {
    pair[0]: int(pair[-1]) if len(pair) > 1 else -1 for pair in WISH_PAIRS
}  # what, which step
is_profiling = vars(_autograd)["_profiler_enabled"]
RESULTS: dict[str, Any] = {"waits": [], "signals": 0, "threads": threading.active_count()}


def fork() -> None:
    pid = os.fork()
    if pid == 0:
        os._exit(7 if is_profiling() else 0)
    RESULTS["child"] = os.waitpid(pid, 0)[1]


def profile() -> None:
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as prof:
        torch.zeros(1)
    RESULTS["user's events"] = len(prof.events() or ())


def wait() -> None:
    """Wait for any child, again and again, while a window is being saved."""
    deadline = time.monotonic() + 0.8
    while time.monotonic() < deadline:
        with contextlib.suppress(ChildProcessError):
            RESULTS["waits"].append(os.waitpid(-1, os.WNOHANG))


def overdue() -> None:
    session = vars(windows)["_windows"].session
    session.open.deadline = 0
    with windows.range("gapless:eval"):
        pass


def stuck(libc: object) -> None:  # noqa: ARG001 - the form of what it stands for
    time.sleep(60)


def hang() -> None:
    """Let children get stuck, as on a lock that another thread held."""
    save = sys.modules["gapless.payload.windows.save"]
    vars(save)["LIMIT_S"] = 0.2
    vars(save)["_die_first"] = stuck


def threads() -> None:
    def spin() -> None:
        while "random" not in RESULTS:  # the training has not come to its end
            pass

    for _ in range(2):
        _thread.start_new_thread(spin, ())


def nap() -> None:
    time.sleep(0.25)


def brisk() -> None:
    """Let no step be long, however busy the machine is."""
    vars(sys.modules["gapless.payload.windows.open_window"])["TELLS_NS"] = 1 << 62


def quit() -> None:  # noqa: A001 - the name of the wish
    boot.finish("os._exit")
    os._exit(3)


def setprofile() -> None:
    def look(frame: FrameType, event: str, arg: object) -> None:
        """Look at a call."""

    sys.setprofile(look)


def on_child(number: int, frame: object) -> None:  # noqa: ARG001 - the form of handlers
    RESULTS["signals"] += 1


def train(*, recorded: bool) -> None:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(32, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(STEPS):
        with windows.range("gapless:iter"):
            batch = torch.randn(16, 32)
        optimizer.zero_grad()
        model(batch).pow(2).mean().backward()
        start = recorder.now()
        optimizer.step()
        end = recorder.now()
        if recorded:
            recorder.mark(wire.STEP, start, end, 0, step)
            recorder.edge(step, start, end)
            recorder.flush_when_due()
        for wish, wish_step in WISHES.items():
            if wish_step == step:
                globals()[wish]()


def main() -> None:
    torch.set_num_threads(1)
    signal.signal(signal.SIGCHLD, on_child)
    recorded = "plain" not in WISHES
    if recorded:
        STATE.watch_forks()
        declare.install(windows, recorder)
        declare.install(profilers, recorder)
    users_profile = sys.getprofile()
    train(recorded=recorded)
    RESULTS["same profile function"] = sys.getprofile() is users_profile
    RESULTS["collects"] = gc.isenabled()
    RESULTS["blocked"] = len(signal.pthread_sigmask(signal.SIG_BLOCK, ()))
    RESULTS["profiling"] = is_profiling()
    RESULTS["random"] = torch.rand(1).item()
    RESULTS["more threads"] = threading.active_count() - RESULTS.pop("threads")
    if "over" in WISHES:
        windows.finish()
        recorder.end("exit")
    elif recorded:
        time.sleep(0.3)
        recorder.edge(STEPS, recorder.now(), recorder.now())
        recorder.end("exit")
    print(json.dumps(RESULTS))


if __name__ == "__main__":
    main()
