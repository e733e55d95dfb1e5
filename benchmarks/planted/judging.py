"""Judge what gapless said of planted trainings by what was planted, and by what it costs.

What counts as naming a fault stands with the fault and was written down before anything was asked.
Of the unseen half nothing is kept but sums.
"""

import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from benchmarks.planted import truth as truths
from benchmarks.planted.mutations.catalogue import MUTATIONS
from benchmarks.planted.outcomes import proof_of
from benchmarks.planted.recorder import count_machines

Json = Mapping[str, Any]
_N_FIRST: Final = 3
# What others do to the machine: no cause of the training's, and the lanes of this benchmark do it.
_MACHINE_CAUSES: Final = frozenset({"throttled-device", "shared-device", "taken-processors"})


@dataclass(frozen=True)
class JudgedCase:
    """One case with its answers: ranks of right causes, alarms, and prices."""

    name: str
    kind: str
    families: tuple[str, ...]
    truth: str  # faulty, sound, undecided
    n_named: int  # causes that were named
    n_to_try: int  # causes that a trial was recommended for
    ranks: tuple[int | None, ...]  # of each fault: where a right cause stands; 0 is the first
    wide_ranks: tuple[int | None, ...]  # the same, with what a trial was recommended for
    gain: float | None  # measured share of the step
    gain_interval: tuple[float, float] | None  # its interval
    price: tuple[float, float, float] | None  # predicted: low, middle, high
    refused: bool
    proof: str  # of the first cause of a sound case: "true", "false", "open" (not tried, undecided)
    names_decoy: bool  # a cause is named at a line that was added and is harmless


def is_right(finding: Json, planting: Json) -> bool:
    """Return whether a finding names what was planted: the right cause or fix, at a right line."""
    mutation = MUTATIONS[planting["mutation"]]
    location: Json = finding["where"] or {}
    in_file = bool(location) and location["file"] == Path(planting["file"]).name
    line: int = location["line"] if in_file else -9  # of another file: near nothing
    is_near = any(abs(line - row) <= 1 for row in planting["lines"])
    if mutation.at_line and is_near:
        return True
    fits = finding["code"] in mutation.codes or any(
        fix in mutation.fixes for fix in finding["helps"]
    )
    if not fits:
        return False
    if mutation.where == "any" or is_near or (not location and mutation.lineless):
        return True
    return line in planting["around"]


def rank(findings: Sequence[Json], planting: Json) -> int | None:
    """Return the place of the first finding that names what was planted."""
    return next(
        (index for index, finding in enumerate(findings) if is_right(finding, planting)), None
    )


def judge_case(case_record: Json, answer: Json, spread: float | None = None) -> JudgedCase:
    """Judge one case; ``spread`` is how far two starts of a training differ there.

    A control is sound since nothing is planted in it. A decoy is harmless as it is written: it is
    sound unless it was measured to cost something.
    """
    case, measured = case_record["case"], case_record["truth"]
    if measured is not None:
        measured = truths.with_starts(measured, spread)
    truth = "sound" if measured is None else measured["verdict"]
    if case["kind"] == "decoy" and truth == "undecided":
        truth = "sound"
    findings = training_causes(answer.get("findings"))
    to_try = training_causes(answer.get("to_try"))
    ranks = tuple(rank(findings, planting) for planting in case_record["planted"])
    wide = tuple(rank([*findings, *to_try], planting) for planting in case_record["planted"])
    return JudgedCase(
        name="--".join([case["script"], *case["mutations"], case["device"]]),
        kind=case["kind"],
        families=tuple(MUTATIONS[name].family for name in case["mutations"]),
        truth=truth,
        n_named=len(findings),
        n_to_try=len(to_try),
        ranks=ranks,
        wide_ranks=wide,
        gain=None if measured is None else 1 - 1 / measured["mid"],
        gain_interval=None
        if measured is None
        else (1 - 1 / measured["low"], 1 - 1 / measured["high"]),
        price=_price(findings, ranks) if case["kind"] == "fault" else None,
        refused="refused" in answer,
        proof=proof_of(findings[0], case_record, spread) if findings else "",
        names_decoy=case["kind"] == "decoy" and _is_decoy_named(findings, case_record["planted"]),
    )


