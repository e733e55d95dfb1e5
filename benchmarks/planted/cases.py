"""Which cases there are, of which half, and an order that spreads them.

A case is *unseen* if both its script and the family of its fault are of the sealed files, *open* if
neither is; what would mix them is left out.
"""

import contextlib
import hashlib
import itertools
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from benchmarks.planted.mutations.catalogue import MUTATIONS, OPEN, SEALED
from benchmarks.planted.mutations.plant import Plant, Site, plant
from benchmarks.planted.scripts import FetchError, Script, content, mend_file, scripts
from benchmarks.planted.source import parse

Half = Literal["open", "unseen"]
Kind = Literal["fault", "pair", "decoy", "control"]
HALVES: Final[tuple[Half, ...]] = ("unseen", "open")
KINDS: Final[tuple[Kind, ...]] = ("fault", "pair", "decoy", "control")
# Of 21 cases in a row: ten faults, two pairs of them, five decoys and four controls.
_MAX_PAIRS: Final = 4  # of one script
_PATTERN: Final[tuple[Kind, ...]] = (
    *("fault", "control", "fault", "decoy", "fault", "pair", "fault", "control", "fault", "decoy"),
    *("decoy", "fault", "control", "fault", "decoy", "fault", "pair", "fault", "control"),
    *("fault", "decoy"),
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
        """Return the name: script, what is planted, device."""
        return "--".join([self.script, *(self.mutations or ("control",)), self.device])

    @property
    def kind(self) -> Kind:
        """Say what it is for."""
        if not self.mutations:
            return "control"
        if len(self.mutations) > 1:
            return "pair"
        return "decoy" if all(MUTATIONS[name].decoy for name in self.mutations) else "fault"


def _hash(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")


def cases(side: Half, device: str, sources: Path | None, count: int = 200) -> list[Case]:
    """Return the first cases of a half on a device, in the order to run them.

    Only faults that apply to a script are planted in it, for which its files are read. The order
    depends on names alone: of the kinds by a fixed pattern, of each kind what was taken
    least so far, by script, mutation and family, and then by hash. So any beginning is widespread.
    Scripts whose files cannot be had are left out.
    """
    owners = [script for script in scripts().values() if script.sealed == (side == "unseen")]
    runnable = [script for script in owners if device in script.devices]
    plants_by_script: dict[str, list[Plant]] = {}
    for script in runnable:
        with contextlib.suppress(FetchError):
            plants_by_script[script.name] = _fitting_plants(script, side, device, sources)
    cases_by_kind = {
        kind: _cases_of_kind(kind, plants_by_script, side, device) for kind in set(_PATTERN)
    }
    uses: Counter[str] = Counter()
    order: list[Case] = []
    for kind in itertools.cycle(_PATTERN):
        if len(order) >= count or not any(cases_by_kind.values()):
            return order
        if cases_by_kind[kind]:
            best = min(cases_by_kind[kind], key=lambda case: _measure_use(case, uses))
            cases_by_kind[kind].remove(best)
            uses.update(_words(best))
            order.append(best)
    return order


def put_sound_off(order: Sequence[Case], share: float) -> list[Case]:
    """Return cases with sound ones put off, so that they are no more than a share until the end.

    Of any two of a kind, the first stays the first.
    """
    put_off: deque[Case] = deque()
    mixed: list[Case] = []
    n_sound = 0
    for case in order:
        (put_off if case.kind in ("control", "decoy") else mixed).append(case)
        while put_off and n_sound + 1 <= share * (len(mixed) + 1):
            mixed.append(put_off.popleft())
            n_sound += 1
    return [*mixed, *put_off]


def case_of_name(name: str, half: Half) -> Case:
    """Return the case of a name, which need not be among the first of its half."""
    script, *mutations, device = name.split("--")
    planted = tuple(word for word in mutations if word != "control")
    return Case(script, planted, device, half)


def _fitting_plants(script: Script, side: Half, device: str, sources: Path | None) -> list[Plant]:
    """Return the faults and decoys of a side that apply to a script."""
    texts = [mend_file(script, path, content(script, path, sources)) for path in script.planted_in]
    sites = [Site(parse(text.decode()), 0.01, device, script.command(device)) for text in texts]
    return [
        mutation
        for mutation in (SEALED if side == "unseen" else OPEN)
        if any(plant(mutation, site) is not None for site in sites)
    ]


def _cases_of_kind(
    kind: Kind, plants_by_script: Mapping[str, list[Plant]], side: Half, device: str
) -> list[Case]:
    rows: list[Case] = []
    for script, plants in plants_by_script.items():
        faults = [mutation for mutation in plants if not mutation.decoy]
        names: list[tuple[str, ...]] = [()]
        if kind == "fault":
            names = [(mutation.name,) for mutation in faults]
        elif kind == "pair":
            pairs = itertools.combinations(faults, 2)
            names = [(a.name, b.name) for a, b in pairs if a.family != b.family]
        elif kind == "decoy":
            names = [(mutation.name,) for mutation in plants if mutation.decoy]
        kind_cases = sorted(
            (Case(script, mutations, device, side) for mutations in names), key=_rank
        )
        rows += kind_cases[:_MAX_PAIRS] if kind == "pair" else kind_cases
    return sorted(rows, key=_rank)


def _rank(case: Case) -> int:
    return _hash(case.name)


def _words(case: Case) -> list[str]:
    families = [f"family {case.kind} {MUTATIONS[name].family}" for name in case.mutations]
    script = [f"script {case.script}", f"script {case.kind} {case.script}"]
    return [*script, *case.mutations, *families]


def _measure_use(case: Case, uses: Counter[str]) -> tuple[int, int]:
    """Return how often what a case holds was taken, what is of one device before other cases."""
    n_devices = sum(len(MUTATIONS[name].devices) for name in case.mutations)
    return sum(uses[word] for word in _words(case)), n_devices
