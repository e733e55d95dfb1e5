"""A shape's training with the edits applied from outside, and patched: whether facts agree."""

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from benchmarks.patching.shape import SCRIPT, Shape
from gapless.apply.patching import make_patch
from gapless.model.edit import edit_to_json
from gapless.model.facts import Facts
from gapless.recorded.facts import facts
from gapless.store.run.recordings import load

_PATIENCE_S: Final = 180
_LOADER: Final = [
    "batch_size",
    "num_workers",
    "prefetch_factor",
    "pin_memory",
    "persistent_workers",
    "in_order",
    "shuffle",
]
_OPTIMIZER: Final = ["name", "foreach", "fused", "calls"]
_MODEL: Final = ["name", "channels_last", "compiled", "checkpoints"]


class RunError(Exception):
    """A training that did not run."""


def compare(shape: Shape, folder: Path, before: Mapping[str, object]) -> dict[str, object]:
    """Return what becomes of a shape: refused and why, or whether both ways are the same.

    ``before``: its row in the last result, which is kept if the files are the same to the byte.
    """
    folder = folder.resolve()
    plain, patched = folder / "plain", folder / "patched"
    fix = shape.fix(plain)
    sources = shape.sources(plain)
    patch = make_patch([fix], sources, plain / SCRIPT)
    row: dict[str, object] = {"shape": shape.name, "expected": shape.refused is None}
    if patch.manual:
        return {**row, "written": False, "reason": patch.manual[0].reason}
    after = {**sources, **{file.path: file.after for file in patch.files}}
    row["digest"] = _digest(plain, after, sources)
    if before.get("digest") == row["digest"] and before.get("runs"):
        return dict(before)
    _write(sources)
    _write({patched / path.relative_to(plain): data for path, data in after.items()})
    edits = folder / "edits.json"
    edits.write_text(json.dumps([edit_to_json(edit) for edit in fix.edits]))
    try:
        overlaid = _record(plain, folder / "overlaid", ("--with", str(edits)))
        written = _record(patched, folder / "written", ())
    except RunError as error:
        return {**row, "written": True, "runs": False, "error": str(error)}
    differences = {
        name: {"overlay": overlaid[name], "patch": written[name]}
        for name in overlaid
        if overlaid[name] != written[name]
    }
    result = {**row, "written": True, "runs": True, "same": not differences}
    return {**result, "differences": differences} if differences else result


def _digest(folder: Path, after: Mapping[Path, bytes], before: Mapping[Path, bytes]) -> str:
    """Return a digest of files, as they were and as they become."""
    texts = [
        (str(path.relative_to(folder)), before.get(path), data)
        for path, data in sorted(after.items())
    ]
    return hashlib.sha256(repr(texts).encode()).hexdigest()[:16]


def _write(files: Mapping[Path, bytes]) -> None:
    for path, data in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def _record(folder: Path, out: Path, options: Sequence[str]) -> dict[str, object]:
    """Return the facts that a training is compared by. Raises ``RunError``."""
    recorder = [sys.executable, "-m", "gapless", "run", "--quiet", "--no-windows"]
    process = subprocess.run(
        [*recorder, "--out", str(out), *options, "--", sys.executable, SCRIPT],
        cwd=folder,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=_PATIENCE_S,
        check=False,
    )
    runs = sorted(path.parent for path in out.glob("*/run.json"))
    if process.returncode or not runs:
        raise RunError(f"exit code {process.returncode}: {process.stderr[-800:]}")
    return _pick(facts(load(runs[-1])))


def _pick(run_facts: Facts) -> dict[str, object]:
    precision = run_facts.precision
    picked = {
        "loaders": _choose(run_facts.loaders, _LOADER),
        "optimizers": _choose(run_facts.optimizers, _OPTIMIZER),
        "models": _choose(run_facts.models, _MODEL),
        "precision": None if precision is None else dict(precision.settings),
        "threads": run_facts.machine.intra_op_threads,
        "calls": {name: n for name, n in run_facts.calls.items() if name != "collections"},
    }
    return json.loads(json.dumps(picked, default=str))


def _choose(values: Sequence[object], names: Sequence[str]) -> list[dict[str, object]]:
    return [{name: fields[name] for name in names} for fields in map(msgspec.to_builtins, values)]
