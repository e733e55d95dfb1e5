"""The run folder and its manifest, ``run.json``."""

import os
import platform
import secrets
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from gapless import wire

if TYPE_CHECKING:
    from gapless.model.recording import Manifest

VERSION: Final = 1  # of run.json
_HOME: Final = Path(".gapless") / "runs"


def make(out: Path | None) -> Path:
    """Make a run folder in ``out``, else in ``.gapless/runs`` here. Raises ``OSError``."""
    home = (_HOME if out is None else out).absolute()
    home.mkdir(parents=True, exist_ok=True)
    if out is None:
        _hide(home.parent)
    while True:
        name = f"{time.strftime('%Y-%m-%dT%H-%M-%S', time.gmtime())}-{secrets.token_hex(2)}"
        with suppress(FileExistsError):
            (home / name).mkdir()
            return home / name


def make_elsewhere() -> Path:
    """Make a run folder beside the spool, for where the proper place cannot be written."""
    return make(Path(tempfile.mkdtemp(prefix="gapless-run-")))


def _hide(folder: Path) -> None:
    """Keep runs out of version control, as virtual environments do."""
    with suppress(FileExistsError), (folder / ".gitignore").open("x", encoding="utf-8") as file:
        file.write("*\n")


def new_manifest(name: str, command: Sequence[str], started: tuple[int, int]) -> "Manifest":
    """Return the manifest of a command started at (CLOCK_MONOTONIC, Unix time), both in ns."""
    from gapless.model.recording import Manifest
    from gapless.model.version import version

    monotonic, unix = started
    return Manifest(
        id=name,
        command=tuple(command),
        folder=_working_folder(),
        host=platform.node(),
        gapless=version(),
        started_unix_ns=unix,
        started=monotonic,
        ended=None,
        exit_code=None,
        status="running",
    )


def _working_folder() -> str:
    try:
        return str(Path.cwd())
    except FileNotFoundError:  # it was removed
        return os.environ.get("PWD", "")


def write(folder: Path, manifest: "Manifest", spool: Path | None) -> None:
    """Write ``run.json`` whole; it names the spool until all is transferred. Raises ``OSError``."""
    import msgspec

    extras = {
        "version": VERSION,
        "spool": None if spool is None else str(spool),
        "launcher": os.getpid(),
    }
    text = msgspec.json.encode({**msgspec.to_builtins(manifest), **extras})
    folder.mkdir(parents=True, exist_ok=True)
    unfinished = folder / f"{wire.MANIFEST}.unfinished"
    unfinished.write_bytes(msgspec.json.format(text, indent=2) + b"\n")
    unfinished.replace(folder / wire.MANIFEST)
