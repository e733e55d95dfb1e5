"""One record at a time: unpacked, studied, asked; in a process of its own if there are many."""

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

from benchmarks.judging.answers import Answer
from benchmarks.judging.baselines import BASELINES, Opened
from benchmarks.judging.health import identity, steadiness, sums_exactly
from benchmarks.judging.ours import Said, residuals, says
from benchmarks.judging.records import Record
from gapless.replay import calibration
from gapless.replay.calibration import Residual
from gapless.store.recordings import load
from gapless.store.unpack import unpack
from gapless.study import Options
from gapless.study.price import Prices
from gapless.study.recorded.making import accounted, prices


@dataclass(frozen=True)
class Health:
    """What must hold of a record whatever its truth; ``None``: it could not be seen."""

    exact: bool  # every account sums to its time
    imputed: float | None  # unchanged, replayed: off the trace
    unprofiled: float | None  # and off the un-profiled step
    unsteady: float | None  # how far the leaves of neighbouring windows differ
    refused: str | None  # why nothing of it is replayed


@dataclass(frozen=True)
class Looked:
    """All that was said of a record, without anything that is fitted."""

    answer: Answer
    others: Mapping[str, Answer]
    residuals: tuple[Residual, ...]
    health: Health


def look(record: Record) -> Looked:
    """Ask gapless, its intervals as they come, and the baselines; see what must hold."""
    with tempfile.TemporaryDirectory(prefix="gapless-judge-") as place:
        folder, priced = opened(record, Path(place))
        said = without(priced, record, ())
        others = {name: tool(Opened(record, priced.seen)) for name, tool in BASELINES.items()}
        imputed, unprofiled = identity(said.study)
        diagnosis = said.study.diagnosis
        rehearsal = diagnosis.rehearsal if diagnosis is not None else None
        health = Health(
            sums_exactly(said.study),
            imputed,
            unprofiled,
            steadiness(folder),
            None if rehearsal is None else rehearsal.refused,
        )
    return Looked(said.answer, others, tuple(residuals(said, record)), health)


def look_again(record: Record, known: Sequence[Residual]) -> Answer:
    """Ask gapless with intervals that the errors on all other kinds of training have widened."""
    with tempfile.TemporaryDirectory(prefix="gapless-judge-") as place:
        _, priced = opened(record, Path(place))
        return without(priced, record, known).answer


def without(priced: Prices, record: Record, known: Sequence[Residual]) -> Said:
    """Ask gapless, with the residuals of all kinds of training but this record's."""
    others = tuple(one for one in known if one.training != record.kind)
    with patch.object(calibration, "committed", lambda: others):
        return says(priced, record)


def opened(record: Record, place: Path) -> tuple[Path, Prices]:
    """Unpack a record and study it; give its folder, and what changes of it are priced with."""
    folder = unpack(record.run, place)
    made = accounted(load(folder), Options(cache=False), _nothing)
    return folder, prices(made, cached=False)


def _nothing(_: str) -> None:
    """Say nothing of the progress."""
