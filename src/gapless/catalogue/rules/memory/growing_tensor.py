"""A tensor that each step makes again, a little longer than before."""

from collections.abc import Sequence
from typing import Final

from gapless.catalogue.declare.rule import rule
from gapless.catalogue.queries import windows
from gapless.catalogue.queries.compute import ns_per_window_step
from gapless.model.estimate import Estimate
from gapless.model.evidence import Evidence
from gapless.model.finding import Detection, Measure
from gapless.model.work import Work
from gapless.roofline.padding import sizes_of
from gapless.roofline.roofline import NO_CHANGE, scale_changes

_CAT: Final = "aten::cat"
_MIN_STEP_SHARE: Final = 0.01  # of the step
_MIN_LINKS: Final = 2  # results from which the next one is made
_REMAINS: Final = Estimate(0.0, 0.05, 0.3)  # what is appended is still copied once
_Size = tuple[int, ...]


@rule(
    "G515",
    "growing-tensor",
    figures="""
    append_work(rows, n_appended=128, calls=0.1) = example_work(_CAT, ((rows, 8), (n_appended, 8)),
      1.0, "busy.mem", calls=calls)
    # history = torch.cat([history, outputs]), in each step
    > torch.cat makes a new tensor in each step that grows by [128, 8] each time (the last: [1408,
      8]): copying it takes 4.0 ms of each 24.0 ms step, ever more.
    cpu()
    busy.math 20, busy.mem 4
    *(append_work(1024 + 128 * step) for step in range(4))
    # A cache of keys that restarts with each sentence
    cpu()
    busy.math 20, busy.mem 4
    *(append_work(1 + step, n_appended=1, calls=1) for step in range(4))
    # A sentence that is generated token by token, in some steps
    cpu()
    busy.math 20, busy.mem 4
    *(append_work(4 + step, n_appended=1) for step in range(32))
    # Batches of different lengths
    cpu()
    busy.math 20, busy.mem 4
    *(append_work(rows) for rows in (900, 1300, 700, 1111))
    """,
)
def growing_tensor(evidence: Evidence) -> Detection | None:
    """Recognise a history that is kept in one tensor and appended to in each step.

    ## Why it costs time
    A tensor cannot grow: ``torch.cat`` makes a new one and copies all of the old one. Of n steps
    the last copies n times as much as the first; what reads the history reads all of it, too. With
    its graph the history also keeps the graphs of all steps in memory.

    ## How it is measured
    By calls of ``torch.cat`` whose result has the size of an input of the next one, where each size
    occurs once in the windows, and there are no more calls than steps: sizes of a history that
    restarts with each step recur, and tokens are generated many to a step. The cost is the time of
    these copies in the windows; it increases later.
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
        f"torch.cat makes a new tensor in each step that grows by {list(sizes[0])} each time (the "
        f"last: {list(sizes[-1])}): copying it takes "
        f"{windows.format_step_part(evidence, spent_ns)}, ever more.",
        *scale_changes(
            evidence.study.work, lambda row: _REMAINS if id(row) in row_ids else NO_CHANGE
        ),
        location=windows.find_calling_function(evidence, _CAT),
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
    """Return the calls that append to the result of another call; none if few do."""
    rows = [row for row in evidence.study.work if row.operator == _CAT and not row.backward]
    single_calls = [row for row in rows if row.calls <= 1 < windows.count_steps(evidence)]
    pairs = [row for row in single_calls if len(sizes_of(row)) == 2]  # noqa: PLR2004 - old and new
    row_by_size = {size: row for row in pairs if (size := _concat_size(sizes_of(row))) is not None}
    links = [
        (row_by_size[size], row)
        for row in pairs
        for size in sizes_of(row)
        if size in row_by_size and row_by_size[size] is not row
    ]
    appends = tuple({id(row): row for link in links for row in link}.values())
    # More of them than steps: it grows within a step, as when tokens are generated one by one.
    return (
        appends
        if len(links) >= _MIN_LINKS and len(appends) <= windows.count_steps(evidence)
        else ()
    )


def _concat_size(sizes: Sequence[_Size]) -> _Size | None:
    """Return the size of two concatenated tensors; ``None`` if the dimension is not clear.

    For two of the same size it is not known; such are no history.
    """
    first_size, second_size = sizes
    axes = [
        index
        for index, (length, other_length) in enumerate(zip(first_size, second_size, strict=False))
        if length != other_length
    ]
    if len(first_size) != len(second_size) or len(axes) != 1:
        return None
    axis = axes[0]
    return (*first_size[:axis], first_size[axis] + second_size[axis], *first_size[axis + 1 :])
