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

from benchmarks.planted.mutations.catalogue import MUTATIONS
from benchmarks.planted.recorder import counted
from benchmarks.planted.truth import MATTERS, spread_of_starts, with_starts

Json = Mapping[str, Any]
_THREE: Final = 3
# What others do to the machine: no cause of the training's, and the lanes of this benchmark do it.
_OF_THE_MACHINE: Final = frozenset({"throttled-device", "shared-device", "taken-processors"})


_FASTER: Final = ("confirmed", "larger", "smaller")  # verdicts of a trial: than was foretold


@dataclass(frozen=True)
class Judged:
    """One case with its answers: ranks of right causes, alarms, and prices."""

    name: str
    kind: str
    families: tuple[str, ...]
    truth: str  # faulty, sound, undecided
    named: int  # causes that were named
    pointed: int  # causes that a trial was recommended for
    ranks: tuple[int | None, ...]  # of each fault: where a right cause stands; 0 is the first
    wide_ranks: tuple[int | None, ...]  # the same, with what a trial was recommended for
    gain: float | None  # measured share of the step
    gain_within: tuple[float, float] | None  # its interval
    priced: tuple[float, float, float] | None  # predicted: low, middle, high
    refused: bool
    proof: str  # of the first cause of a sound case: "true", "false", "open" (not tried, undecided)


def right(finding: Json, planting: Json) -> bool:
    """Say whether a finding names what was planted: the right cause or fix, at a right line."""
    mutation = MUTATIONS[planting["mutation"]]
    where: Json = finding["where"] or {}
    at = bool(where) and where["file"] == Path(planting["file"]).name
    line: int = where["line"] if at else -9  # of another file: near nothing
    near = any(abs(line - one) <= 1 for one in planting["lines"])
    if mutation.at_line and near:
        return True
    fits = finding["code"] in mutation.codes or any(
        fix in mutation.fixes for fix in finding["helps"]
    )
    if not fits:
        return False
    if mutation.where == "any" or near or (not where and mutation.lineless):
        return True
    return line in planting["around"]


def rank(findings: Sequence[Json], planting: Json) -> int | None:
    """Give the place of the first finding that names what was planted."""
    return next((at for at, one in enumerate(findings) if right(one, planting)), None)


def judge(kept: Json, answer: Json, spread: float | None = None) -> Judged:
    """Judge one case; ``spread`` is how far two starts of a training differ there.

    A control is sound since nothing is planted in it. A decoy is harmless as it is written: it is
    sound unless it was measured to cost something.
    """
    case, found = kept["case"], kept["truth"]
    if found is not None:
        found = with_starts(found, spread)
    truth = "sound" if found is None else found["verdict"]
    if case["kind"] == "decoy" and truth == "undecided":
        truth = "sound"
    findings = _causes(answer.get("findings"))
    pointed = _causes(answer.get("to_try"))
    ranks = tuple(rank(findings, one) for one in kept["planted"])
    wide = tuple(rank([*findings, *pointed], one) for one in kept["planted"])
    return Judged(
        name="--".join([case["script"], *case["mutations"], case["device"]]),
        kind=case["kind"],
        families=tuple(MUTATIONS[one].family for one in case["mutations"]),
        truth=truth,
        named=len(findings),
        pointed=len(pointed),
        ranks=ranks,
        wide_ranks=wide,
        gain=None if found is None else 1 - 1 / found["mid"],
        gain_within=None if found is None else (1 - 1 / found["low"], 1 - 1 / found["high"]),
        priced=_price(findings, ranks) if case["kind"] == "fault" else None,
        refused="refused" in answer,
        proof=proof(findings[0], kept.get("proofs", {})) if findings else "",
    )


def proof(finding: Json, proofs: Json) -> str:
    """Say whether a cause was proved by a trial of what helps against it.

    True where a fix was measured to gain; false where all that were tried gain 5 % at the most.
    """
    tried = [proofs[fix] for fix in finding["helps"] if fix in proofs]
    if any(one["verdict"] in _FASTER for one in tried):
        return "true"
    known = [one["speedup"]["high"] for one in tried if one["speedup"] is not None]
    return "false" if known and max(known) <= 1 / (1 - MATTERS) else "open"


def _causes(said: Sequence[Json] | None) -> list[Json]:
    """Give what is said of the training, without what is said of the machine."""
    return [one for one in said or () if one.get("name") not in _OF_THE_MACHINE]


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


def collect(out: Path, side: str) -> tuple[list[Judged], dict[str, int]]:
    """Judge all cases of a half that are recorded and answered; count those that are not."""
    judged: list[Judged] = []
    left = {"failed": 0, "unanswered": 0}
    spreads = {device: spread(out, device) for device in ("cpu", "cuda")}
    for path in sorted((out / side).glob("*.json")):
        kept = json.loads(path.read_text())
        answered = out / side / "answers" / path.name
        if "failed" in kept or "truth" not in kept:
            left["failed"] += 1
        elif not answered.exists():
            left["unanswered"] += 1
        else:
            answer = json.loads(answered.read_text())
            judged.append(judge(kept, answer, spreads[kept["case"]["device"]]))
    return judged, left


