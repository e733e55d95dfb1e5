"""What the command finds in its environment: the way to the recorder, and nothing else of ours."""

import errno
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from gapless import wire

SITE: Final = Path(__file__).resolve().parents[1] / "payload" / "site"
_TEMP_VARIABLES: Final = (
    "TMPDIR",
    "TEMP",
    "TMP",
)  # as ``tempfile`` looks for a place, whose import
_TEMP_FOLDERS: Final = ("/tmp", "/var/tmp", "/usr/tmp", os.curdir)  # noqa: S108 - a training waits for
_MEMORY_FOLDER: Final = "/dev/shm"  # noqa: S108 - where the disk for temporary files is full
_MIN_FREE_BYTES: Final = 4096  # bytes: that many must fit
_HASH_SEED: Final = "PYTHONHASHSEED"  # of strings: the order of sets, equal in all arms of a trial
# else each window prints two lines among the training's
_KINETO_LOG_LEVEL: Final = "KINETO_LOG_LEVEL"


@dataclass(frozen=True)
class RecorderSettings:
    """What the recorder is asked for; the names are those of ``GAPLESS_OPTIONS``."""

    windows: bool = True
    window_steps: int = 6
    every: int | None = None
    most_windows: int = 6
    events: int = 100_000
    stacks_hz: int = 10
    random_every: int = 64
    check: bool = False
    light: bool = True
    allowance: int | None = None  # bytes that a training may write before it adds records up
    edits: tuple[dict[str, Any], ...] = ()  # to be applied (``edit_to_json``)
    trial: dict[str, Any] | None = None  # how a trial's arm ends, and what it observes


def build_environment(
    old: Mapping[str, str], spool: Path, settings: RecorderSettings
) -> dict[str, str]:
    """Return the environment of the command: the old one, edited, and the way to the recorder."""
    user_variables = apply_env_edits(old, settings.edits)
    if settings.trial is not None:
        user_variables = {_HASH_SEED: "0", **user_variables}
    paths = [
        path for path in user_variables.get("PYTHONPATH", "").split(os.pathsep) if path != str(SITE)
    ]
    user_path = os.pathsep.join(paths)
    return {
        _KINETO_LOG_LEVEL: "99",
        **user_variables,
        "PYTHONPATH": f"{SITE}{os.pathsep}{user_path}" if user_path else str(SITE),
        wire.SPOOL: str(spool),
        wire.OPTIONS: json.dumps(vars(settings), separators=(",", ":")),
    }


def apply_env_edits(old: Mapping[str, str], edits: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Return an environment with its variables edited; of edits of one name the last counts."""
    variables = dict(old)
    for edit in edits:
        if edit.get("kind") == "set_env":
            variables.pop(edit["name"], None)
            if edit["value"] is not None:
                variables[edit["name"]] = str(edit["value"])
    return variables


def make_spool() -> Path:
    """Return a new folder on a local disk, for this user alone. Raises ``OSError``."""
    first_error: OSError = FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
    for index, folder in enumerate(_list_temp_folders()):
        try:
            return _make_spool_in(Path(folder).absolute())
        except OSError as error:
            first_error = first_error if index else error
    raise first_error


def _list_temp_folders() -> Iterator[str]:
    yield from filter(None, map(os.environ.get, _TEMP_VARIABLES))
    yield from (*_TEMP_FOLDERS, _MEMORY_FOLDER)


def _make_spool_in(folder: Path) -> Path:
    """Make a folder that can be written to. Raises ``OSError``."""
    spool = folder / f"gapless-spool-{os.urandom(6).hex()}"
    spool.mkdir(0o700)
    try:
        (spool / "room").write_bytes(bytes(_MIN_FREE_BYTES))
        (spool / "room").unlink()
    except OSError:
        with suppress(OSError):
            (spool / "room").unlink(missing_ok=True)
            spool.rmdir()
        raise
    return spool
