"""Constants of machines, kept in the user's cache by where they hold."""

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from gapless.model.machine import SCHEMA, Constants, Place
from gapless.store import cache, folder

_NAME: Final = "constants"
_PROBE: Final = Path(__file__).resolve().parents[1] / "probe"


def key(place: Place, asked: str) -> str:
    """Give the key of what was asked about a place.

    That is GPU and driver, or processor; torch, interpreter, storage; and the probe: what
    another version of it measured is not taken for this one's.
    """
    gpu = place.gpu
    device = None if gpu is None else (gpu.name, gpu.uuid, gpu.driver)
    machine = (place.processor, place.processors)
    told = (
        SCHEMA,
        device,
        machine,
        place.torch,
        place.python,
        place.executable,
        place.storage,
        asked,
    )
    found = hashlib.sha256(repr(told).encode())
    for file in sorted(_PROBE.glob("*.py")):
        found.update(file.name.encode() + b"\0" + file.read_bytes())
    return found.hexdigest()[:40]


def load(place: Place, asked: str) -> Constants | None:
    """Give the constants kept for a place; ``None`` if there are none, or they are damaged."""
    return _read(key(place, asked))


def every(asked: tuple[str, ...]) -> Iterator[Constants]:
    """Give all constants that are kept of any place, and answer one of some questions."""
    ending = f".{_NAME}.blob"
    try:
        names = sorted(one.name for one in folder.place().iterdir() if one.name.endswith(ending))
    except OSError:
        return
    for name in names:
        known = name.removesuffix(ending)
        found = _read(known)
        place = None if found is None else found.place
        if found is not None and place is not None and known in {key(place, one) for one in asked}:
            yield found


def _read(known: str) -> Constants | None:
    data = cache.load_blob(known, _NAME)
    if data is None:
        return None
    try:
        found = msgspec.json.decode(data, type=Constants)
    except msgspec.DecodeError:  # a ValidationError is one
        return None
    return found if found.schema == SCHEMA else None


def save(constants: Constants, asked: str) -> str | None:
    """Keep constants for their place; give the reason if they could not be kept."""
    if constants.place is None:
        return "it is not known where they hold"
    return cache.save_blob(key(constants.place, asked), _NAME, msgspec.json.encode(constants))
