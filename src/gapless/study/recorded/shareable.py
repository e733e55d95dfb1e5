"""How much of a training's computing its threads may share: what long operators take."""

from typing import Final

from gapless.model.study import Study

# torch parts elementwise work from 32,768 numbers on (at::internal::GRAIN_SIZE), which one thread
# does in 5 to 40 µs; operators that one thread did in less were measured to gain nothing by two.
_LONG_NS: Final = 20_000
_OPERATORS: Final = "aten::"
_DATA: Final = "idle.data"


def shareable(study: Study) -> float | None:
    """Give the share of the training thread's work, batches aside, that is in long operators.

    ``None``: no window tells. All else is Python, calls, and operators that one thread does.
    """
    account = study.account
    data = sum(ns for leaf, ns in account.leaves.items() if leaf.startswith(_DATA))
    work = account.wall_ns - data
    if not account.steps or work <= 0:
        return None
    long = sum(
        one.host_self_ns
        for one in study.tables.operators
        if one.name.startswith(_OPERATORS) and one.host_self_ns >= _LONG_NS * one.calls
    )
    return min(1.0, long / work)
