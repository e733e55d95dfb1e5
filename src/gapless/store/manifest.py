"""``run.json``: what was run, when, how it ended, and where its processes write.

The launcher writes it at the start and completes it at the end. Keys that are not known here stay.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from gapless.errors import RunFolderError
from gapless.model.recording import Adopted, Manifest
from gapless.store import fields
from gapless.store.fields import integer, items, members, parse, texts
from gapless.store.whole import whole

NAME: Final = "run.json"
VERSION: Final = 1
RUNNING: Final = "running"
FINISHED: Final = "finished"
FAILED: Final = "failed"
KILLED: Final = "killed"
_STATES: Final = {RUNNING, FINISHED, FAILED, KILLED}


@dataclass(frozen=True)
class Document:
    """What ``run.json`` holds; ``spool`` and ``launcher`` while the run lasts."""

    manifest: Manifest
    version: int
    spool: Path | None
    launcher: int | None  # process
    found: bool  # else it is lost, or no JSON, and all that is known is the folder


def read(folder: Path) -> Document:
    """Give what ``run.json`` of a run folder says. Raises ``RunFolderError`` if it is newer."""
    document = peek(folder)
    if document.version > VERSION:
        raise RunFolderError(
            f"{folder / NAME} is of version {document.version}; this gapless reads up to "
            f"{VERSION}. Upgrade gapless to read it"
        )
    return document


def peek(folder: Path) -> Document:
    """Give what is understood of ``run.json``, whatever its version: enough for a list."""
    found = _object(folder)
    status = fields.text(found.get("status"))
    spool = fields.text(found.get("spool"))
    manifest = Manifest(
        id=fields.text(found.get("id")) or folder.name,
        command=texts(found.get("command")),
        folder=fields.text(found.get("folder")) or "",
        host=fields.text(found.get("host")) or "",
        gapless=fields.text(found.get("gapless")) or "",
        started_unix_ns=integer(found.get("started_unix_ns")) or 0,
        started=integer(found.get("started")) or 0,
        ended=integer(found.get("ended")),
        exit_code=integer(found.get("exit_code")),
        status=status if status in _STATES else KILLED,
        stopped_by=fields.text(found.get("stopped_by")),
        pid=integer(found.get("pid")),
        adopted=tuple(_adopted(found.get("adopted"))),
    )
    where = Path(spool) if spool else None
    version = integer(found.get("version")) or VERSION
    return Document(manifest, version, where, integer(found.get("launcher")), bool(found))


def _adopted(value: object) -> Iterator[Adopted]:
    """Give what was adopted, each where it belongs, whatever path somebody else's file names."""
    for one in map(members, items(value)):
        source, path = fields.text(one.get("source")), fields.text(one.get("path"))
        if source and path:
            yield Adopted(source, f"windows/{Path(path).name}")


def _object(folder: Path) -> Mapping[str, Any]:
    try:
        return parse((folder / NAME).read_bytes()) or {}
    except OSError:
        return {}


def write(folder: Path, manifest: Manifest) -> None:
    """Write what is known of a run that is over, whole or not at all. Raises ``OSError``."""
    own = {"spool", "launcher"}
    kept = {key: value for key, value in _object(folder).items() if key not in own}
    text = json.dumps({"version": VERSION, **kept, **asdict(manifest)}, indent=2)
    with whole(folder / NAME) as unfinished:
        unfinished.write_text(text + "\n", encoding="utf-8")
