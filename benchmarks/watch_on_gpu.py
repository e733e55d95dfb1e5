"""Keep what gapless watch and attach show of an ordinary training on a GPU.

``PYTHONPATH=src python -m benchmarks.watch_on_gpu FOLDER`` starts a training under ``gapless run``,
looks at it with ``gapless watch --once`` (JSON, and text of 80 and 140 columns) and at the machine,
asks the recorder for a window, and looks with ``gapless attach`` at a training that nobody records.
What each printed goes into FOLDER; ``summary.json`` says what was seen and what was missing. Below
60 s; without a GPU the training runs on the processors.
"""

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from benchmarks.machine import machine, write_result
from gapless.live.asking import ask_for_window
from gapless.live.view import RunView
from gapless.live.watching import RunWatcher
from gapless.store.run import runs

Document = Mapping[str, Any]
WARM_UP_S: Final = 12.0  # of the recorded training: imports, its first windows
WINDOW_S: Final = 15.0  # that a window may take which was asked for
ATTACH_S: Final = 5.0
GPU_FIGURES: Final = (
    "sm",
    "memory_used",
    "power",
    "clock_sm",
    "temperature",
    "pcie_rx",
    "throttle",
)
TRAINING: Final = """
import time, torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

class Pictures(Dataset):
    def __len__(self):
        return 1 << 20

    def __getitem__(self, index):
        time.sleep(0.0005)
        return torch.randn(3, 64, 64), index % 10

def main():
    device = "cuda" if torch.cuda.is_available() else "cpu"
    width = 128 if device == "cuda" else 8
    model = nn.Sequential(
        nn.Conv2d(3, width, 3, 2), nn.ReLU(), nn.Conv2d(width, width, 3, 2), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 10),
    ).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    loader = DataLoader(Pictures(), batch_size=64, num_workers=2, pin_memory=device == "cuda")
    for step, (pictures, classes) in enumerate(loader):
        optimizer.zero_grad()
        pictures, classes = pictures.to(device, non_blocking=True), classes.to(device)
        nn.functional.cross_entropy(model(pictures), classes).backward()
        optimizer.step()
        if step == 5:
            print("training", flush=True)

if __name__ == "__main__":
    main()
"""


@contextmanager
def training(folder: Path, prefix: Sequence[str] = ()) -> Generator[subprocess.Popen[str]]:
    """Run the training in a folder until the block is left; it has made some steps then."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "train.py").write_text(TRAINING, encoding="utf-8")
    command = [*prefix, sys.executable, "train.py"]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True) as process:
        try:
            if process.stdout is None or process.stdout.readline().strip() != "training":
                sys.exit(f"the training ended before it trained: {' '.join(command)}")
            yield process
        finally:
            process.terminate()


def keep(folder: Path, lines: Mapping[str, str]) -> dict[str, Document]:
    """Run gapless several times at once; keep in a file each what it printed, return the JSON."""
    processes = {
        name: subprocess.Popen(
            [sys.executable, "-m", "gapless", *line.split()],
            cwd=folder,
            stdout=subprocess.PIPE,
            text=True,
        )
        for name, line in lines.items()
    }
    documents: dict[str, Document] = {}
    for name, process in processes.items():
        text, _ = process.communicate()
        (folder / name).write_text(text, encoding="utf-8")
        if process.returncode:
            sys.exit(f"gapless {lines[name]}: exit code {process.returncode}")
        if name.endswith(".json"):
            documents[name] = json.loads(text)
    return documents


def await_window(place: Path) -> dict[str, object]:
    """Ask the recorder of the run for a window; return what it said, and when it was there."""
    watcher = RunWatcher(runs.find(place, runs.LAST_RUN))

    def look() -> RunView | None:
        return watcher.look().run

    before = look()
    sentence, is_asked = ask_for_window(before)
    began_s, answer = time.monotonic(), dict[str, object](sentence=sentence, took_s=None)
    while is_asked and before is not None and time.monotonic() - began_s < WINDOW_S:
        time.sleep(0.25)
        run = look()
        if run is not None and run.windows > before.windows:
            return answer | {"took_s": round(time.monotonic() - began_s, 1)}
    return answer


def watch(folder: Path) -> dict[str, object]:
    """Watch a recorded training; return what was seen of it, and the GPU figures that lacked."""
    with training(folder, (sys.executable, "-m", "gapless", "run", "--quiet")):
        time.sleep(WARM_UP_S)
        texts = {f"watch-{width}.txt": f"watch --once --width {width}" for width in (80, 140)}
        texts["machine-140.txt"] = "watch --machine --once --width 140"
        objects = {
            "watch.json": "watch --once --json",
            "machine.json": "watch --machine --once --json",
        }
        documents = keep(folder, texts | objects)
        window = await_window(folder / ".gapless" / "runs")
    view, whole = (documents[name]["view"] for name in objects)
    run, figures = view["run"], view["machine"]
    gpus = sorted(view["gpu_names"])
    processes = [process for process in whole["processes"] if process["is_training"]]
    return {
        "gpus": view["gpu_names"],
        "cause": run["cause"],
        "steps": run["steps"],
        "windows": run["windows"],
        "groups": (run["account"] or {}).get("groups"),
        "missing": [f"{gpu}.{name}" for gpu in gpus for name in GPU_FIGURES
                    if f"{gpu}.{name}" not in figures],
        "notes": view["notes"],
        "trainings_on_gpu": sum(process["gpu_memory"] is not None for process in processes),
        "gpu_busy": [process["gpu_busy"] for process in processes],
        "window": window,
    }  # fmt: skip


def attach(folder: Path) -> Document:
    """Attach to a training that nobody records; return what was seen of it."""
    with training(folder) as process:
        line = f"attach {process.pid} --seconds {ATTACH_S}"
        lines = {"attach.json": f"{line} --json", "attach.txt": f"{line} --width 100"}
        attached = keep(folder, lines)["attach.json"]["attached"]
        is_running = process.poll() is None
    keys = ("reading", "gpus", "lines", "notes", "exact")
    return {key: attached[key] for key in keys} | {
        "workers": len(attached["workers"]),
        "runs_on": is_running,
    }


def main() -> None:
    """Watch one training, attach to another, and say what was seen."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    options = parser.parse_args()
    began_s = time.monotonic()
    folder: Path = options.folder.absolute()
    watched, attached = watch(folder / "watched"), attach(folder / "attached")
    took_s = round(time.monotonic() - began_s, 1)
    result = {"machine": machine(), "took_s": took_s, "watch": watched, "attach": attached}
    print(write_result(result, folder / "summary.json"))


if __name__ == "__main__":
    main()
