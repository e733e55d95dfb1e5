"""The optimizers of a run beside the one that ends its steps, and how often each was called."""

from collections.abc import Sequence

import numpy as np

from gapless import wire
from gapless.model.run import OptimizerUse
from gapless.study.recorded.edges import fact_of
from gapless.study.recorded.training import Training

_Place = tuple[str, str | None, int | None]


def other_optimizers(every: Sequence[Training]) -> tuple[OptimizerUse, ...]:
    """Give the optimizers of the first process that stepped but its anchor, most calls first.

    Optimizers of one class that were made in one line are one.
    """
    if not every or every[0].edges.rule != "optimizer":
        return ()
    first = every[0]
    marks = first.process.marks
    whole = (marks.kind == wire.STEP) & ((marks.flags & wire.RAISED) == 0)
    summed = first.sums.calls.of(wire.STEP).without(wire.RAISED)
    subjects = np.concatenate((marks.subject[whole], summed.subject))
    counts = np.concatenate((np.ones(int(whole.sum()), np.int64), summed.count))
    ending = marks.subject[whole & np.isin(marks.end, first.edges.ends)]
    anchors = set(ending.tolist())  # of several phases each has its own
    calls: dict[_Place, int] = {}
    for subject in np.unique(subjects).tolist():
        if subject not in anchors:
            place = _place(first, subject)
            calls[place] = calls.get(place, 0) + int(counts[subjects == subject].sum())
    return tuple(
        OptimizerUse(*place, calls[place]) for place in sorted(calls, key=lambda one: -calls[one])
    )


def _place(training: Training, subject: int) -> _Place:
    fact = fact_of(training.process, "optimizer", subject)
    if fact is None:
        return "an optimizer", None, None
    kind = str(fact.values.get("class") or "optimizer").rpartition(".")[2]
    return kind, fact.file, fact.line
