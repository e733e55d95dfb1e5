"""Records as a judge reads them: what was seen of a training, and what each change was worth.

What is true of a case comes from its measured menu alone; what its author believed is not read.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from benchmarks.judging.causes import (
    FAMILY_OF,
    Against,
    against_of,
    against_of_edits,
    family_of,
)
from gapless.model.interval import Interval

ROOT: Final = Path(__file__).resolve().parents[2]
ZOO: Final = ROOT / "tests" / "zoo" / "records"
STRANGERS: Final = ROOT / "tests" / "strangers" / "records"
WORTH: Final = 0.02  # a gain that counts: what parts a sound case from a faulty one
MATTERS: Final = 0.05  # the best gain of a case that a tool must find
SEEN: Final = 0.05  # the smallest effect that a line must have been able to show
ROUGHLY: Final = 0.15  # likewise, where the noise of the measurement may make intervals wider
FAULTY, SOUND, UNDECIDED = "faulty", "sound", "undecided"
CEILING: Final = "ceiling"


@dataclass(frozen=True)
class Line:
    """A change on a menu, and what it was measured to be worth."""

    name: str
    fix: str | None  # of the catalogue, without its value: "more-workers"
    edits: tuple[Mapping[str, Any], ...]
    against: Against  # the causes that it does away with; more than one: a joint line
    family: str  # of what it changes: "feed", "sync" …
    ceiling: bool
    speedup: Interval | None  # None: it failed
    smallest_seen: float | None

    @property
    def single(self) -> bool:
        """Tell whether it is one remedy: neither an ablation nor several at once."""
        return not self.ceiling and len(self.against) <= 1

    @property
    def causes(self) -> frozenset[str]:
        """Give all words for what it is against."""
        return frozenset[str]().union(*self.against)

    @property
    def harmless(self) -> bool:
        """Tell whether it was measured to give less than what counts."""
        return self.speedup is not None and self.speedup.high < 1 + WORTH

    @property
    def rough(self) -> bool:
        """Tell whether it was measured well enough to fit the width of intervals to it."""
        return self.smallest_seen is not None and self.smallest_seen <= ROUGHLY

    @property
    def exact(self) -> bool:
        """Tell whether it was measured well enough to judge a predicted gain by it."""
        return self.smallest_seen is not None and self.smallest_seen <= SEEN


@dataclass(frozen=True)
class Record:
    """A case: its menu, and where its recording is."""

    case: str
    kind: str  # of training: what is left out together where something is fitted
    truth: str  # FAULTY, SOUND, UNDECIDED: by the menu
    lines: tuple[Line, ...]
    run: Path

    @property
    def best(self) -> Line | None:
        """Give the single remedy that gained most of those that were shown to gain anything."""
        proven = [one for one in self._measured() if one[1].low > 1]
        return max(proven, key=lambda one: one[1].mid)[0] if proven else None

    @property
    def accepted(self) -> tuple[Line, ...]:
        """Give the remedies that may be called best: those within the interval of the best."""
        best = self.best
        if best is None or best.speedup is None:
            return ()
        return tuple(line for line, found in self._measured() if found.mid >= best.speedup.low)

    @property
    def matters(self) -> bool:
        """Tell whether there is something that a tool must find."""
        best = self.best
        return (
            self.truth == FAULTY
            and best is not None
            and best.speedup is not None
            and best.speedup.mid >= 1 + MATTERS
        )

    def _measured(self) -> list[tuple[Line, Interval]]:
        return [(one, one.speedup) for one in self.lines if one.single and one.speedup is not None]


def truth_of(lines: Sequence[Line]) -> str:
    """Say what a menu has shown: ``FAULTY`` if anything on it is worth naming, ``SOUND`` if not.

    Ceilings are no remedies. Where an interval leaves it open: ``UNDECIDED``.
    """
    found = [one.speedup for one in lines if not one.ceiling and one.speedup is not None]
    if any(one.low > 1 + WORTH for one in found):
        return FAULTY
    if found and all(one.high < 1 + WORTH for one in found):
        return SOUND
    return UNDECIDED


def read(folder: Path) -> Record:
    """Read a record."""
    menu = json.loads((folder / "menu.json").read_text(encoding="utf-8"))
    return parsed(menu, folder / menu["run"])


def parsed(menu: Mapping[str, Any], run: Path) -> Record:
    """Give the record that a menu tells of."""
    lines = tuple(_line(menu["case"], one) for one in menu["menu"])
    return Record(menu["case"], menu["family"], truth_of(lines), lines, run)


def all_of(folder: Path) -> tuple[Record, ...]:
    """Read all records below a folder."""
    return tuple(read(found.parent) for found in sorted(folder.glob("*/menu.json")))


def _line(case: str, told: Mapping[str, Any]) -> Line:
    fix = None if told["fix"] is None else str(told["fix"]).partition("=")[0]
    variant, edits = told["variant"], tuple(told["edits"])
    against = against_of_edits(fix, edits) if variant is None else against_of(case, variant)
    speedup = told["speedup"]
    return Line(
        name=told["name"],
        fix=fix,
        edits=edits,
        against=against,
        family=family_of(against) if fix is None else FAMILY_OF.get(fix, "host"),
        ceiling=told["role"] == CEILING,
        speedup=None if speedup is None else Interval(**speedup),
        smallest_seen=told["smallest_seen"],
    )
