"""By what a run that is over is known again in the cache."""

import hashlib
from pathlib import Path

from gapless import wire
from gapless.store import constants
from gapless.store.run import manifest


def ended_run_key(folder: Path) -> str | None:
    """Return the key of all that a report rests on; ``None`` for a run that is not over.

    That is the names, sizes and times of all files of the run, and of the machines' constants.
    Raises ``RunFolderError`` for a run that a later version of gapless wrote.
    """
    if not (folder / wire.MANIFEST).is_file():
        return None
    document = manifest.read(folder)
    has_spool = document.spool is not None and document.spool.is_dir()
    if not document.is_readable or document.manifest.ended is None or has_spool:
        return None
    try:
        states = [
            (str(path), status.st_size, status.st_mtime_ns)
            for path in sorted(folder.absolute().rglob("*"))
            if (status := path.stat())
        ]
    except OSError:  # a file that goes, or cannot be seen: so the run is read
        return None
    digest = hashlib.sha256(repr((states, constants.stored_states())).encode())
    return digest.hexdigest()[:40]
