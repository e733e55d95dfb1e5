"""The optimizers of a run besides the one that ends its steps, and how often each was called."""

from collections.abc import Sequence

import numpy as np

from gapless import wire
from gapless.model.run import OptimizerUse
from gapless.recorded.training.edges import fact_of
from gapless.recorded.training.processes import Training

_OptimizerKey = tuple[str, str | None, int | None]


def other_optimizers(trainings: Sequence[Training]) -> tuple[OptimizerUse, ...]:
    """Return the first stepping process's optimizers except its anchor, most calls first.

    Optimizers of one class that were created in one line are one.
    """
    if not trainings or trainings[0].edges.rule != "optimizer":
        return ()
    training = trainings[0]
    marks = training.process.marks
    is_step = (marks.kind == wire.STEP) & ((marks.flags & wire.RAISED) == 0)
    summed = training.sums.calls.select(wire.STEP).without(wire.RAISED)
    subjects = np.concatenate((marks.subject[is_step], summed.subject))
    counts = np.concatenate((np.ones(int(is_step.sum()), np.int64), summed.count))
    ending = marks.subject[is_step & np.isin(marks.end, training.edges.ends)]
    anchors = set(ending.tolist())  # of several phases each has its own
    calls: dict[_OptimizerKey, int] = {}
    for subject in np.unique(subjects).tolist():
        if subject not in anchors:
            key = _optimizer_key(training, subject)
            calls[key] = calls.get(key, 0) + int(counts[subjects == subject].sum())
    return tuple(
        OptimizerUse(*key, calls[key]) for key in sorted(calls, key=lambda key: -calls[key])
    )


def _optimizer_key(training: Training, subject: int) -> _OptimizerKey:
    fact = fact_of(training.process, "optimizer", subject)
    if fact is None:
        return "an optimizer", None, None
    kind = str(fact.values.get("class") or "optimizer").rpartition(".")[2]
    return kind, fact.file, fact.line
