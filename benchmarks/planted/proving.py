"""Show whether a cause that was named of a sound case costs something: the script without it.

Both are measured side by side, as truths are. Surest first: a remedy that was written by hand for
the cause, in a file of TOML::

    [[remedy]]
    script = "NAME"
    code = "G221"  # of the cause
    samples = 1.0  # in a step, times as many as without it (2.0: a batch of twice the size)
    edits = [{ file = "model.py", old = "validate()", new = "" }]

then the fixes that gapless names, applied by its recorder, which is in both; what is left out while
the script runs (``counting/removing.py``); the statement at the line, left out or, where it cannot
go, done twice. That a step calls too much is shown by batches of twice the size in the same time.
"""

import json
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from benchmarks.planted import truth
from benchmarks.planted.altering import check_effects
from benchmarks.planted.cases import Case
from benchmarks.planted.changing import Change, Subject, make_changes
from benchmarks.planted.judging import training_causes
from benchmarks.planted.running import Alteration, Lane, RunError, prepare
from benchmarks.planted.scripts import FetchError, scripts
from benchmarks.planted.working import (
    PlantOptions,
    measure_side_by_side,
    plant_case,
    write_record,
)

# Two starts differ by 6 %: by two of them nothing is proved that gains less than 8 %, or anything
# more than none disproved.
_PROOF_STARTS: Final = 8
_STARTING_S: Final = 12.0  # both sides of a proof, once
_MIN_REST: Final = 0.02  # of a step, that stays without a cause


def prove_named(case: Case, lane: Lane, options: PlantOptions) -> str:
    """Measure a sound case without what was named first: is it an alarm? Keep what was measured."""
    path = options.out / case.half / f"{case.name}.json"
    answer_path = options.out / case.half / "answers" / path.name
    if case.kind not in ("control", "decoy") or not path.exists() or not answer_path.exists():
        return ""
    case_record: dict[str, Any] = json.loads(path.read_text())
    causes = training_causes(json.loads(answer_path.read_text()).get("findings"))[:1]
    if not causes or "failed" in case_record or not _may_begin(case_record, lane, options):
        return ""
    root = lane.folder / "proved" / case.name
    try:
        prepare(scripts()[case.script], root, options.sources)
        plant_case(case, root, case_record["step_s"])
        case_record.pop("not_removed", None)  # of an earlier call
        case_record |= _measure_changes(case, causes[0], (lane, root), options)
    except (RunError, FetchError, OSError) as error:
        return f"not proved: {str(error)[-300:]}"
    finally:
        shutil.rmtree(root, ignore_errors=True)
        shutil.rmtree(lane.folder / "spools", ignore_errors=True)
        write_record(path, case_record)
    return "proved" if case_record.get("removal") else "not proved"


def _may_begin(case_record: Mapping[str, Any], lane: Lane, options: PlantOptions) -> bool:
    """Return whether a proof is wanted, and would be done in time: else it decides nothing."""
    verdict = case_record.get("removal", {}).get("verdict")
    is_wanted = verdict is None or (verdict == "undecided" and "undecided" in options.redo)
    needed_s = options.check_s_on(lane.device) + options.trial_s + _PROOF_STARTS * _STARTING_S
    return is_wanted and time.monotonic() + needed_s <= options.end


def _measure_changes(
    case: Case, finding: Mapping[str, Any], place: tuple[Lane, Path], options: PlantOptions
) -> dict[str, Any]:
    """Return ``removal``, what a script gains without a cause, or why no change of it ran.

    The first change that proves the cause is the last; of others that with the largest gain stays.
    """
    lane, root = place
    changed = lane.folder / "changed" / case.name
    check_s = options.check_s_on(lane.device)
    subject = Subject(scripts()[case.script], finding, changed, lane, check_s, options.remedies)
    removal: dict[str, Any] = {}
    reasons: list[str] = []
    for make in make_changes(subject):
        for change, gain in _measure_each(make, subject, (root, options), reasons):
            if _tells(change, gain) and gain.high > removal.get("removal", {}).get("high", 0):
                removal = {"removal": gain.plain(), "removed_by": change.name}
            if removal and (change.is_last or removal["removal"]["verdict"] == "faulty"):
                return removal
        if removal:
            return removal
    return {"not_removed": "; ".join(reasons) or "nothing shows it"}


def _measure_each(
    make: Callable[[Subject], Iterator[Change]],
    subject: Subject,
    place: tuple[Path, PlantOptions],
    reasons: list[str],
) -> Iterator[tuple[Change, truth.Truth]]:
    """Yield the changes that run, with what they gain; of others the reason is added."""
    root, options = place
    try:
        _copy(root, subject.root)
        for change in make(subject):
            try:
                gain = _measure_change(subject, change, root, options)
            except RunError as error:
                reasons.append(f"{change.name}: {str(error)[-600:]}")
                continue
            if gain is None:
                reasons.append(f"{change.name}: its statement cannot be changed")
            else:
                yield change, gain
    except RunError as error:
        reasons.append(str(error)[-600:])
    finally:
        shutil.rmtree(subject.root, ignore_errors=True)


def _copy(root: Path, target: Path) -> None:
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(root, target, symlinks=True)


def _tells(change: Change, gain: truth.Truth) -> bool:
    shows = "true" if gain.verdict == "faulty" else "false"
    return change.tells in ("either", shows)


def _measure_change(
    subject: Subject, change: Change, root: Path, options: PlantOptions
) -> truth.Truth | None:
    """Measure a script changed beside itself; ``None``: its source cannot be. Raises ``RunError``.

    Where gapless applies a change, its recorder is in both.
    """
    lane, changed = subject.lane, subject.root
    _copy(root, changed)
    shutil.rmtree(lane.spool(changed), ignore_errors=True)
    if change.edit is not None and not change.edit(changed):
        return None
    if change.alteration is not None:
        unaltered = Alteration(None if change.alteration.edits is None else ())
        lane = replace(lane, alterations={changed: change.alteration, root: unaltered})
    limits = _lengthen(options.limits(lane.device), options.trial_s)
    measured = measure_side_by_side(subject.script, (changed, root), lane, limits)
    if change.alteration is not None:
        check_effects(lane.spool(changed), change.alteration)
    return _gain(measured, change.without_cause)


def _gain(measured: truth.Truth, without_cause: Callable[[float, float], float]) -> truth.Truth:
    """Return a measured speed-up of the changed script as what removing the cause gains."""
    pairs = tuple(zip(measured.healthy_s, measured.planted_s, strict=True))
    low, mid, high = sorted(
        1 / max(without_cause(1 / ratio, 1.0), _MIN_REST)
        for ratio in (measured.low, measured.mid, measured.high)
    )
    return replace(
        measured,
        low=low,
        mid=mid,
        high=high,
        healthy_s=tuple(max(without_cause(*pair), _MIN_REST * pair[1]) for pair in pairs),
        verdict=truth.verdict(low, mid, high),
    )


def _lengthen(limits: truth.Limits, seconds: float) -> truth.Limits:
    """Return limits by which a small effect can be proved, or that there is none."""
    at_most = seconds * limits.at_most / limits.seconds
    return replace(limits, seconds=seconds, at_most=at_most, starts=_PROOF_STARTS)
