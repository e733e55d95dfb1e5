"""Judge what is said of trainings of several ranks by what was planted in them, and measured.

What must be named first was written down with each case (``tests/jobs/cases.py``): a cause by its
code; where one rank is late, that rank, and the function that it is late in.
"""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any, Final

import msgspec
from msgspec import Struct

from benchmarks.judging.metrics import gain_points
from gapless.model.edit import Applicability, Proposal, edit_from_json
from gapless.model.estimate import Estimate
from gapless.model.finding import Detection, Finding
from gapless.pricing.diagnose import diagnose
from gapless.pricing.price import Prices
from gapless.pricing.propose import predict_together
from gapless.recorded.nodes.join import join_recordings
from gapless.replay.predict.identity import MAX_ERROR
from gapless.store.run.recordings import load
from gapless.store.run.unpack import unpack
from gapless.study import Options
from gapless.study.build_run import account_run, prices_of_run
from tests.jobs.cases import TRUTHS, Truth
from tests.zoo.menus import REMEDY

_MIN_GAIN: Final = 1.05  # that a cause has to be worth for it to have to be named
_ROUGH_POINTS: Final = 5.0  # half of a measured interval: what is wider decides no error


class FixAnswer(Struct, frozen=True):
    """A named fix on the menu of a job: what it was foretold to give, and what it gave."""

    fix: str
    predicted: Estimate
    measured: Estimate

    @property
    def is_covered(self) -> bool:
        """Return whether the measured gain, as far as it is known, meets the interval."""
        return self.predicted.low <= self.measured.high and self.measured.low <= self.predicted.high


class JobAnswer(Struct, frozen=True):
    """What was said of a record, beside what is true of it; ``None``: nothing to compare."""

    case: str
    is_sound: bool
    first: str | None  # what was named first
    is_right: bool
    n_named: int  # with what is worth a trial
    predicted: Estimate | None
    measured: Estimate | None
    identity: float | None  # the joint replay, unchanged: off the trace
    refused: str | None
    at_most: Estimate | None = None  # what removing the cause as a whole would give
    fixes: tuple[FixAnswer, ...] = ()

    @property
    def error_points(self) -> float | None:
        """Return the error of the gain, in points of the step; ``None`` if it was not foretold."""
        if self.predicted is None or self.measured is None or not self.is_right:
            return None
        return gain_points(self.predicted.mid) - gain_points(self.measured.mid)

    @property
    def is_covered(self) -> bool | None:
        """Return whether the measured gain lies within the predicted interval."""
        if self.error_points is None or self.predicted is None or self.measured is None:
            return None
        return self.predicted.low <= self.measured.mid <= self.predicted.high

    @property
    def is_slight(self) -> bool:
        """Return whether what was planted was measured to be worth less than a name."""
        return not self.is_sound and self.measured is not None and self.measured.mid < _MIN_GAIN

    @property
    def is_rough(self) -> bool:
        """Return whether the gain was measured too roughly to judge a price by it."""
        measured = self.measured
        if measured is None:
            return True
        return gain_points(measured.high) - gain_points(measured.low) > 2 * _ROUGH_POINTS


def judge_record(folder: Path, scratch: Path) -> JobAnswer:
    """Ask about a record, and compare the answer with its truth and its menu."""
    records = sorted(folder.glob("run*.tar.zst"))
    prices = price_run(*(unpack(record, scratch / record.stem) for record in records))
    diagnosis = diagnose(prices)
    truth = TRUTHS[folder.name]
    named = (*diagnosis.findings, *(candidate.finding for candidate in diagnosis.to_try))
    first = named[0] if named else None
    path = folder / "menu.json"
    menu: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {"menu": []}
    fidelity = diagnosis.fidelity
    return JobAnswer(
        case=folder.name,
        is_sound=not truth.codes,
        first=None if first is None else describe(first.detection),
        is_right=is_named(first, truth),
        n_named=len(named),
        predicted=None if first is None else first.prediction.speedup,
        measured=measured_gain(menu),
        identity=None if fidelity is None else fidelity.imputed,
        refused=None if fidelity is None else fidelity.refused,
        at_most=None if first is None else first.prediction.at_most,
        fixes=tuple(judge_fixes(prices, menu)),
    )


