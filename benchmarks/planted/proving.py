"""Show whether a cause that was named of a sound case costs something: the script without it.

Both are measured side by side, as truths are, with more starts, until what is measured says whether
the cause costs more than 5 % of a step or not. Surest first: a remedy that was written by hand for
the cause, in a file of TOML::

    [[remedy]]
    script = "NAME"
    code = "G221"  # of the cause
    samples = 1.0  # in a step, times as many as without it (2.0: a batch of twice the size)
    edits = [{ file = "model.py", old = "validate()", new = "" }]

then what is left out while the script runs (``counting/removing``); the fixes that gapless names,
and other settings, applied by its recorder, which is in both; the statements at the lines, left out
or, where they cannot go, done twice; the function that a line is in, done twice, which holds more
than the cause: only little of it tells something. That a step calls too much is shown by batches of
twice the size in the same time, and by the function compiled.
"""

import json
import math
import shutil
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from benchmarks.planted import truth
from benchmarks.planted.altering import check_effects
from benchmarks.planted.cases import Case
from benchmarks.planted.changing import Change, Subject, make_changes
from benchmarks.planted.growing import check_growth
from benchmarks.planted.judging import spread as spread_of_starts
from benchmarks.planted.judging import training_causes
from benchmarks.planted.outcomes import Outcome, is_proof_of, outcome_of_removal
from benchmarks.planted.running import OPERATORS, Alteration, Lane, RunError, prepare
from benchmarks.planted.scripts import FetchError, scripts
from benchmarks.planted.working import (
    PlantOptions,
    measure_side_by_side,
    plant_case,
    write_record,
)

# Starts differ by 6 %: eight of them tell 5 % of a step from nothing; most proofs need fewer.
_PROOF_STARTS: Final = 8
_MAX_STARTS: Final = 12
_MIN_STARTS: Final = 2
_STARTING_S: Final = 12.0  # both sides of a proof, once
_MAX_PAIRS: Final = 6  # of turns in a start: further ones tell less than a further start
_SPREAD: Final = 0.06  # of starts, at the least, as long as there are few of them
# Times as wide an interval: who looks after each start whether it is enough, errs more often.
_LOOK_FACTOR: Final = 1.4
_MAX_FOREIGN: Final = 0.2  # of the processors in the median pair: on calm machines a hundredth
_MIN_REST: Final = 0.02  # of a step, that stays without a cause

Json = Mapping[str, Any]


def prove_named(case: Case, lane: Lane, options: PlantOptions) -> str:
    """Measure a sound case without what was named first: is it an alarm? Keep what was measured."""
    path = options.out / case.half / f"{case.name}.json"
    answer_path = options.out / case.half / "answers" / path.name
    if case.kind not in ("control", "decoy") or not path.exists() or not answer_path.exists():
        return ""
    case_record: dict[str, Any] = json.loads(path.read_text())
    causes = training_causes(json.loads(answer_path.read_text()).get("findings"))[:1]
    if (
        not causes
        or "failed" in case_record
        or not _may_begin(case_record, causes[0], lane, options)
    ):
        return ""
    lane = lane.of_record(case_record)
    root = lane.folder / "proved" / case.name
    earlier = _take_earlier(case_record, causes[0])
    try:
        prepare(scripts()[case.script], root, options.sources)
        plant_case(case, root, case_record["step_s"])
        shown = _measure_changes(case, causes[0], earlier, (lane, root), options)
    except (RunError, FetchError, OSError) as error:
        shown = {"not_removed": str(error)[-600:]}
    finally:
        shutil.rmtree(root, ignore_errors=True)
        shutil.rmtree(lane.folder / "spools", ignore_errors=True)
    case_record |= shown if "removal" in shown else shown | earlier
    write_record(path, case_record)
    return _describe(case_record, spread_of_starts(options.out, case.device))


def _describe(case_record: Json, spread: float | None) -> str:
    removal = case_record.get("removal")
    if removal is None:
        return f"not proved: {case_record.get('not_removed', '')[-300:]}"
    return f"proved: {outcome_of_removal(removal, spread)}, by {case_record['removed_by']}"


