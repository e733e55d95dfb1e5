"""How much of a training's computing its threads may share: the time of long operators."""

from typing import Final

from gapless.model.study import Study

# torch splits elementwise work from 32,768 numbers on (at::internal::GRAIN_SIZE), which one thread
# does in 5 to 40 µs; operators that one thread did in less were measured to gain nothing by two.
_MIN_LONG_NS: Final = 20_000
_OPERATOR_PREFIX: Final = "aten::"
_DATA_PREFIX: Final = "idle.data"


def shareable_share(study: Study) -> float | None:
    """Return the share of the training thread's work, except batches, that is in long operators.

    ``None``: no window shows it. The rest is Python, calls, and operators that one thread does.
    """
    account = study.account
    data_ns = sum(ns for leaf, ns in account.leaves.items() if leaf.startswith(_DATA_PREFIX))
    work_ns = account.wall_ns - data_ns
    if not account.steps or work_ns <= 0:
        return None
    long_ns = sum(
        operator.host_self_ns
        for operator in study.tables.operators
        if operator.name.startswith(_OPERATOR_PREFIX)
        and operator.host_self_ns >= _MIN_LONG_NS * operator.calls
    )
    return min(1.0, long_ns / work_ns)
