"""Windows record all threads only where no other one may be inside of an operator at their end."""

import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from gapless.payload.windows import capture

# It returns while a window is open, which the first thread then closes at the process's end.
_IN_A_THREAD = """
import sys, threading, time

def find_windows():
    return next((m for n, m in list(sys.modules.items()) if n.endswith("payload.windows")), None)

def train():
    import torch
    from torch import nn
    torch.set_num_threads(1)
    model = nn.Sequential(*[nn.Linear(64, 64) for _ in range(8)])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(400):
        optimizer.zero_grad()
        model(torch.randn(512, 64)).square().mean().backward()
        optimizer.step()
        time.sleep(0.01)
        if find_windows() is not None and find_windows().is_tracing():
            print("ends in a window")
            return

thread = threading.Thread(target=train)
thread.start()
thread.join()
"""


def frame_in(file: str) -> SimpleNamespace:
    return SimpleNamespace(f_code=SimpleNamespace(co_filename=f"/lib/{file}"))


class TMonitor(SimpleNamespace):
    """A thread of progress bars, by its class."""


@pytest.mark.parametrize(
    ("others", "may_compute"),
    [
        ([], False),
        ([SimpleNamespace(name="Thread-3 (_pin_memory_loop)")], True),
        ([SimpleNamespace(name="prefetch")], True),
        ([SimpleNamespace(name="QueueFeederThread"), TMonitor(name="Thread-1")], False),
    ],
)
def test_other_threads_of_python_are_known(
    others: list[SimpleNamespace], may_compute: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    this = threading.get_ident()
    threads = {this: threading.current_thread()} | dict(enumerate(others, this + 1))
    monkeypatch.setattr(threading, "_active", threads)
    monkeypatch.setattr(
        sys, "_current_frames", lambda: dict.fromkeys(threads, frame_in("train.py"))
    )
    assert capture.others_may_compute() == may_compute
    monkeypatch.setattr(sys, "_current_frames", dict[int, SimpleNamespace])
    assert not capture.others_may_compute()  # they have ended


@pytest.mark.parametrize(("file", "may_compute"), [("threading.py", False), ("main.py", True)])
def test_the_first_thread_does_not_count_while_it_waits(
    file: str, may_compute: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, other = threading.main_thread().ident, SimpleNamespace(name="MainThread")
    monkeypatch.setattr(threading, "get_ident", lambda: -1)
    monkeypatch.setattr(threading, "_active", {first: other})
    monkeypatch.setattr(sys, "_current_frames", lambda: {first: frame_in(file)})
    assert capture.others_may_compute() == may_compute


def test_a_training_in_another_thread_may_end_in_a_window(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(_IN_A_THREAD)
    command = [sys.executable, "-m", "gapless", "run", "--quiet", "python", str(script)]
    process = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stderr
    assert "ends in a window" in process.stdout


def test_beside_another_thread_a_window_is_of_the_training_thread_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(capture, "others_may_compute", lambda: True)
    window = capture.ProfilerCapture(stacks=False)
    assert (window.all_threads, window.alone) == (False, capture.OTHERS_COMPUTE)
    window.stop()
