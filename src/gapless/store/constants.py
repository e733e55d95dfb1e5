"""Constants of machines, kept in the user's cache by where they hold."""

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from gapless.model.machine import SCHEMA, Constants, Platform
from gapless.store import cache, folder

_NAME: Final = "constants"
_ENDING: Final = f".{_NAME}.blob"
_PROBE: Final = Path(__file__).resolve().parents[1] / "probe"


def constants_key(platform: Platform, question: str) -> str:
    """Return the key of a request about a machine.

    That is GPU and driver, or processor; torch, interpreter, storage; and the probe: what another
    version of it measured is not reused.
    """
    gpu = platform.gpu
    device = None if gpu is None else (gpu.name, gpu.uuid, gpu.driver)
    machine = (platform.processor, platform.processors)
    subject = (
        SCHEMA,
        device,
        machine,
        platform.torch,
        platform.python,
        platform.executable,
        platform.storage,
        question,
    )
    digest = hashlib.sha256(repr(subject).encode())
    for file in sorted(_PROBE.glob("*.py")):
        digest.update(file.name.encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()[:40]


def load(platform: Platform, question: str) -> Constants | None:
    """Return the constants stored for a machine; ``None`` if there are none, or damaged ones."""
    return _read(constants_key(platform, question))


def find_all(questions: tuple[str, ...]) -> Iterator[Constants]:
    """Return all stored constants, of any machine, that answer one of some requests."""
    for name, _ in stored_states():
        blob_key = name.removesuffix(_ENDING)
        constants = _read(blob_key)
        platform = None if constants is None else constants.place
        if (
            constants is not None
            and platform is not None
            and blob_key in {constants_key(platform, question) for question in questions}
        ):
            yield constants


def stored_states() -> list[tuple[str, int]]:
    """Return the names and times, in ns, of the files with constants, sorted; of any machine."""
    try:
        files = [file for file in folder.cache_folder().iterdir() if file.name.endswith(_ENDING)]
        return sorted((file.name, file.stat().st_mtime_ns) for file in files)
    except OSError:
        return []


def _read(blob_key: str) -> Constants | None:
    data = cache.load_blob(blob_key, _NAME)
    if data is None:
        return None
    try:
        constants = msgspec.json.decode(data, type=Constants)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):  # or a ValidationError
        return None
    return constants if constants.schema == SCHEMA else None


def save(constants: Constants, question: str) -> str | None:
    """Keep constants for their machine; return the reason if they could not be kept."""
    if constants.place is None:
        return "it is not known where they hold"
    return cache.save_blob(
        constants_key(constants.place, question), _NAME, msgspec.json.encode(constants)
    )