def _is_decoy_named(findings: Sequence[Json], plantings: Sequence[Json]) -> bool:
    """Return whether any cause has a line that was planted; its neighbours are the script's own."""
    locations = [finding["where"] for finding in findings if finding["where"]]
    return any(
        location["file"] == Path(planting["file"]).name and location["line"] in planting["lines"]
        for location in locations
        for planting in plantings
    )


def training_causes(findings: Sequence[Json] | None) -> list[Json]:
    """Return what is said of the training, without what is said of the machine."""
    return [finding for finding in findings or () if finding.get("name") not in _MACHINE_CAUSES]


def _price(
    findings: Sequence[Json], ranks: Sequence[int | None]
) -> tuple[float, float, float] | None:
    if not ranks or ranks[0] is None:
        return None
    speedup = findings[ranks[0]]["speedup"]
    if speedup is None:
        return None
    low, mid, high = (1 - 1 / speedup[name] for name in ("low", "mid", "high"))
    return low, mid, high


def collect(out: Path, side: str) -> tuple[list[JudgedCase], dict[str, int]]:
    """Judge all cases of a half that are recorded and answered; count those that are not.

    Of a sound case whose recording ended before a step was seen nothing could be said: it is left
    out. A fault of which no step was seen stays, and is missed.
    """
    judged: list[JudgedCase] = []
    left_out = {"failed": 0, "unanswered": 0, "sound_without_steps": 0}
    spreads = {device: spread(out, device) for device in ("cpu", "cuda")}
    for path in sorted((out / side).glob("*.json")):
        case_record = json.loads(path.read_text())
        answer_path = out / side / "answers" / path.name
        if "failed" in case_record or "truth" not in case_record:
            left_out["failed"] += 1
        elif not answer_path.exists():
            left_out["unanswered"] += 1
        else:
            answer = json.loads(answer_path.read_text())
            saw_nothing = not answer.get("findings") and answer.get("steps", 1) is None
            if case_record["truth"] is None and saw_nothing:
                left_out["sound_without_steps"] += 1
                continue
            judged.append(judge_case(case_record, answer, spreads[case_record["case"]["device"]]))
    return judged, left_out


def spread(out: Path, device: str) -> float | None:
    """Return how far two starts differ on a device, from the cases of both halves."""
    return truths.spread_of_starts(read_truths(out, "*", device))


def read_truths(out: Path, side: str, device: str = "*") -> list[Json]:
    """Return the truths of a half's cases, those without one left out."""
    rows = [json.loads(path.read_text()) for path in sorted(out.glob(f"{side}/*--{device}.json"))]
    return [case_record["truth"] for case_record in rows if case_record.get("truth")]


def recorders(out: Path, side: str) -> list[Json | None]:
    """Return the machine of each recording of a half; ``None`` where it was not kept."""
    case_records = [json.loads(path.read_text()) for path in sorted((out / side).glob("*.json"))]
    return [
        case_record.get("recorder") for case_record in case_records if case_record.get("recorded")
    ]


