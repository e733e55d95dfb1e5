"""What must hold of every record whatever its truth: exact sums, identity, steady leaves."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path

from gapless.model.account import Account
from gapless.model.study import Study
from gapless.study import Options, open_study


def has_exact_sums(study: Study) -> bool:
    """Return whether each account of a study sums to its time to the nanosecond."""
    sums = [(study.account.leaves, study.account.wall_ns)]
    sums += [(study.account.groups, study.account.wall_ns)]
    sums += [(row.leaves, row.row.end - row.row.start) for row in study.account.rows]
    recorded = study.recorded
    if recorded is not None:
        sums.append((recorded.timeline.leaves, recorded.timeline.wall_ns))
        joint = recorded.account
        if joint is not None:
            sums.append((joint.account.leaves, joint.account.wall_ns))
    return all(sum(leaves.values()) == wall for leaves, wall in sums)


def identity(study: Study) -> tuple[float | None, float | None]:
    """Return how far unchanged replays are off: the trace, and the un-profiled step."""
    diagnosis = study.diagnosis
    fidelity = diagnosis.fidelity if diagnosis is not None else None
    return (None, None) if fidelity is None else (fidelity.imputed, fidelity.unprofiled)


def steadiness(run: Path) -> float | None:
    """Return how far the leaves of adjacent windows of one run differ at most (total variation).

    Windows with stacks are slower and are left out. ``None`` with fewer than two windows.
    """
    windows = [
        window
        for window in sorted((run / "windows").glob("rank0-*"))
        if "stacks" not in window.name
    ]
    accounts = [open_study([window], Options(cache=False)).account for window in windows]
    shares = [_shares(account) for account in accounts if account.wall_ns and account.steps]
    return max((_variation(a, b) for a, b in pairwise(shares)), default=None)


def _shares(account: Account) -> Mapping[str, float]:
    return {leaf: ns / account.wall_ns for leaf, ns in account.leaves.items()}


def _variation(a: Mapping[str, float], b: Mapping[str, float]) -> float:
    leaves: Sequence[str] = sorted({*a, *b})
    return sum(abs(a.get(leaf, 0.0) - b.get(leaf, 0.0)) for leaf in leaves) / 2
