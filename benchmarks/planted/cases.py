"""Which cases there are, of which half, and an order that spreads them.

A case is *unseen* if both its script and the family of its fault are of the sealed files, *open* if
neither is; what would mix them is left out.
"""

import contextlib
import hashlib
import itertools
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from benchmarks.planted.mutations.catalogue import MUTATIONS, OPEN, SEALED
from benchmarks.planted.mutations.plant import Plant, Site, plant
from benchmarks.planted.scripts import FetchError, Script, content, mended, scripts
from benchmarks.planted.source import parse

Half = Literal["open", "unseen"]
Kind = Literal["fault", "pair", "decoy", "control"]
HALVES: Final[tuple[Half, ...]] = ("unseen", "open")
KINDS: Final[tuple[Kind, ...]] = ("fault", "pair", "decoy", "control")
# Of ten cases in a row: five faults, one pair of them, two decoys and two controls.
_PAIRS: Final = 4  # of one script
_PATTERN: Final[tuple[Kind, ...]] = (
    *("fault", "control", "fault", "decoy", "fault"),
    *("pair", "fault", "control", "fault", "decoy"),
)


@dataclass(frozen=True)
class Case:
    """One training with what is planted in it: nothing (a control), one fault or two, a decoy."""

    script: str
    mutations: tuple[str, ...]
    device: str
    half: Half

    @property
    def name(self) -> str:
        """Give the name: script, what is planted, device."""
        return "--".join([self.script, *(self.mutations or ("control",)), self.device])

    @property
    def kind(self) -> Kind:
        """Say what it is for."""
        if not self.mutations:
            return "control"
        if len(self.mutations) > 1:
            return "pair"
        return "decoy" if all(MUTATIONS[one].decoy for one in self.mutations) else "fault"


def _hash(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")


def cases(side: Half, device: str, sources: Path | None, count: int = 200) -> list[Case]:
    """Give the first cases of a half on a device, in the order to run them.

    Only faults that apply to a script are planted in it, for which its files are read. The order
    depends on names alone: of the kinds by a fixed pattern, of each kind what was taken
    least so far, by script, mutation and family, and then by hash. So any beginning is widespread.
    Scripts whose files cannot be had are left out.
    """
    owners = [one for one in scripts().values() if one.sealed == (side == "unseen")]
    able = [one for one in owners if device in one.devices]
    fitting: dict[str, list[Plant]] = {}
    for one in able:
        with contextlib.suppress(FetchError):
            fitting[one.name] = _fitting(one, side, device, sources)
    waiting = {kind: _of_kind(kind, fitting, side, device) for kind in set(_PATTERN)}
    taken: Counter[str] = Counter()
    order: list[Case] = []
    for kind in itertools.cycle(_PATTERN):
        if len(order) >= count or not any(waiting.values()):
            return order
        if waiting[kind]:
            best = min(waiting[kind], key=lambda case: _taken(case, taken))
            waiting[kind].remove(best)
            taken.update(_words(best))
            order.append(best)
    return order


def _fitting(script: Script, side: Half, device: str, sources: Path | None) -> list[Plant]:
    """Give the faults and decoys of a side that apply to a script."""
    texts = [mended(script, path, content(script, path, sources)) for path in script.planted_in]
    sites = [Site(parse(text.decode()), 0.01, device) for text in texts]
    return [
        one
        for one in (SEALED if side == "unseen" else OPEN)
        if any(plant(one, site) is not None for site in sites)
    ]


def _of_kind(kind: Kind, fitting: Mapping[str, list[Plant]], side: Half, device: str) -> list[Case]:
    rows: list[Case] = []
    for script, plants in fitting.items():
        faults = [one for one in plants if not one.decoy]
        names: list[tuple[str, ...]] = [()]
        if kind == "fault":
            names = [(one.name,) for one in faults]
        elif kind == "pair":
            pairs = itertools.combinations(faults, 2)
            names = [(a.name, b.name) for a, b in pairs if a.family != b.family]
        elif kind == "decoy":
            names = [(one.name,) for one in plants if one.decoy]
        some = sorted((Case(script, one, device, side) for one in names), key=_rank)
        rows += some[:_PAIRS] if kind == "pair" else some
    return sorted(rows, key=_rank)


def _rank(case: Case) -> int:
    return _hash(case.name)


def _words(case: Case) -> list[str]:
    families = [f"family {case.kind} {MUTATIONS[one].family}" for one in case.mutations]
    return [f"script {case.kind} {case.script}", *case.mutations, *families]


def _taken(case: Case, taken: Counter[str]) -> int:
    return sum(taken[word] for word in _words(case))
