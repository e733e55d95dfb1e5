"""Trials of a run, kept in its folder: ``trials/<id>.json``.

"trials" of such a file is as in the study's JSON, a member for each combination of edits, for
scripts; "trial" is all of it.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, TypeVar, get_type_hints

import msgspec

from gapless.errors import RunFolderError
from gapless.model.edit import as_json, from_json
from gapless.model.trial import Side, Trial
from gapless.model.version import version
from gapless.store.fields import integer, items, members, parse
from gapless.store.whole import whole

SCHEMA: Final = 1
FOLDER: Final = "trials"
_T = TypeVar("_T")


def write(trial: Trial, run: Path) -> Path:
    """Keep a trial in the folder of its run, whole or not at all. Raises ``OSError``."""
    path = run / FOLDER / f"{trial.id}.json"
    path.parent.mkdir(exist_ok=True)
    with whole(path) as unfinished:
        unfinished.write_text(json.dumps(document(trial), indent=1) + "\n", encoding="utf-8")
    return path


def document(trial: Trial) -> dict[str, Any]:
    """Give a trial as JSON's object."""
    found = msgspec.to_builtins(trial)
    for side, values in zip(trial.sides, found["sides"], strict=True):
        values["edits"] = [as_json(edit) for edit in side.edits]
    return {
        "schema": SCHEMA,
        "gapless": version(),
        "trials": [_entry(trial, side) for side in trial.sides],
        "trial": found,
    }


def _entry(trial: Trial, side: Side) -> dict[str, Any]:
    return {
        "fixes": list(side.fixes),
        "arms": trial.order,
        "speedup": msgspec.to_builtins(side.speedup),
        "predicted": msgspec.to_builtins(side.predicted),
        "verdict": side.verdict.value,
        "parity": side.parity.value,
        "noise": trial.noise,
        "cache": trial.cache,
    }


def read(path: Path) -> Trial:
    """Give the trial that a file keeps.

    Raises ``RunFolderError`` if it is newer, holds no trial, or cannot be read.
    """
    try:
        found = parse(path.read_bytes())
    except OSError as error:
        raise RunFolderError(f"{path}: {error.strerror or error}") from error
    schema = integer(found.get("schema")) if found else None
    if found is None or schema is None:
        raise RunFolderError(f"{path} holds no trial; delete it, or try again")
    if schema > SCHEMA:
        raise RunFolderError(
            f"{path} is of schema {schema}; this gapless reads up to {SCHEMA}. "
            "Upgrade gapless to read it"
        )
    try:
        return _trial(members(found.get("trial")))
    except (msgspec.ValidationError, ValueError, TypeError) as error:
        raise RunFolderError(f"{path} holds a trial that is not whole: {error}") from error


def of(run: Path) -> tuple[Trial, ...]:
    """Give the trials of a run that can be read, by id."""
    found = list[Trial]()
    for path in sorted((run / FOLDER).glob("*.json")):
        try:
            found.append(read(path))
        except RunFolderError:
            continue
    return tuple(found)


def _trial(found: Mapping[str, Any]) -> Trial:
    sides = tuple(_side(members(one)) for one in items(found.get("sides")))
    return _made(Trial, found, sides=sides)


def _side(found: Mapping[str, Any]) -> Side:
    edits = tuple(from_json(members(one)) for one in items(found.get("edits")))
    return _made(Side, found, edits=edits)


def _made(kind: type[_T], found: Mapping[str, Any], **given: object) -> _T:
    """Make a value of a class from JSON's object, each field as it is declared."""
    declared = get_type_hints(kind)
    values = {
        name: msgspec.convert(found[name], declared[name])
        for name in declared
        if name in found and name not in given
    }
    return kind(**values, **given)
