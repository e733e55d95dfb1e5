"""Files of proven fixes: what ``gapless tune`` writes, and ``run --with`` and ``fix`` read.

A run keeps its last one beside its trials, as ``tuned.json``.
"""

import json
from pathlib import Path
from typing import Any, Final

import msgspec

from gapless.errors import UsageError
from gapless.model.edit import Edit
from gapless.model.tuning import Tuning, TuningState
from gapless.model.version import version
from gapless.store.atomic import write_atomically, write_named_file
from gapless.store.logs.fields import integer

SCHEMA: Final = 1
FILE: Final = "tuned.json"  # in the folder of a run
STATE: Final = "tuning.json"  # there, too: how far it has come


def write_tuning(tuning: Tuning, path: Path) -> None:
    """Write proven fixes to a file, completely or not at all. Raises ``OSError``."""
    write_named_file(path, f"{json.dumps(tuning_object(tuning), indent=1)}\n".encode())


def tuning_object(tuning: Tuning) -> dict[str, Any]:
    """Return proven fixes as JSON's object."""
    return {"schema": SCHEMA, "gapless": version(), "tuning": msgspec.to_builtins(tuning)}


def read_tuning(path: Path) -> Tuning:
    """Return the proven fixes in a file.

    Raises ``UsageError`` if it cannot be read, is newer than this gapless, or holds none.
    """
    document = _read_document(path)
    schema = integer(document.get("schema")) if isinstance(document, dict) else None
    if not isinstance(document, dict) or schema is None or "tuning" not in document:
        raise UsageError(f"{path} holds no proven fixes, as gapless tune writes them")
    if schema > SCHEMA:
        raise UsageError(
            f"{path} is of schema {schema}; this gapless reads up to {SCHEMA}. Upgrade gapless"
        )
    try:
        return msgspec.convert(document["tuning"], Tuning)
    except msgspec.ValidationError as error:
        raise UsageError(f"{path} holds proven fixes that are not whole: {error}") from None


def read_edits(path: Path) -> tuple[Edit, ...]:
    """Return the edits in a file: of proven fixes, or a plain list of edits.

    Raises ``UsageError`` if it cannot be read, or holds neither.
    """
    document = _read_document(path)
    if isinstance(document, dict):
        return read_tuning(path).edits
    try:
        return msgspec.convert(document, tuple[Edit, ...])
    except msgspec.ValidationError as error:
        raise UsageError(
            f"{path} holds no edits: {error}. A list of them is trials[].edits of "
            "gapless try --json; proven fixes are what gapless tune writes"
        ) from None


def _read_document(path: Path) -> "dict[str, object] | list[object]":
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, object] | list[object])
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or error}") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(f"{path} is no JSON document of that kind: {error}") from None


def write_state(state: TuningState, run: Path) -> None:
    """Keep in the folder of a run how far its tuning has come, completely or not at all.

    Raises ``OSError``.
    """
    document = {"schema": SCHEMA, "gapless": version(), "state": msgspec.to_builtins(state)}
    with write_atomically(run / STATE) as unfinished:
        unfinished.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def read_state(run: Path) -> TuningState | None:
    """Return how far the tuning of a run has come; ``None``: it has not begun, or is not readable.

    A state of another schema is not gone on with.
    """
    try:
        document = msgspec.json.decode((run / STATE).read_bytes(), type=dict[str, Any])
        if document.get("schema") != SCHEMA:
            return None
        return msgspec.convert(document["state"], TuningState)
    except (OSError, KeyError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
