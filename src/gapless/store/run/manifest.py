"""``run.json``: what was run, when, how it ended, and where its processes write.

The launcher writes it at the start and completes it at the end. Unknown keys stay.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct

from gapless import wire
from gapless.errors import RunFolderError
from gapless.model.recording import AdoptedTrace, Manifest
from gapless.store.atomic import write_atomically
from gapless.store.logs import fields
from gapless.store.logs.fields import integer, items, members, parse, texts

VERSION: Final = 1
RUNNING: Final = "running"
FINISHED: Final = "finished"
FAILED: Final = "failed"
KILLED: Final = "killed"
_STATES: Final = {RUNNING, FINISHED, FAILED, KILLED}


class ManifestDocument(Struct, frozen=True):
    """What ``run.json`` holds; ``spool`` and ``launcher`` while the run lasts."""

    manifest: Manifest
    version: int
    spool: Path | None
    launcher: int | None  # process
    is_readable: bool  # else it is lost, or not JSON, and only the folder is known


def read(folder: Path) -> ManifestDocument:
    """Return the ``run.json`` of a run folder. Raises ``RunFolderError`` if it is newer."""
    document = peek(folder)
    if document.version > VERSION:
        raise RunFolderError(
            f"{folder / wire.MANIFEST} is of version {document.version}; this gapless reads up to "
            f"{VERSION}. Upgrade gapless to read it"
        )
    return document


def peek(folder: Path) -> ManifestDocument:
    """Return what is understood of ``run.json``, whatever its version: enough for a list."""
    members = _object(folder)
    status = fields.text(members.get("status"))
    spool = fields.text(members.get("spool"))
    manifest = Manifest(
        id=fields.text(members.get("id")) or folder.name,
        command=texts(members.get("command")),
        folder=fields.text(members.get("folder")) or "",
        host=fields.text(members.get("host")) or "",
        gapless=fields.text(members.get("gapless")) or "",
        started_unix_ns=integer(members.get("started_unix_ns")) or 0,
        started=integer(members.get("started")) or 0,
        ended=integer(members.get("ended")),
        exit_code=integer(members.get("exit_code")),
        status=status if status in _STATES else KILLED,
        stopped_by=fields.text(members.get("stopped_by")),
        pid=integer(members.get("pid")),
        adopted=tuple(_adopted_traces(members.get("adopted"))),
    )
    spool_path = Path(spool) if spool else None
    version = integer(members.get("version")) or VERSION
    return ManifestDocument(
        manifest, version, spool_path, integer(members.get("launcher")), bool(members)
    )


def _adopted_traces(value: object) -> Iterator[AdoptedTrace]:
    """Return the adopted traces, each where it belongs, whatever path a foreign file names."""
    for trace in map(members, items(value)):
        source, path = fields.text(trace.get("source")), fields.text(trace.get("path"))
        if source and path:
            yield AdoptedTrace(source, f"windows/{Path(path).name}")


def _object(folder: Path) -> Mapping[str, Any]:
    try:
        return parse((folder / wire.MANIFEST).read_bytes()) or {}
    except OSError:
        return {}


def write(folder: Path, manifest: Manifest) -> None:
    """Write the manifest of a run that is over, completely or not at all. Raises ``OSError``."""
    transient_keys = {"spool", "launcher"}
    lasting_members = {
        key: value for key, value in _object(folder).items() if key not in transient_keys
    }
    members = {"version": VERSION, **lasting_members, **msgspec.to_builtins(manifest)}
    text = json.dumps(members, indent=2)
    with write_atomically(folder / wire.MANIFEST) as unfinished:
        unfinished.write_text(text + "\n", encoding="utf-8")
