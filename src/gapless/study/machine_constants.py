"""The machine's constants, measured once: from the cache, else by the probe.

``gapless try --machine`` measures them; studies of runs take what is kept, where the run tells that
it was recorded on the same machine (``kept_of``). They are never a figure of the run itself.
"""

import time
from dataclasses import dataclass, replace
from typing import Final

from gapless.launch import probing
from gapless.launch.probing import Asked, Say
from gapless.model.machine import Constants, Gpu, Place
from gapless.store import constants as store

_DAY_S: Final = 86400.0
_SOON_S: Final = 3600.0
_DEVICES: Final = 16  # numbers of GPUs that may have been measured


@dataclass(frozen=True)
class Keeping:
    """How far constants that were measured before are good enough."""

    anew: bool = False  # measure in any case
    most_days: float = 30.0
    keep: bool = True


def constants(
    python: str, device: int | None, path: str | None, say: Say, keeping: Keeping | None = None
) -> Constants:
    """Give the constants of the machine, as seen by an interpreter.

    ``device``: number of the GPU, ``None`` for none; ``path``: where the training's data lies;
    ``say`` is told what is being measured. Never raises for a probe that fails: its constants are
    absent, and ``Constants.why`` tells.
    """
    return of(python, Asked(device=device, path=path), say, keeping)


def of(python: str, asked: Asked, say: Say, keeping: Keeping | None = None) -> Constants:
    """Give the constants that are asked for; see ``constants``."""
    keeping = keeping or Keeping()
    place = None if keeping.anew else probing.place(python, asked)
    kept = None if place is None else _kept(place, asked)
    if kept is not None and kept.age_s(time.time()) <= _most_s(kept, keeping):
        return kept
    found = probing.measure(python, asked, say)
    if keeping.keep and _lasts(found):
        store.save(found, _asked(asked))
    return found


@dataclass(frozen=True)
class Told:
    """What a run tells of where it ran; ``None``: it does not."""

    python: str | None
    torch: str | None
    processor: str | None
    processors: int | None
    device: bool  # it used a GPU
    uuid: str | None
    driver: str | None
    at_unix_s: float


def kept_of(told: Told) -> Constants | None:
    """Give the constants that are kept of the machine a run was recorded on, the nearest in time.

    ``None`` where there are none, or the run does not tell all that they depend on.
    """
    able = [
        one
        for one in store.every(_questions())
        if one.place is not None and _same(one.place, told) and _near(one, told.at_unix_s)
    ]
    return min(able, key=lambda one: abs(one.measured_unix_s - told.at_unix_s), default=None)


def _questions() -> tuple[str, ...]:
    """Give what ``gapless try --machine`` may have asked."""
    return tuple(_asked(Asked(device=one)) for one in (None, *range(_DEVICES)))


def _near(found: Constants, at_unix_s: float) -> bool:
    """Tell whether constants are of about the same time, and of a machine that was free.

    What was measured beside others says what they left: a peak that is none.
    """
    near = abs(found.measured_unix_s - at_unix_s) <= Keeping().most_days * _DAY_S
    return near and found.alone


def _same(place: Place, told: Told) -> bool:
    """Tell whether constants hold where a run was: what it does not tell is another's."""
    known = (place.python, place.processor, place.processors)
    if known != (told.python, told.processor, told.processors):
        return False
    return _same_torch(place.torch, told.torch) and (not told.device or _same_gpu(place.gpu, told))


def _same_torch(one: str | None, other: str | None) -> bool:
    """Compare versions; what stands behind "+" a package need not tell."""
    if one is None or other is None:
        return False
    (first, _, build), (second, _, its) = one.partition("+"), other.partition("+")
    return first == second and (not build or not its or build == its)


def _same_gpu(gpu: Gpu | None, told: Told) -> bool:
    if gpu is None or None in (gpu.uuid, gpu.driver, told.uuid, told.driver) or gpu.why:
        return False
    return (_bare(gpu.uuid), gpu.driver) == (_bare(told.uuid), told.driver)


def _bare(uuid: str | None) -> str:
    return (uuid or "").lower().removeprefix("gpu-")


def _most_s(kept: Constants, keeping: Keeping) -> float:
    """Give how old constants may be; what is not whole, or was disturbed, is soon measured anew."""
    most = keeping.most_days * _DAY_S
    return most if kept.whole and kept.alone else min(most, _SOON_S)


def _kept(place: Place, asked: Asked) -> Constants | None:
    """Give what was measured for the same question, or for the one without parts."""
    found = store.load(place, _asked(replace(asked, parts=())))
    return store.load(place, _asked(asked)) if found is None and asked.parts else found


def _asked(asked: Asked) -> str:
    return " ".join(asked.options())


def _lasts(found: Constants) -> bool:
    """Tell whether constants hold another time: of a GPU that can be told, and was free."""
    place = found.place
    if place is None or found.why is not None:
        return False
    return place.gpu is None or (place.gpu.why is None and place.gpu.uuid is not None)
