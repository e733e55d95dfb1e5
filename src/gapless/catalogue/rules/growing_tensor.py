"""A tensor that each step makes anew, a little longer than the step before."""

from collections.abc import Sequence
from typing import Final

from gapless.catalogue import examples, windowed
from gapless.catalogue.computing import per_step
from gapless.catalogue.ruling import Figure, rule
from gapless.catalogue.seen_examples import seen as stated
from gapless.catalogue.work_examples import worked
from gapless.model.finding import Loss, Measure
from gapless.model.interval import Interval
from gapless.model.seen import Seen
from gapless.model.work import Work
from gapless.replay.roofline import SAME, scales
from gapless.replay.shorter import sizes_of

_CAT: Final = "aten::cat"
_LEAST: Final = 0.01  # of the step
_LINKS: Final = 2  # results that are what the next is made of
_GONE: Final = Interval(0.0, 0.05, 0.3)  # what is appended is copied once all the same
_Size = tuple[int, ...]


def _appended(rows: int, more: int = 128, calls: float = 0.1) -> Work:
    return worked(_CAT, ((rows, 8), (more, 8)), 1.0, "busy.mem", calls=calls)


@rule(
    "G515",
    "growing-tensor",
    since="0.1",
    figures=[
        Figure(
            "history = torch.cat([history, outputs]), in each step",
            "torch.cat makes a tensor anew in each step that grows by [128, 8] each time (the "
            "last: [1408, 8]): copying it takes 4.0 ms of each 24.0 ms step, ever more.",
            stated(
                examples.cpu(),
                {"busy.math": 20, "busy.mem": 4},
                *(_appended(1024 + 128 * step) for step in range(4)),
            ),
        ),
        Figure(
            "A cache of keys that begins anew with each sentence",
            None,
            stated(
                examples.cpu(),
                {"busy.math": 20, "busy.mem": 4},
                *(_appended(1 + step, more=1, calls=1) for step in range(4)),
            ),
        ),
        Figure(
            "A sentence that is written token by token, in one step of some",
            None,
            stated(
                examples.cpu(),
                {"busy.math": 20, "busy.mem": 4},
                *(_appended(4 + step, more=1) for step in range(32)),
            ),
        ),
        Figure(
            "Batches of different lengths",
            None,
            stated(
                examples.cpu(),
                {"busy.math": 20, "busy.mem": 4},
                *(_appended(rows) for rows in (900, 1300, 700, 1111)),
            ),
        ),
    ],
)
def growing_tensor(seen: Seen) -> Loss | None:
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
    step = seen.step_ns
    rows = _grown(seen)
    if not step or not rows:
        return None
    spent = per_step(seen, sum(one.ns for one in rows))
    if spent < _LEAST * step:
        return None
    last = max(rows, key=lambda one: max(sizes_of(one)))
    sizes = sorted(sizes_of(last))
    alone = set(map(id, rows))
    return growing_tensor.loss(
        f"torch.cat makes a tensor anew in each step that grows by {list(sizes[0])} each time (the "
        f"last: {list(sizes[-1])}): copying it takes {windowed.of_step(seen, spent)}, ever more.",
        *scales(seen.study.work, lambda one: _GONE if id(one) in alone else SAME),
        where=windowed.site(seen, _CAT),
        evidence=(
            Measure("copies of it, a step", spent, "ns"),
            Measure("such copies in the windows", len(rows), ""),
        ),
        no_remedy=(
            "append to a Python list, detached, and call torch.cat once when the history is "
            "needed; or write into a tensor that was made large enough; or keep a running sum"
        ),
        inferred=True,
    )


def _grown(seen: Seen) -> tuple[Work, ...]:
    """Give the calls that append to what another one made; none if few do."""
    rows = [one for one in seen.study.work if one.operator == _CAT and not one.backward]
    single = [one for one in rows if one.calls <= 1 < windowed.steps(seen)]
    pairs = [one for one in single if len(sizes_of(one)) == 2]  # noqa: PLR2004 - old and new
    made = {size: one for one in pairs if (size := _joined(sizes_of(one))) is not None}
    linked = [
        (made[size], one)
        for one in pairs
        for size in sizes_of(one)
        if size in made and made[size] is not one
    ]
    found = tuple({id(one): one for pair in linked for one in pair}.values())
    # More of them than steps: what grows within a step, as where tokens are made one by one.
    return found if len(linked) >= _LINKS and len(found) <= windowed.steps(seen) else ()


def _joined(sizes: Sequence[_Size]) -> _Size | None:
    """Give the size of two tensors one behind another; ``None`` where it is not clear along what.

    Of two of one size it is not known; such are no history.
    """
    first, second = sizes
    apart = [at for at, (one, other) in enumerate(zip(first, second, strict=False)) if one != other]
    if len(first) != len(second) or len(apart) != 1:
        return None
    along = apart[0]
    return (*first[:along], first[along] + second[along], *first[along + 1 :])
