"""The machine's constants, measured once: from the cache, else by the probe."""

import time
from dataclasses import dataclass, replace
from typing import Final

from gapless.launch import probing
from gapless.launch.probing import Asked, Say
from gapless.model.machine import Constants, Place
from gapless.store import constants as store

_DAY_S: Final = 86400.0
_SOON_S: Final = 3600.0


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
