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
_ASKED: Final = ("TMPDIR", "TEMP", "TMP")  # as ``tempfile`` looks for a place, whose import
_USUAL: Final = ("/tmp", "/var/tmp", "/usr/tmp", os.curdir)  # noqa: S108 - a training waits for
_MEMORY: Final = "/dev/shm"  # noqa: S108 - where the disk for temporary files is full
_ROOM: Final = 4096  # bytes: that many must fit
_HASHES: Final = "PYTHONHASHSEED"  # of strings: the order of sets, equal in all arms of a trial
_KINETO: Final = "KINETO_LOG_LEVEL"  # else each window prints two lines among the training's


@dataclass(frozen=True)
class Settings:
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
    edits: tuple[dict[str, Any], ...] = ()  # to be laid over the training (``model.edit.as_json``)
    trial: dict[str, Any] | None = None  # how a trial's arm ends, and what it observes


def environment(old: Mapping[str, str], spool: Path, settings: Settings) -> dict[str, str]:
    """Give the environment of the command: the old one, edited, and the way to the recorder."""
    users = edited(old, settings.edits)
    if settings.trial is not None:
        users = {_HASHES: "0", **users}
    paths = [path for path in users.get("PYTHONPATH", "").split(os.pathsep) if path != str(SITE)]
    kept = os.pathsep.join(paths)
    return {
        _KINETO: "99",
        **users,
        "PYTHONPATH": f"{SITE}{os.pathsep}{kept}" if kept else str(SITE),
        wire.SPOOL: str(spool),
        wire.OPTIONS: json.dumps(vars(settings), separators=(",", ":")),
    }


def edited(old: Mapping[str, str], edits: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Give an environment with the edits of its variables done, the last one of a name ruling."""
    found = dict(old)
    for edit in edits:
        if edit.get("kind") == "set_env":
            found.pop(edit["name"], None)
            if edit["value"] is not None:
                found[edit["name"]] = str(edit["value"])
    return found


def make_spool() -> Path:
    """Give a new folder on a local disk, for this user alone. Raises ``OSError``."""
    first: OSError = FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
    for at, place in enumerate(_places()):
        try:
            return _made(Path(place).absolute())
        except OSError as error:
            first = first if at else error
    raise first


def _places() -> Iterator[str]:
    yield from filter(None, map(os.environ.get, _ASKED))
    yield from (*_USUAL, _MEMORY)


def _made(place: Path) -> Path:
    """Make a folder that can be written to. Raises ``OSError``."""
    spool = place / f"gapless-spool-{os.urandom(6).hex()}"
    spool.mkdir(0o700)
    try:
        (spool / "room").write_bytes(bytes(_ROOM))
        (spool / "room").unlink()
    except OSError:
        with suppress(OSError):
            (spool / "room").unlink(missing_ok=True)
            spool.rmdir()
        raise
    return spool