def figures(judged: Sequence[JudgedCase]) -> dict[str, Any]:
    """Return the figures of a set of cases."""
    faults = [case for case in judged if case.kind == "fault" and case.truth == "faulty"]
    pairs = [case for case in judged if case.kind == "pair" and case.truth == "faulty"]
    sound = [case for case in judged if case.truth == "sound"]
    controls = [case for case in sound if case.kind == "control"]
    gains_and_prices = [
        (case.gain, case.price) for case in faults if case.gain is not None and case.price
    ]
    errors = [abs(mid - gain) for gain, (_, mid, _) in gains_and_prices]
    covered = [low <= gain <= high for gain, (low, _, high) in gains_and_prices]
    intervals_and_prices = [
        (case.gain_interval, case.price)
        for case in faults
        if case.gain_interval is not None and case.price
    ]
    excess = [max(0.0, low - mid, mid - high) for (low, high), (_, mid, _) in intervals_and_prices]
    touches = [
        low <= highest and lowest <= high
        for (low, high), (lowest, _, highest) in intervals_and_prices
    ]
    hits = [case for case in faults if case.ranks[0] is not None]
    return {
        "cases": len(judged),
        "undecided": sum(case.truth == "undecided" for case in judged),
        "first": _share([case.ranks[0] == 0 for case in faults]),
        "first_three": _share([_is_among_first(case.ranks[0]) for case in faults]),
        "first_with_trials": _share([case.wide_ranks[0] == 0 for case in faults]),
        "three_with_trials": _share([_is_among_first(case.wide_ranks[0]) for case in faults]),
        "nothing_named": _share([case.n_named == 0 for case in faults]),
        "pairs_first": _share([0 in case.ranks for case in pairs]),
        "pairs_both": _share([all(map(_is_among_first, case.ranks)) for case in pairs]),
        "alarms": _share([case.n_named > 0 for case in sound if case.kind != "control"]),
        "alarms_controls": _share([case.n_named > 0 for case in controls]),
        "decoys_named": _share([case.names_decoy for case in sound if case.kind == "decoy"]),
        "alarms_false": _share([case.names_decoy or case.proof == "false" for case in sound]),
        "alarms_proved": {
            outcome: sum(case.proof == outcome for case in sound)
            for outcome in ("true", "false", "open")
        },
        "trials_on_sound": _share([case.n_to_try > 0 for case in sound]),
        "gain_error_points": 100 * statistics.mean(errors) if errors else None,
        "gain_error_of": len(errors),
        # Truths have an interval, too: how far prices lie beyond it, and how many touch it.
        "gain_error_points_beyond_truth": 100 * statistics.mean(excess) if excess else None,
        "covered": _share(covered),
        "touch_truth": _share(touches),
        "withheld": _share([case.price is None for case in hits]),
        "refused": sum(case.refused for case in judged),
    }


def _is_among_first(rank: int | None) -> bool:
    return rank is not None and rank < _N_FIRST


def _share(values: Sequence[bool]) -> dict[str, Any]:
    count, total = sum(values), len(values)
    return {"count": count, "of": total, "share": count / total if total else None}


def result(out: Path, halves: Sequence[str], previous: Path, machine: Json) -> dict[str, Any]:
    """Return the result to be kept: half by half, the unseen one first and in sums alone.

    A half that is not asked for stays as it was.
    """
    document: dict[str, Any] = json.loads(previous.read_text()) if previous.exists() else {}
    sides: dict[str, Any] = dict(document.get("halves", {}))
    for side in halves:
        judged, left_out = collect(out, side)
        side_truths = read_truths(out, side)
        row: dict[str, Any] = {
            "date": datetime.now(UTC).date().isoformat(),
            "recorded_on": count_machines(recorders(out, side)),
            "asked_on": machine,
            "left_out": left_out,
            "starts_differ_by": {device: spread(out, device) for device in ("cpu", "cuda")},
            "occasions_differ_by": truths.difference_of_occasions(side_truths),
            "truths": len(side_truths),
            "truths_with_stops": sum(bool(kept.get("stopped")) for kept in side_truths),
            "all": figures(judged),
        }
        for device in ("cpu", "cuda"):
            row[device] = figures([case for case in judged if case.name.endswith(f"--{device}")])
        if side == "open":
            families = sorted({name for case in judged for name in case.families})
            row["families"] = {
                name: _figures_of_any([case for case in judged if name in case.families])
                for name in families
            }
        sides[side] = row
    order = [side for side in ("unseen", "open") if side in sides]
    return {"version": 1, "halves": {side: sides[side] for side in order}}


def _figures_of_any(judged: Sequence[JudgedCase]) -> dict[str, Any]:
    """Return the figures that cases have anything for: of one family most have nothing."""
    return {
        name: value
        for name, value in figures(judged).items()
        if (any(value.values()) if isinstance(value, dict) else value)
    }


def listing(out: Path, side: str) -> list[str]:
    """Return a line a case of the open half: what was true, and what was said."""
    judged, _ = collect(out, side)
    return [
        f"{case.name}: {case.truth}"
        + ("" if case.gain is None else f" {case.gain:.1%}")
        + f"; named {case.n_named}, right at {case.ranks}, with trials {case.wide_ranks}"
        for case in judged
    ]
