"""A tuning as JSON: an interface that scripts rely on. Keys are added, never renamed."""

import json
from pathlib import Path
from typing import Any

import msgspec

from gapless.model.tuning import Tuning, TuningState
from gapless.model.version import version
from gapless.report.documents.trials import trial_objects

SCHEMA = 1


def tuning_json(state: TuningState, tuning: Tuning, path: Path | None) -> str:
    """Return a tuning as one JSON object in a line: what is proven, what was tried, the proof."""
    proof = () if state.proof is None else trial_objects([state.proof])
    document: dict[str, Any] = {
        "schema": SCHEMA,
        "gapless": version(),
        "command": state.command,
        "run": state.run,
        "file": None if path is None else str(path),
        "end": state.end,
        "spent_s": round(state.spent_s, 3),
        "proven": tuning.speedup is not None,
        "speedup": tuning.speedup,
        "before_ns": tuning.before_ns,
        "after_ns": tuning.after_ns,
        "fixes": tuning.fixes,
        "tries": state.tries,
        "remaining": state.remaining,
        "proof": proof[0] if proof else None,
    }
    return json.dumps(msgspec.to_builtins(document), separators=(",", ":")) + "\n"
