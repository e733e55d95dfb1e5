"""What went of what was at stake: ``python -m benchmarks.stakes``.

The account charges a share of the step to each cause, the most that changing it can give. Of the
measured trainings (``tests/zoo``, ``tests/strangers``), the best change against a cause took some
part of that share. Causes without a price are ordered by a part that most of them reached
(``study.stakes.SURELY_GONE``); printed is how many did.
"""

import sys
import tempfile
from pathlib import Path

from benchmarks.judging import records
from benchmarks.judging.answers import Recommendation, matching_lines
from benchmarks.judging.causes import causes_named
from benchmarks.judging.looking import study_record
from benchmarks.judging.records import Record
from gapless.catalogue.rules import RULES
from gapless.model.evidence import Evidence
from gapless.model.finding import Detection
from gapless.pricing.charged import charge_changes
from gapless.pricing.diagnose import run_rules
from gapless.pricing.worth_trying import MIN_NAMED_SHARE, SURELY_GONE


def measure_gains(record: Record) -> list[tuple[str, float, float]]:
    """Return causes of a record: the share at stake, and what the best change took of it."""
    with tempfile.TemporaryDirectory(prefix="gapless-stakes-") as folder:
        _, prices = study_record(record, Path(folder))
        stakes = [
            (detection, charge_changes(prices.evidence, detection.changes).own_share)
            for detection in _detect(prices.evidence)
        ]
    gains = (
        (detection, share, _gain(record, detection))
        for detection, share in stakes
        if share >= MIN_NAMED_SHARE
    )
    return [
        (detection.name, share, (1 - 1 / gain) / share)
        for detection, share, gain in gains
        if gain is not None
    ]


def _detect(evidence: Evidence) -> list[Detection]:
    return run_rules(evidence, RULES)[0]


def _gain(record: Record, detection: Detection) -> float | None:
    """Return what the best change of the menu against a cause gave; ``None``: none was measured."""
    names = [None, *(request.fix for request in detection.helps)]
    recommendations = [
        Recommendation(fix=fix, causes=causes_named(detection.name)) for fix in names
    ]
    lines = [
        line
        for recommendation in recommendations
        for line in matching_lines(record, recommendation)
    ]
    return max((line.speedup.mid for line in lines if line.speedup is not None), default=None)


def main() -> int:
    """Print each cause, and how many reached the part that causes are ordered by."""
    parts_gained: list[float] = []
    for folder in (records.ZOO, records.STRANGERS):
        for record in records.read_records(folder):
            for name, share, gained_part in measure_gains(record):
                print(
                    f"{record.case:34} {name:28} {share:6.1%} at stake, "
                    f"of that {gained_part:6.1%} went"
                )
                parts_gained.append(gained_part)
    n_reached = sum(gained_part >= SURELY_GONE for gained_part in parts_gained)
    print(f"{n_reached} of {len(parts_gained)} reached {SURELY_GONE:.0%}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
