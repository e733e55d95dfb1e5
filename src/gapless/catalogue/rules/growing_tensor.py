"""A tensor that each step makes anew, a little longer than the step before."""

from collections.abc import Sequence
from typing import Final

from gapless.catalogue import examples, windowed
from gapless.catalogue.computing import ns_per_window_step
from gapless.catalogue.ruling import RuleFigure, rule
from gapless.catalogue.seen_examples import evidence_of as stated
from gapless.catalogue.work_examples import example_work
from gapless.model.finding import Detection, Measure
from gapless.model.interval import Estimate
from gapless.model.seen import Evidence
from gapless.model.work import Work
from gapless.replay.roofline import NO_CHANGE, scale_changes
from gapless.replay.shorter import sizes_of

_CAT: Final = "aten::cat"
_MIN_STEP_SHARE: Final = 0.01  # of the step
_MIN_LINKS: Final = 2  # results that are what the next is made of
_REMAINS: Final = Estimate(0.0, 0.05, 0.3)  # what is appended is copied once all the same
_Size = tuple[int, ...]


def _append_work(rows: int, n_appended: int = 128, calls: float = 0.1) -> Work:
    return example_work(_CAT, ((rows, 8), (n_appended, 8)), 1.0, "busy.mem", calls=calls)


@rule(
    "G515",
    "growing-tensor",
    since="0.1",
    figures=[
        RuleFigure(
            "history = torch.cat([history, outputs]), in each step",
            "torch.cat makes a tensor anew in each step that grows by [128, 8] each time (the "
            "last: [1408, 8]): copying it takes 4.0 ms of each 24.0 ms step, ever more.",
            stated(
                examples.cpu(),
                {"busy.math": 20, "busy.mem": 4},
                *(_append_work(1024 + 128 * step) for step in range(4)),
            ),
        ),
        RuleFigure(
            "A cache of keys that begins anew with each sentence",
            None,
            stated(
                examples.cpu(),
                {"busy.math": 20, "busy.mem": 4},
                *(_append_work(1 + step, n_appended=1, calls=1) for step in range(4)),
            ),
        ),
        RuleFigure(
            "A sentence that is written token by token, in one step of some",
            None,
            stated(
                examples.cpu(),
                {"busy.math": 20, "busy.mem": 4},
                *(_append_work(4 + step, n_appended=1) for step in range(32)),
            ),
        ),
        RuleFigure(
            "Batches of different lengths",
            None,
            stated(
                examples.cpu(),
                {"busy.math": 20, "busy.mem": 4},
                *(_append_work(rows) for rows in (900, 1300, 700, 1111)),
            ),
        ),
    ],
)
def growing_tensor(evidence: Evidence) -> Detection | None:
    """Recognise a history that is kept in one tensor and appended to in each step.

    ## Why it costs time
    A tensor cannot grow: ``torch.cat`` makes a new one and copies all that was there. Of n steps
    the last copies n times as much as the first; what reads the history reads it all, too. With
    its graph the history also keeps the graphs of all steps in memory.

    ## How it is measured
    By calls of ``torch.cat`` whose result is, in size, what the next is made of, and which come no
    more than once in the steps of the windows, and no oftener than steps: what begins anew with
    each step comes back, and tokens are made many in a step. It is the time of these copies in the
    windows; later on it is more.
    """
    step_ns = evidence.step_ns
    rows = _find_appends(evidence)
    if not step_ns or not rows:
        return None
    spent_ns = ns_per_window_step(evidence, sum(row.ns for row in rows))
    if spent_ns < _MIN_STEP_SHARE * step_ns:
        return None
    longest = max(rows, key=lambda row: max(sizes_of(row)))
    sizes = sorted(sizes_of(longest))
    row_ids = set(map(id, rows))
    return growing_tensor.detection(
        f"torch.cat makes a tensor anew in each step that grows by {list(sizes[0])} each time (the "
        f"last: {list(sizes[-1])}): copying it takes {windowed.format_step_part(evidence, spent_ns)}, ever more.",
        *scale_changes(evidence.study.work, lambda row: _REMAINS if id(row) in row_ids else NO_CHANGE),
        location=windowed.find_calling_function(evidence, _CAT),
        measures=(
            Measure("copies of it, a step", spent_ns, "ns"),
            Measure("such copies in the windows", len(rows), ""),
        ),
        no_remedy=(
            "append to a Python list, detached, and call torch.cat once when the history is "
            "needed; or write into a tensor that was made large enough; or keep a running sum"
        ),
        inferred=True,
    )


def _find_appends(evidence: Evidence) -> tuple[Work, ...]:
    """Return the calls that append to what another one made; none if few do."""
    rows = [row for row in evidence.study.work if row.operator == _CAT and not row.backward]
    single_calls = [row for row in rows if row.calls <= 1 < windowed.count_steps(evidence)]
    pairs = [row for row in single_calls if len(sizes_of(row)) == 2]  # noqa: PLR2004 - old and new
    row_by_size = {size: row for row in pairs if (size := _concat_size(sizes_of(row))) is not None}
    links = [
        (row_by_size[size], row)
        for row in pairs
        for size in sizes_of(row)
        if size in row_by_size and row_by_size[size] is not row
    ]
    appends = tuple({id(row): row for link in links for row in link}.values())
    # More of them than steps: what grows within a step, as where tokens are made one by one.
    return appends if len(links) >= _MIN_LINKS and len(appends) <= windowed.count_steps(evidence) else ()


def _concat_size(sizes: Sequence[_Size]) -> _Size | None:
    """Return the size of two tensors one behind another; ``None`` where it is not clear along what.

    Of two of one size it is not known; such are no history.
    """
    first_size, second_size = sizes
    axes = [index for index, (length, other_length) in enumerate(zip(first_size, second_size, strict=False)) if length != other_length]
    if len(first_size) != len(second_size) or len(axes) != 1:
        return None
    axis = axes[0]
    return (*first_size[:axis], first_size[axis] + second_size[axis], *first_size[axis + 1 :])
