"""What DistributedDataParallel does beside exchanging: copies back from buckets, and its search."""

from typing import Final

from gapless.catalogue.declare.fix import Changes
from gapless.catalogue.queries import windows
from gapless.catalogue.queries.ranks import buckets, collectives, rank_waits
from gapless.catalogue.queries.ranks.rank_steps import RANK_WAITS
from gapless.model.change import Omit
from gapless.model.edit import Proposal, SetArgument
from gapless.model.estimate import Estimate
from gapless.model.evidence import Evidence
from gapless.model.reducer import COPY_BACK, REDUCE_CALL

_MIN_RENEWED_BYTES: Final = 2**24  # of all gradients: smaller ones stay in caches
# Times the copies back, of a host: with new gradients out of its caches, or in new pages: 1.8 and
# 2.3 alone (benchmarks/bucket_views.py), 1.1 to 2.3 in four recordings of two ranks (tests/jobs).
_WITH_PAGES: Final = Estimate(1.0, 1.8, 2.4)
SEARCH: Final = "torch.distributed.ddp.reducer::search_unused_parameters"


def drop_copies_back(evidence: Evidence, _proposal: Proposal | None = None) -> Changes | None:
    """Return what goes where gradients are views of buckets; ``None`` if no window shows it.

    They are still copied into buckets, or divided there: only the copies back are left out. Large
    gradients on a host are made anew in each step otherwise, out of caches or in cleared pages.
    """
    if not windows.select_operators(evidence, COPY_BACK):
        return None
    if evidence.has_device or collectives.gradient_bytes(evidence) < _MIN_RENEWED_BYTES:
        return (Omit((COPY_BACK,)),)
    steps_ns = evidence.study.account.wall_ns / windows.count_steps(evidence)
    share = windows.sum_calls(evidence, COPY_BACK).host_ns / steps_ns
    factor = _WITH_PAGES
    return (
        collectives.change_joint_step(
            Estimate(factor.low * share, factor.mid * share, factor.high * share)
        ),
    )


def regroup(evidence: Evidence, proposal: Proposal) -> Changes | None:
    """Return what goes, and comes, with buckets of another size; ``None`` if no window shows it."""
    sizes = (edit.value for edit in proposal.edits if isinstance(edit, SetArgument))
    size = next((value for value in sizes if isinstance(value, int | float)), None)
    if size is None or not windows.sum_calls(evidence, REDUCE_CALL).count:
        return None
    return (buckets.change_buckets(evidence, size),)


def drop_search(evidence: Evidence, _proposal: Proposal | None = None) -> Changes | None:
    """Return what goes without the search for unused parameters; ``None`` if no window shows it.

    With it goes the exchange of what was used: one of those of a step, and not a longer one than
    the others; where all are of few bytes, it takes as long as they do. Without a device ranks wait
    for one another by chance, and that grows with the root of how often they meet.
    """
    if not windows.select_operators(evidence, SEARCH):
        return None
    # Not each step exchanges where gradients are summed over several; gradients remain.
    n_searches = windows.sum_calls(evidence, SEARCH).count
    count = max(2.0, windows.sum_calls(evidence, REDUCE_CALL).count / (n_searches or 1))
    remaining = Estimate(1 - 1 / count, 1 - 0.5 / count, 1.0)
    if not evidence.on_device:
        fewer = collectives.remains_of_fewer(evidence, count, count - 1)
        remaining = remaining if fewer is None else Estimate(fewer.mid, fewer.mid, fewer.high)
    changes = (Omit((SEARCH,)), collectives.change_exposed(evidence, remaining))
    waits_ns = rank_waits.min_rank_ns(evidence, *RANK_WAITS) * (1 - (1 - 1 / count) ** 0.5)
    if evidence.on_device or not evidence.step_ns or not waits_ns:
        return changes
    share = waits_ns / evidence.step_ns
    return (*changes, collectives.change_joint_step(Estimate(share / 2, share, share)))
