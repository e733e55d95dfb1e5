"""One record at a time: unpacked, studied, asked; in a process of its own if there are many."""

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

from benchmarks.judging.answers import Answer
from benchmarks.judging.baselines import BASELINES, OpenedRecord
from benchmarks.judging.health import has_exact_sums, identity, steadiness
from benchmarks.judging.ours import CheckedAnswer, ask_gapless, residuals
from benchmarks.judging.records import Record
from gapless.pricing.price import Prices
from gapless.replay.predict import calibration
from gapless.replay.predict.calibration import Residual
from gapless.store.run.recordings import load
from gapless.store.run.unpack import unpack
from gapless.study import Options
from gapless.study.build_run import account_run, prices_of_run


@dataclass(frozen=True)
class RecordHealth:
    """What must hold of a record whatever its truth; ``None``: it could not be seen."""

    exact: bool  # every account sums to its time
    imputed: float | None  # unchanged, replayed: off the trace
    unprofiled: float | None  # and off the un-profiled step
    unsteady: float | None  # how far the leaves of neighbouring windows differ
    refused: str | None  # why nothing of it is replayed


@dataclass(frozen=True)
class Inspection:
    """All that was said of a record, without anything that is fitted."""

    answer: Answer
    baselines: Mapping[str, Answer]
    residuals: tuple[Residual, ...]
    health: RecordHealth


def inspect_record(record: Record) -> Inspection:
    """Ask gapless, its intervals as they come, and the baselines; see what must hold."""
    with tempfile.TemporaryDirectory(prefix="gapless-judge-") as scratch:
        folder, record_prices = study_record(record, Path(scratch))
        checked = ask_held_out(record_prices, record, ())
        baselines = {
            name: tool(OpenedRecord(record, record_prices.evidence))
            for name, tool in BASELINES.items()
        }
        imputed, unprofiled = identity(checked.study)
        diagnosis = checked.study.diagnosis
        fidelity = diagnosis.fidelity if diagnosis is not None else None
        health = RecordHealth(
            has_exact_sums(checked.study),
            imputed,
            unprofiled,
            steadiness(folder),
            None if fidelity is None else fidelity.refused,
        )
    return Inspection(checked.answer, baselines, tuple(residuals(checked, record)), health)


def ask_again(record: Record, fitted: Sequence[Residual]) -> Answer:
    """Ask gapless with intervals that the errors on all other kinds of training have widened."""
    with tempfile.TemporaryDirectory(prefix="gapless-judge-") as scratch:
        _, record_prices = study_record(record, Path(scratch))
        return ask_held_out(record_prices, record, fitted).answer


def ask_held_out(
    record_prices: Prices, record: Record, fitted: Sequence[Residual]
) -> CheckedAnswer:
    """Ask gapless, with the residuals of all kinds of training but this record's."""
    other_kinds = tuple(residual for residual in fitted if residual.training != record.kind)
    with patch.object(calibration, "load_residuals", lambda: other_kinds):
        return ask_gapless(record_prices, record)


def study_record(record: Record, scratch: Path) -> tuple[Path, Prices]:
    """Unpack a record and study it; give its folder, and what changes of it are priced with."""
    folder = unpack(record.run, scratch)
    account = account_run(load(folder), Options(cache=False), _ignore_progress)
    return folder, prices_of_run(account, cached=False)


def _ignore_progress(_: str) -> None:
    """Say nothing of the progress."""
