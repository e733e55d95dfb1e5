"""The rank whose batches hold most samples: by all batches of a run, not by its few windows."""

from typing import Final

from msgspec import Struct

from gapless.catalogue.queries.ranks import rank_waits
from gapless.catalogue.queries.ranks.rank_steps import Rank
from gapless.model.evidence import Evidence

_MAX_EVEN_SHARE: Final = 0.9  # of the most samples: loaders' last batches vary
_COMPUTING: Final = "busy."


class LadenRank(Struct, frozen=True):
    """A rank with more samples a step than any other."""

    rank: Rank
    samples: float  # a step
    most_of_others: float  # samples a step
    excess_ns: float  # that it computes longer for them than the others, a step; may be negative


def find_laden_rank(evidence: Evidence) -> LadenRank | None:
    """Return the rank whose steps hold most samples.

    ``None`` if others hold about as many, if their number is not known, or if no window shows what
    each rank computes.
    """
    ranks, steps = rank_waits.find_ranks(evidence), evidence.run_steps
    if steps is None or not ranks or any(rank.rank not in steps.rank_rates for rank in ranks):
        return None
    samples = [steps.rank_rates[rank.rank] * steps.mean_ns / 1e9 for rank in ranks]
    most = max(samples)
    index = samples.index(most)
    most_of_others = max(samples[:index] + samples[index + 1 :])
    if most_of_others > _MAX_EVEN_SHARE * most:
        return None
    others_ns = [rank.mean(_COMPUTING) for rank in ranks if rank is not ranks[index]]
    own_ns = ranks[index].mean(_COMPUTING)
    longer_ns = own_ns - sum(others_ns) / len(others_ns)
    excess_ns = min(longer_ns, (1 - most_of_others / most) * own_ns)
    return LadenRank(ranks[index], most, most_of_others, excess_ns)


def laden_excess_share(evidence: Evidence) -> float:
    """Return the share of a step that the laden rank computes longer, as a mean of all ranks."""
    laden = find_laden_rank(evidence)
    if laden is None or not evidence.step_ns:
        return 0.0
    n_ranks = len(rank_waits.find_ranks(evidence))
    return max(0.0, laden.excess_ns) / evidence.step_ns / n_ranks
