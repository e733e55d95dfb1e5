"""What `gapless export` gives of five models: files, parity, and calls in turns with the model.

``PYTHONPATH=src python -m benchmarks.exported_models --out FILE`` catches each model of
``trainings/models_out.py`` (a multilayer perceptron, a small convolutional network, a transformer
encoder, a GRU, and one that branches on data). Needs torch, and onnx, onnxscript and onnxruntime
for ONNX. ``--within`` ends it after so many seconds, with the models that were done until then.
"""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from benchmarks.machine import machine, versions, write_result
from gapless.export.catching import EVALUATION, FORMATS, ExportPlan
from gapless.export.measuring import ExportTask, export_model

SCRIPT: Final = Path(__file__).parent / "trainings/models_out.py"
MODELS: Final = ("encoder", "cnn", "early-exit", "mlp", "gru")
_STEPS: Final = 50


def measure(
    model: str, formats: Sequence[str], seconds: float, words: Sequence[str]
) -> dict[str, Any]:
    """Return what was exported of a model, as ``--json`` has it."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        plan = ExportPlan(
            command=(sys.executable, str(SCRIPT), model, *words),
            folder=folder,
            has_private_view=False,
            formats=tuple(formats),
            out=folder / "out",
            moment=EVALUATION,
            steps=_STEPS,
            seconds=seconds,
        )
        export = export_model(ExportTask(plan, None), lambda words: print("  ", words))
    document = json.loads(msgspec.json.encode(export).replace(name.encode(), b""))
    document["command"] = [SCRIPT.name, model, *words]
    for way in document["ways"]:
        place = (way.get("failure") or {}).get("location")
        if place:
            place["file"] = Path(place["file"]).name
    if document["subject"] and document["subject"]["location"]:
        document["subject"]["location"]["file"] = SCRIPT.name
    return document


def main() -> None:
    """Measure all models, and write after each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--to", nargs="+", choices=FORMATS, default=FORMATS)
    parser.add_argument("--models", nargs="+", choices=MODELS, default=MODELS)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--within", type=float, default=float("inf"))
    parser.add_argument("--wide", action="store_true")
    arguments = parser.parse_args()
    began, models = time.monotonic(), dict[str, Any]()
    for model in arguments.models:
        if time.monotonic() - began > arguments.within:
            print(f"{model}: left out, the time is over")
            continue
        start = time.monotonic()
        words = ["--wide"] * arguments.wide
        models[model] = measure(model, arguments.to, arguments.seconds, words)
        print(f"{model}: {time.monotonic() - start:.0f} s")
        versioned = {**machine(), "torch": versions(("torch",))["torch"]}
        write_result({"machine": versioned, "models": models}, arguments.out)


if __name__ == "__main__":
    main()