def price_run(*runs: Path) -> Prices:
    """Return what the causes of a run are priced by, of a job on all its hosts, without a cache."""
    options = Options(cache=False)
    recording, *others = map(load, runs)
    if others:
        recording = join_recordings((recording, *others), options, _ignore_progress)
    account = account_run(recording, options, _ignore_progress)
    return prices_of_run(account, cached=False)


def judge_fixes(prices: Prices, menu: dict[str, Any]) -> Iterator[FixAnswer]:
    """Yield the fixes on a menu that were measured and that have a price."""
    for line in menu["menu"]:
        if line["fix"] is None or line["speedup"] is None:
            continue
        edits = tuple(edit_from_json(dict(edit)) for edit in line["edits"])
        proposal = Proposal(line["fix"], line["name"], edits, Applicability.RISKY)
        prediction = predict_together(prices, [proposal])
        if prediction.speedup is not None:
            yield FixAnswer(line["fix"], prediction.speedup, Estimate(**line["speedup"]))


def is_named(first: Finding | None, truth: Truth) -> bool:
    """Return whether what is named first is what was planted; of a sound training, nothing is."""
    if first is None or not truth.codes:
        return first is None and not truth.codes
    detection = first.detection
    if truth.host is not None:
        return detection.code in truth.codes and detection.host == truth.host
    if truth.rank is None or detection.rank is None:
        return detection.code in truth.codes and truth.rank is None
    if detection.rank != truth.rank:
        return False
    function = "" if detection.location is None else detection.location.function or ""
    return not truth.functions or function.rpartition(".")[2] in truth.functions


def describe(detection: Detection) -> str:
    """Return a cause with its line and its rank."""
    location = detection.location
    line = "" if location is None else f" {Path(location.file).name}:{location.line}"
    rank = "" if detection.rank is None else f" on rank {detection.rank}"
    host = "" if detection.host is None else f" on {detection.host}"
    return f"{detection.code} {detection.name}{line}{rank}{host}"


def measured_gain(menu: dict[str, Any]) -> Estimate | None:
    """Return what the training gained without what was planted."""
    for line in menu["menu"]:
        if line["role"] == REMEDY and line["variant"] is not None and line["speedup"] is not None:
            return Estimate(**line["speedup"])
    return None


def summarize_answers(answers: Sequence[JobAnswer]) -> dict[str, Any]:
    """Return how often causes were right, alarms false, and gains as foretold."""
    faulty = [answer for answer in answers if not answer.is_sound and not answer.is_slight]
    late = [answer for answer in faulty if TRUTHS[answer.case].rank is not None]
    sound = [answer for answer in answers if answer.is_sound]
    errors = [
        abs(answer.error_points)
        for answer in faulty
        if answer.error_points is not None and not answer.is_rough
    ]
    imputed = [abs(answer.identity) for answer in answers if answer.identity is not None]
    return {
        "first": _count([answer.is_right for answer in faulty]),
        "first_of_late": _count([answer.is_right for answer in late]),
        "false_alarms": _count([answer.n_named > 0 for answer in sound]),
        "slight": sum(answer.is_slight for answer in answers),
        "measured": sum(answer.measured is not None for answer in faulty),
        "gain_error": {"of": len(errors), "points": fmean(errors) if errors else None},
        "covered": _count(
            [answer.is_covered for answer in faulty if answer.is_covered is not None]
        ),
        "fixes_covered": _count([fix.is_covered for answer in answers for fix in answer.fixes]),
        "identity": _count([error <= MAX_ERROR for error in imputed]),
        "refused": sum(answer.refused is not None for answer in answers),
    }


def _count(flags: Sequence[bool]) -> dict[str, int]:
    return {"count": sum(flags), "of": len(flags)}


def answer_to_json(answer: JobAnswer) -> dict[str, Any]:
    """Return an answer as it is kept."""
    document: dict[str, Any] = msgspec.to_builtins(answer)
    return document | {
        "error_points": answer.error_points,
        "is_covered": answer.is_covered,
        "is_rough": answer.is_rough,
        "is_slight": answer.is_slight,
    }


def _ignore_progress(_: str) -> None:
    """Say nothing of the progress."""
