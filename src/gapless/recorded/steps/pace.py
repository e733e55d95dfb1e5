"""The steps of a run one by one, as a page draws them."""

from collections.abc import Sequence

import numpy as np

from gapless.model.picture import Pace
from gapless.recorded.training.edges import unprofiled_steps
from gapless.recorded.training.processes import Training


def step_pace(trainings: Sequence[Training], span: tuple[int, int]) -> Pace | None:
    """Return the steps of the first rank that were noted one by one; ``None`` without any.

    ``span``: when the command started, and when it ended.
    """
    if not trainings:
        return None
    edges, start_ns = trainings[0].edges, span[0]
    rows = edges.is_single
    is_plain = unprofiled_steps(trainings[0].process, edges.ends)
    return Pace(
        span_ns=span[1] - start_ns,
        ends_ns=edges.ends[1:][rows] - start_ns,
        lengths_ns=np.diff(edges.ends)[rows],
        profiled=(~is_plain[rows]).astype(np.int8),
    )
