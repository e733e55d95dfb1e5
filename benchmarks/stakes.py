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
from benchmarks.judging.answers import Recommendation, lines_meant
from benchmarks.judging.causes import meant
from benchmarks.judging.looking import opened
from benchmarks.judging.records import Record
from gapless.catalogue.rules import RULES
from gapless.model.finding import Loss
from gapless.model.seen import Seen
from gapless.study.charged import charged
from gapless.study.diagnose import said
from gapless.study.stakes import NAMED, SURELY_GONE


def gone(record: Record) -> list[tuple[str, float, float]]:
    """Give causes of a record: the share at stake, and the part of it that the best change took."""
    with tempfile.TemporaryDirectory(prefix="gapless-stakes-") as place:
        _, prices = opened(record, Path(place))
        shares = [(loss, charged(prices.seen, loss.changes).own) for loss in _losses(prices.seen)]
    known = ((one, share, _gain(record, one)) for one, share in shares if share >= NAMED)
    return [
        (one.name, share, (1 - 1 / gain) / share) for one, share, gain in known if gain is not None
    ]


def _losses(seen: Seen) -> list[Loss]:
    return said(seen, RULES)[0]


def _gain(record: Record, loss: Loss) -> float | None:
    """Give what the best change of the menu against a cause gave; ``None``: none was measured."""
    names = [None, *(text.partition("=")[0] for text in loss.helps)]
    asked = [Recommendation(fix=one, causes=meant(loss.name)) for one in names]
    lines = [line for one in asked for line in lines_meant(record, one)]
    return max((one.speedup.mid for one in lines if one.speedup is not None), default=None)


def main() -> int:
    """Print each cause, and how many reached the part that causes are ordered by."""
    found: list[float] = []
    for folder in (records.ZOO, records.STRANGERS):
        for record in records.all_of(folder):
            for name, share, part in gone(record):
                print(f"{record.case:34} {name:28} {share:6.1%} at stake, of that {part:6.1%} went")
                found.append(part)
    reached = sum(part >= SURELY_GONE for part in found)
    print(f"{reached} of {len(found)} reached {SURELY_GONE:.0%}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
