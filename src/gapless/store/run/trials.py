"""Trials of a run, kept in its folder: ``trials/<id>.json``; ``gapless report`` reads them."""

import json
from pathlib import Path
from typing import Any, Final

import msgspec

from gapless.errors import RunFolderError
from gapless.model.trial import Trial
from gapless.model.version import version
from gapless.store.atomic import write_atomically
from gapless.store.logs.fields import integer, parse

SCHEMA: Final = 1
FOLDER: Final = "trials"


def write(trial: Trial, run: Path) -> Path:
    """Keep a trial in the folder of its run, completely or not at all. Raises ``OSError``."""
    path = run / FOLDER / f"{trial.id}.json"
    path.parent.mkdir(exist_ok=True)
    with write_atomically(path) as unfinished:
        unfinished.write_text(json.dumps(trial_object(trial), indent=1) + "\n", encoding="utf-8")
    return path


def trial_object(trial: Trial) -> dict[str, Any]:
    """Return a trial as JSON's object."""
    return {"schema": SCHEMA, "gapless": version(), "trial": msgspec.to_builtins(trial)}


def read(path: Path) -> Trial:
    """Return the trial in a file.

    Raises ``RunFolderError`` if it is newer, holds no trial, or cannot be read.
    """
    try:
        document = parse(path.read_bytes())
    except OSError as error:
        raise RunFolderError(f"{path}: {error.strerror or error}") from error
    schema = integer(document.get("schema")) if document else None
    if document is None or schema is None:
        raise RunFolderError(f"{path} holds no trial; delete it, or try again")
    if schema > SCHEMA:
        raise RunFolderError(
            f"{path} is of schema {schema}; this gapless reads up to {SCHEMA}. "
            "Upgrade gapless to read it"
        )
    try:
        return msgspec.convert(document.get("trial"), Trial)
    except msgspec.ValidationError as error:
        raise RunFolderError(f"{path} holds a trial that is not whole: {error}") from error


def run_trials(run: Path) -> tuple[Trial, ...]:
    """Return the trials of a run that can be read, by id."""
    trials = list[Trial]()
    for path in sorted((run / FOLDER).glob("*.json")):
        try:
            trials.append(read(path))
        except RunFolderError:
            continue
    return tuple(trials)