def _may_begin(case_record: Json, finding: Json, lane: Lane, options: PlantOptions) -> bool:
    """Return whether a proof is wanted, and would be done in time: else it decides nothing."""
    removal = case_record.get("removal")
    spread = spread_of_starts(options.out, lane.device)
    is_wanted = removal is None or not is_proof_of(case_record, finding)
    if not is_wanted and removal is not None and "undecided" in options.redo:
        is_wanted = outcome_of_removal(removal, spread) == "open"
    needed_s = options.check_s_on(lane.device) + options.trial_s + _PROOF_STARTS * _STARTING_S
    return is_wanted and time.monotonic() + needed_s <= options.end


def _take_earlier(case_record: dict[str, Any], finding: Json) -> dict[str, Any]:
    """Take out what an earlier call left; give what it measured of this cause, and by what."""
    is_same = is_proof_of(case_record, finding)
    names = ("removal", "removed_by", "removal_of", "not_removed")
    earlier = {name: case_record.pop(name) for name in names if name in case_record}
    return earlier if is_same and "removal" in earlier else {}


def _measure_changes(
    case: Case, finding: Json, earlier: Json, place: tuple[Lane, Path], options: PlantOptions
) -> dict[str, Any]:
    """Return ``removal``, what a script gains without a cause, or why no change of it ran.

    The first change that proves the cause is the last; of others that with the largest gain stays.
    """
    lane, root = place
    changed = lane.folder / "changed" / case.name
    check_s = options.check_s_on(lane.device)
    subject = Subject(scripts()[case.script], finding, changed, lane, check_s, options.remedies)
    trial = Trial(subject, root, options, spread_of_starts(options.out, lane.device), earlier)
    proofs: list[dict[str, Any]] = []
    reasons: list[str] = []
    for make in make_changes(subject):
        for shown in _measure_each(make, trial, reasons):
            proofs.append(shown)
            if trial.outcome(shown["removal"]) == "true":
                break
        if any(trial.outcome(shown["removal"]) != "open" for shown in proofs):
            break
    if not proofs:
        return {"not_removed": "; ".join(reasons) or "nothing shows it"}
    location: Json = finding["where"] or {}
    cause = {"code": finding["code"], "file": location.get("file")}
    return max(proofs, key=trial.rank) | {"removal_of": cause}


@dataclass(frozen=True)
class Trial:
    """What changes of a script are measured for and beside, and with what."""

    subject: Subject
    root: Path  # the script as it is
    options: PlantOptions
    spread: float | None  # of starts, as it is judged by
    earlier: Json  # of an earlier call: its removal, and by what

    def outcome(self, removal: Json) -> Outcome:
        """Return what a removal shows."""
        return outcome_of_removal(removal, self.spread)

    def rank(self, shown: Json) -> tuple[int, float]:
        """Return how much a proof tells: that a cause costs something most, nothing least."""
        outcomes: tuple[Outcome, ...] = ("open", "false", "true")
        return outcomes.index(self.outcome(shown["removal"])), shown["removal"]["high"]

    def joined(self, change: Change, gain: truth.Truth) -> dict[str, Any]:
        """Return what was measured, with what an earlier call measured of the same change."""
        is_same = self.earlier.get("removed_by") == change.name
        return truth.joined(self.earlier["removal"] if is_same else None, gain)

    def suffices(self, change: Change, measured: truth.Truth) -> bool:
        """Return whether what was measured decides, though it is looked at after each start.

        Raises ``RunError`` where the change had no effect, or others work all the time.
        """
        _check_change(self, change)
        removal = self.joined(change, gain_of(measured, change.without_cause))
        if len(set(removal["starts"])) < _MIN_STARTS:
            return False
        check_calm(measured)
        return outcome_of_removal(removal, max(self.spread or 0.0, _SPREAD), _LOOK_FACTOR) != "open"


