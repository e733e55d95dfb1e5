"""The baseline of tests: a file with the step of each, to be committed with them."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from gapless.errors import UsageError
from gapless.gate.baseline import MachineKind
from gapless.store.atomic import write_named_file

FILE: Final = "gapless-budgets.json"
_FORMAT: Final = 1


class StoredStep(Struct, frozen=True):
    """The step of a test as it was: its median and the interval of that."""

    machine: MachineKind
    step_ns: int
    low_ns: int
    high_ns: int


class StoredSteps(Struct, frozen=True):
    """The file."""

    format: int
    tests: Mapping[str, StoredStep]  # by pytest's name of a test


def read_steps_file(path: Path) -> Mapping[str, StoredStep]:
    """Return the steps of a file; none where there is no file. Raises ``UsageError`` for others."""
    try:
        document = msgspec.json.decode(path.read_bytes(), type=StoredSteps)
    except FileNotFoundError:
        return {}
    except (OSError, msgspec.DecodeError) as error:
        raise UsageError(f"{path} is no baseline of tests: {error}") from error
    if document.format > _FORMAT:
        raise UsageError(f"{path} was written by a newer gapless (format {document.format})")
    return document.tests


def update_steps_file(path: Path, steps: Mapping[str, StoredStep]) -> None:
    """Write the steps of some tests; those of others stay. Raises ``UsageError``."""
    merged = {**read_steps_file(path), **steps}
    ordered = {name: merged[name] for name in sorted(merged)}
    values = msgspec.to_builtins(StoredSteps(_FORMAT, ordered))
    try:
        write_named_file(path, f"{json.dumps(values, indent=1, ensure_ascii=False)}\n".encode())
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}") from error
