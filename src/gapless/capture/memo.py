"""Finished studies in the cache: a trace that was opened before is printed without being read.

The key is the content of all files, the options, and the code that made the study: what is
concluded is never older than the conclusions' rules.
"""

import hashlib
from collections.abc import Sequence
from pathlib import Path

import msgspec
from msgspec.structs import replace

from gapless.capture.ranks.codec import decode, encode
from gapless.model.options import Options
from gapless.model.study import Study
from gapless.store import cache


def content_key(keys: Sequence[str]) -> str:
    """Join the content keys of several files into one; that of a single file stays what it is."""
    return keys[0] if len(keys) == 1 else hashlib.sha256("\n".join(keys).encode()).hexdigest()


def blob_name(paths: Sequence[str], options: Options) -> str:
    """Return the name of a study's blob: from the files' names, the options and the code."""
    request = encode((tuple(paths), replace(options, on=None)))
    return f"study-{hashlib.sha256(request + _code()).hexdigest()[:32]}"


def recall(key: str, name: str) -> Study | None:
    """Return the study kept under a key; ``None`` if there is none or it cannot be read."""
    blob = cache.load_blob(key, name)
    if blob is None:
        return None
    try:
        return decode(blob, Study)
    except msgspec.DecodeError:  # a cut or foreign file: as good as none
        return None


def remember(key: str, name: str, study: Study) -> None:
    """Keep a study under a key."""
    cache.save_blob(key, name, encode(study))


def _code() -> bytes:
    """Fingerprint the code: names, sizes and times of all of gapless's files."""
    folder = Path(__file__).parents[1]
    files = sorted(folder.rglob("*.py"))
    stats = [(str(file), file.stat().st_size, file.stat().st_mtime_ns) for file in files]
    return repr(stats).encode()
