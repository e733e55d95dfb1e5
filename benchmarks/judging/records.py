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
from gapless.model.estimate import Estimate

ROOT: Final = Path(__file__).resolve().parents[2]
ZOO: Final = ROOT / "tests" / "zoo" / "records"
STRANGERS: Final = ROOT / "tests" / "strangers" / "records"
MIN_GAIN: Final = 0.02  # a gain that counts: what parts a sound case from a faulty one
MIN_BEST_GAIN: Final = 0.05  # the best gain of a case that a tool must find
MAX_EXACT_EFFECT: Final = 0.05  # the smallest effect that a line must have been able to show
MAX_ROUGH_EFFECT: Final = (
    0.15  # likewise, where the noise of the measurement may make intervals wider
)
FAULTY, SOUND, UNDECIDED = "faulty", "sound", "undecided"
CEILING: Final = "ceiling"


@dataclass(frozen=True)
class MenuLine:
    """A change on a menu, and what it was measured to be worth."""

    name: str
    fix: str | None  # of the catalogue, without its value: "more-workers"
    edits: tuple[Mapping[str, Any], ...]
    against: Against  # the causes that it does away with; more than one: a joint line
    family: str  # of what it changes: "feed", "sync" …
    ceiling: bool
    speedup: Estimate | None  # None: it failed
    smallest_seen: float | None

    @property
    def single(self) -> bool:
        """Return whether it is one remedy: neither an ablation nor several at once."""
        return not self.ceiling and len(self.against) <= 1

    @property
    def causes(self) -> frozenset[str]:
        """Return all words for what it is against."""
        return frozenset[str]().union(*self.against)

    @property
    def harmless(self) -> bool:
        """Return whether it was measured to give less than what counts."""
        return self.speedup is not None and self.speedup.high < 1 + MIN_GAIN

    @property
    def rough(self) -> bool:
        """Return whether it was measured well enough to fit the width of intervals to it."""
        return self.smallest_seen is not None and self.smallest_seen <= MAX_ROUGH_EFFECT

    @property
    def exact(self) -> bool:
        """Return whether it was measured well enough to judge a predicted gain by it."""
        return self.smallest_seen is not None and self.smallest_seen <= MAX_EXACT_EFFECT


@dataclass(frozen=True)
class Record:
    """A case: its menu, and where its recording is."""

    case: str
    kind: str  # of training: what is left out together where something is fitted
    truth: str  # FAULTY, SOUND, UNDECIDED: by the menu
    lines: tuple[MenuLine, ...]
    run: Path

    @property
    def best(self) -> MenuLine | None:
        """Return the single remedy that gained most of those that were shown to gain anything."""
        proven = [pair for pair in self._measured_singles() if pair[1].low > 1]
        return max(proven, key=lambda pair: pair[1].mid)[0] if proven else None

    @property
    def acceptable(self) -> tuple[MenuLine, ...]:
        """Return the remedies that may be called best: those within the interval of the best."""
        best = self.best
        if best is None or best.speedup is None:
            return ()
        return tuple(
            line for line, speedup in self._measured_singles() if speedup.mid >= best.speedup.low
        )

    @property
    def matters(self) -> bool:
        """Return whether there is something that a tool must find."""
        best = self.best
        return (
            self.truth == FAULTY
            and best is not None
            and best.speedup is not None
            and best.speedup.mid >= 1 + MIN_BEST_GAIN
        )

    def _measured_singles(self) -> list[tuple[MenuLine, Estimate]]:
        return [
            (line, line.speedup) for line in self.lines if line.single and line.speedup is not None
        ]


def truth_of(lines: Sequence[MenuLine]) -> str:
    """Say what a menu has shown: ``FAULTY`` if anything on it is worth naming, ``SOUND`` if not.

    Ceilings are no remedies. Where an interval leaves it open: ``UNDECIDED``.
    """
    speedups = [line.speedup for line in lines if not line.ceiling and line.speedup is not None]
    if any(speedup.low > 1 + MIN_GAIN for speedup in speedups):
        return FAULTY
    if speedups and all(speedup.high < 1 + MIN_GAIN for speedup in speedups):
        return SOUND
    return UNDECIDED


def read_record(folder: Path) -> Record:
    """Read a record."""
    menu = json.loads((folder / "menu.json").read_text(encoding="utf-8"))
    return record_from_menu(menu, folder / menu["run"])


def record_from_menu(menu: Mapping[str, Any], run: Path) -> Record:
    """Return the record that a menu tells of."""
    lines = tuple(_line(menu["case"], row) for row in menu["menu"])
    return Record(menu["case"], menu["family"], truth_of(lines), lines, run)


def read_records(folder: Path) -> tuple[Record, ...]:
    """Read all records below a folder."""
    return tuple(read_record(path.parent) for path in sorted(folder.glob("*/menu.json")))


def _line(case: str, row: Mapping[str, Any]) -> MenuLine:
    fix = None if row["fix"] is None else str(row["fix"]).partition("=")[0]
    variant, edits = row["variant"], tuple(row["edits"])
    against = against_of_edits(fix, edits) if variant is None else against_of(case, variant)
    speedup = row["speedup"]
    return MenuLine(
        name=row["name"],
        fix=fix,
        edits=edits,
        against=against,
        family=family_of(against) if fix is None else FAMILY_OF.get(fix, "host"),
        ceiling=row["role"] == CEILING,
        speedup=None if speedup is None else Estimate(**speedup),
        smallest_seen=row["smallest_seen"],
    )
