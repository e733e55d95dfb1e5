"""Tell what a cause is shown to cost: by trials, or by what a step takes without it."""

from collections.abc import Mapping
from typing import Any, Final, Literal

from benchmarks.planted import truth as truths
from gapless.catalogue.rules import RULES

Json = Mapping[str, Any]
Outcome = Literal["true", "false", "open"]
_FASTER_VERDICTS: Final = ("confirmed", "larger", "smaller")  # of a trial: than was predicted
# What a trial can leave out altogether, by the room of the rule: it tells what a cause costs where
# only rewriting removes that.
_CEILINGS: Final[Mapping[str, tuple[str, ...]]] = {
    "input": ("cached-batch",),
    "occasions": ("no-logging", "no-checkpoint", "no-evaluation"),
}
# Copies of batches; numbers that are read back, and waits, stay where batches are on the device.
_BATCH_COPIES: Final = frozenset({"G301", "G302", "G303", "G304"})
_ROOMS: Final = {rule.code: rule.check.__module__.split(".")[3] for rule in RULES}


def proof_of(finding: Json, case_record: Json, spread: float | None) -> str:
    """Return whether a cause was proved: by trials, or by what a step takes without it."""
    outcome, removal = proof(finding, case_record.get("proofs", {})), case_record.get("removal")
    if outcome == "true" or removal is None or not is_proof_of(case_record, finding):
        return outcome
    shown = outcome_of_removal(removal, spread)
    return outcome if shown == "open" else shown


def is_proof_of(case_record: Json, finding: Json) -> bool:
    """Return whether what was measured is of this cause: at its lines, another may be named now."""
    location: Json = finding["where"] or {}
    plain = {"code": finding["code"], "file": location.get("file")}
    return case_record.get("removal_of", plain) == plain


def outcome_of_removal(removal: Json, spread: float | None, width: float = 1.0) -> Outcome:
    """Return what a script without a cause shows: that it costs something, or 5 % at the most."""
    removal = truths.with_own_starts(removal, spread, width)
    if removal["verdict"] == "faulty":
        return "true"
    return "false" if removal["high"] <= 1 / (1 - truths.MIN_FAULT_GAIN) else "open"


def proof(finding: Json, proofs: Json) -> str:
    """Return whether a cause was proved by a trial of what helps against it, or leaves it out.

    True where an edit was measured to gain; false where all that were tried gain 5 % at the most.
    """
    trials = [proofs[fix] for fix in proof_edits(finding) if fix in proofs]
    if any(trial["verdict"] in _FASTER_VERDICTS for trial in trials):
        return "true"
    highs = [trial["speedup"]["high"] for trial in trials if trial["speedup"] is not None]
    return "false" if highs and max(highs) <= 1 / (1 - truths.MIN_FAULT_GAIN) else "open"


def proof_edits(finding: Json) -> tuple[str, ...]:
    """Return the edits by which a trial shows whether a cause costs something.

    These are its fixes, and the ceilings of its room where it has none.
    """
    return tuple(finding["helps"]) or ceilings_of(finding["code"])


def ceilings_of(code: str) -> tuple[str, ...]:
    """Return what leaves a cause out altogether."""
    in_room = _CEILINGS.get(_ROOMS[code], ())
    return ("cached-batch-on-device",) if code in _BATCH_COPIES else in_room
