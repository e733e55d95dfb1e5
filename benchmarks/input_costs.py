"""What `gapless data` foretells of a step with draft decoding, and what such a step takes.

``PYTHONPATH=src python -m benchmarks.input_costs --out FILE`` records ``trainings/photos.py`` and
the training of `gapless demo`, measures their input, and runs each with Pillow's draft mode in its
data set and without, in turns. Needs torch and Pillow, and some four minutes of processors that
nobody else uses.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

import gapless
from benchmarks.machine import machine, write_result

ROOT: Final = Path(__file__).parents[1]
SCRIPTS: Final = {
    "photos": (ROOT / "benchmarks/trainings/photos.py", "Image.open(self.files[i])"),
    "demo": (Path(gapless.__file__).parent / "demo/train.py", "Image.open(path)"),
}
DRAFT: Final = """
def draft(image):
    image.draft("RGB", (128, 96))
    return image


"""
SECONDS: Final = 30
EPOCHS: Final = 12
ROUNDS: Final = 3


def run_gapless(folder: Path, *words: str) -> str:
    """Run a command of gapless in a folder; return what it prints."""
    command = [sys.executable, "-m", "gapless", *words]
    process = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if process.returncode:
        raise SystemExit(f"{' '.join(words)}: {process.stderr}")
    return process.stdout


def write_drafted(script: Path, call: str, target: Path) -> None:
    """Write a training whose pictures are decoded at a quarter of their size."""
    text = script.read_text(encoding="utf-8").replace(call, f"draft({call})")
    target.write_text(text.replace("class ", f"{DRAFT}class ", 1), encoding="utf-8")


def time_epochs(folder: Path, script: str) -> float:
    """Return the seconds of a training's epochs: the difference of two lengths, start left out."""
    took: list[float] = []
    for epochs in (1, EPOCHS):
        began = time.monotonic()
        words = [sys.executable, script, "--epochs", str(epochs)]
        subprocess.run(words, cwd=folder, check=True, stdout=subprocess.DEVNULL)
        took.append(time.monotonic() - began)
    return took[1] - took[0]


def measure(name: str, folder: Path) -> dict[str, Any]:
    """Return what is foretold of a training with draft mode, and what it gains."""
    script, call = SCRIPTS[name]
    (folder / "plain.py").write_bytes(script.read_bytes())
    write_drafted(script, call, folder / "drafted.py")
    run_gapless(folder, "run", "--quiet", sys.executable, "plain.py", "--epochs", str(EPOCHS))
    document = json.loads(run_gapless(folder, "data", "--yes", "--json", "--seconds", str(SECONDS)))
    (foretold,) = [
        cost["step_speedup"]
        for cost in document["input"]["costs"]
        if cost["way"].startswith("Pillow, draft") and cost["stage"] == "decode"
    ]
    rounds = [
        (time_epochs(folder, "plain.py"), time_epochs(folder, "drafted.py")) for _ in range(ROUNDS)
    ]
    ratios = [plain / drafted for plain, drafted in rounds]
    return {
        "foretold": foretold,
        "measured": {"mid": statistics.median(ratios), "rounds": ratios},
        "input": document["input"],
    }


def main() -> None:
    """Measure all of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--only", choices=SCRIPTS, nargs="*", default=list(SCRIPTS))
    options = parser.parse_args()
    folders = (str(ROOT / "src"), str(ROOT), os.environ.get("PYTHONPATH", ""))
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, folders))
    results: dict[str, Any] = {"machine": machine()}
    for name in options.only:
        with tempfile.TemporaryDirectory() as folder:
            results[name] = measure(name, Path(folder))
        result = results[name]
        print(name, "foretold", result["foretold"], "measured", result["measured"], flush=True)
    write_result(results, options.out)


if __name__ == "__main__":
    main()