def _measure_each(
    make: Callable[[Subject], Iterator[Change]], trial: Trial, reasons: list[str]
) -> Iterator[dict[str, Any]]:
    """Yield what the changes that run show of the cause; of others the reason is added."""
    subject = trial.subject
    try:
        _copy(trial.root, subject.root)
        for change in make(subject):
            try:
                gain = _measure_change(trial, change)
            except RunError as error:
                reasons.append(f"{change.name}: {str(error)[-600:]}")
                continue
            if gain is None:
                reasons.append(f"{change.name}: the source has nothing to change")
                continue
            removal = trial.joined(change, gain)
            if _tells(trial, change, trial.outcome(removal)):
                yield {"removal": removal, "removed_by": change.name}
            else:
                reasons.append(f"{change.name}: {gain.mid:.3f}× tells nothing")
            if change.is_last:
                break
    except RunError as error:
        reasons.append(str(error)[-600:])
    finally:
        shutil.rmtree(subject.root, ignore_errors=True)


def _copy(root: Path, target: Path) -> None:
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(root, target, symlinks=True)


def _tells(trial: Trial, change: Change, outcome: Outcome) -> bool:
    """Return whether a change shows what was measured; what decides nothing is kept of some."""
    tells = change.tells
    spool = trial.subject.lane.spool(trial.subject.root)
    if change.tells_of_operators is not None and (spool / OPERATORS).exists():
        tells = change.tells_of_operators
    return tells in ("either", outcome)


def _measure_change(trial: Trial, change: Change) -> truth.Truth | None:
    """Measure a script changed beside itself; ``None``: its source cannot be. Raises ``RunError``.

    Where gapless applies a change, its recorder is in both.
    """
    subject, root = trial.subject, trial.root
    lane, changed = subject.lane, subject.root
    _copy(root, changed)
    for folder in (changed, root):
        shutil.rmtree(lane.spool(folder), ignore_errors=True)
    if change.edit is not None and not change.edit(changed):
        return None
    alteration = change.alteration
    if alteration is not None:
        beside = Alteration(None if alteration.edits is None else (), watch=alteration.watch)
        lane = replace(lane, alterations={changed: alteration, root: beside})
    measured = measure_side_by_side(
        subject.script, (changed, root), lane, _proof_limits(trial, change)
    )
    _check_change(trial, change)
    check_calm(measured)
    return gain_of(measured, change.without_cause)


def _check_change(trial: Trial, change: Change) -> None:
    """Raise ``RunError`` where a change had no effect."""
    lane, alteration = trial.subject.lane, change.alteration
    if alteration is not None:
        check_effects(lane.spool(trial.subject.root), alteration)
    if alteration is not None and alteration.watch:
        check_growth(lane.spool(trial.subject.root), lane.spool(trial.root))


def check_calm(measured: truth.Truth) -> None:
    """Raise ``RunError`` where others worked on the processors most of the time."""
    if measured.foreign > _MAX_FOREIGN:
        raise RunError(f"others took {measured.foreign:.0%} of the processors")


def gain_of(measured: truth.Truth, without_cause: Callable[[float, float], float]) -> truth.Truth:
    """Return a measured speed-up of the changed script as what removing the cause gains.

    Start by start: a turn in which others worked may take twice as long, and would be all gain.
    """
    low, mid, high = sorted(
        1 / max(without_cause(1 / ratio, 1.0), _MIN_REST)
        for ratio in (measured.low, measured.mid, measured.high)
    )
    rows = list(zip(measured.starts, measured.healthy_s, measured.planted_s, strict=True))
    remaining = {
        start: max(without_cause(math.exp(statistics.mean(ratios)), 1.0), _MIN_REST)
        for start in set(measured.starts)
        if (ratios := [math.log(changed_s / s) for row, changed_s, s in rows if row == start])
    }
    return replace(
        measured,
        low=low,
        mid=mid,
        high=high,
        healthy_s=tuple(remaining[start] * plain_s for start, _, plain_s in rows),
        verdict=truth.verdict(low, mid, high),
    )


def _proof_limits(trial: Trial, change: Change) -> truth.Limits:
    """Return limits by which a small effect can be proved, or that there is none."""
    limits = trial.options.limits(trial.subject.lane.device)
    seconds = trial.options.trial_s * _MAX_STARTS / _PROOF_STARTS
    return replace(
        limits,
        pairs=min(_MAX_PAIRS, limits.pairs),
        seconds=seconds,
        at_most=seconds * limits.at_most / limits.seconds,
        starts=_MAX_STARTS,
        suffices=partial(trial.suffices, change),
    )