def spread(out: Path, device: str) -> float | None:
    """Give how far two starts differ on a device, from the cases of both halves."""
    rows = [json.loads(path.read_text()) for path in sorted(out.glob(f"*/*--{device}.json"))]
    return spread_of_starts([kept["truth"] for kept in rows if kept.get("truth")])


def recorders(out: Path, side: str) -> list[Json | None]:
    """Give the machine of each recording of a half; ``None`` where it was not kept."""
    kept = [json.loads(path.read_text()) for path in sorted((out / side).glob("*.json"))]
    return [one.get("recorder") for one in kept if one.get("recorded")]


def figures(judged: Sequence[Judged]) -> dict[str, Any]:
    """Give the figures of a set of cases."""
    faults = [one for one in judged if one.kind == "fault" and one.truth == "faulty"]
    pairs = [one for one in judged if one.kind == "pair" and one.truth == "faulty"]
    sound = [one for one in judged if one.truth == "sound"]
    controls = [one for one in sound if one.kind == "control"]
    priced = [(one.gain, one.priced) for one in faults if one.gain is not None and one.priced]
    errors = [abs(mid - gain) for gain, (_, mid, _) in priced]
    covered = [low <= gain <= high for gain, (low, _, high) in priced]
    within = [
        (one.gain_within, one.priced)
        for one in faults
        if one.gain_within is not None and one.priced
    ]
    beyond = [max(0.0, low - mid, mid - high) for (low, high), (_, mid, _) in within]
    touched = [low <= last and first <= high for (low, high), (first, _, last) in within]
    hit = [one for one in faults if one.ranks[0] is not None]
    return {
        "cases": len(judged),
        "undecided": sum(one.truth == "undecided" for one in judged),
        "first": _share([one.ranks[0] == 0 for one in faults]),
        "first_three": _share([_among(one.ranks[0]) for one in faults]),
        "first_with_trials": _share([one.wide_ranks[0] == 0 for one in faults]),
        "three_with_trials": _share([_among(one.wide_ranks[0]) for one in faults]),
        "nothing_named": _share([one.named == 0 for one in faults]),
        "pairs_first": _share([0 in one.ranks for one in pairs]),
        "pairs_both": _share([all(map(_among, one.ranks)) for one in pairs]),
        "alarms": _share([one.named > 0 for one in sound if one.kind != "control"]),
        "alarms_controls": _share([one.named > 0 for one in controls]),
        "alarms_proved": {
            told: sum(one.proof == told for one in sound) for told in ("true", "false", "open")
        },
        "trials_on_sound": _share([one.pointed > 0 for one in sound]),
        "gain_error_points": 100 * statistics.mean(errors) if errors else None,
        "gain_error_of": len(errors),
        # Truths have an interval, too: how far prices lie beyond it, and how many touch it.
        "gain_error_points_beyond_truth": 100 * statistics.mean(beyond) if beyond else None,
        "covered": _share(covered),
        "touch_truth": _share(touched),
        "withheld": _share([one.priced is None for one in hit]),
        "refused": sum(one.refused for one in judged),
    }


def _among(rank: int | None) -> bool:
    return rank is not None and rank < _THREE


def _share(values: Sequence[bool]) -> dict[str, Any]:
    count, of = sum(values), len(values)
    return {"count": count, "of": of, "share": count / of if of else None}


def result(out: Path, halves: Sequence[str], previous: Path, machine: Json) -> dict[str, Any]:
    """Give the result to be kept: half by half, the unseen one first and in sums alone.

    A half that is not asked for stays as it was.
    """
    kept: dict[str, Any] = json.loads(previous.read_text()) if previous.exists() else {}
    sides: dict[str, Any] = dict(kept.get("halves", {}))
    for side in halves:
        judged, left = collect(out, side)
        row: dict[str, Any] = {
            "date": datetime.now(UTC).date().isoformat(),
            "recorded_on": counted(recorders(out, side)),
            "asked_on": machine,
            "left_out": left,
            "starts_differ_by": {device: spread(out, device) for device in ("cpu", "cuda")},
            "all": figures(judged),
        }
        for device in ("cpu", "cuda"):
            row[device] = figures([one for one in judged if one.name.endswith(f"--{device}")])
        if side == "open":
            families = sorted({name for one in judged for name in one.families})
            row["families"] = {
                name: figures([one for one in judged if name in one.families]) for name in families
            }
        sides[side] = row
    order = [side for side in ("unseen", "open") if side in sides]
    return {"version": 1, "halves": {side: sides[side] for side in order}}


def listing(out: Path, side: str) -> list[str]:
    """Give a line a case of the open half: what was true, and what was said."""
    judged, _ = collect(out, side)
    return [
        f"{one.name}: {one.truth}"
        + ("" if one.gain is None else f" {one.gain:.1%}")
        + f"; named {one.named}, right at {one.ranks}, with trials {one.wide_ranks}"
        for one in judged
    ]
