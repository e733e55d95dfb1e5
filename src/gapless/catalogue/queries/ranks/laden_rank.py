"""The rank whose batches hold most samples: by all batches of a run, not by its few windows."""

from typing import Final

from msgspec import Struct

from gapless.catalogue.queries.ranks import rank_waits
from gapless.catalogue.queries.ranks.rank_steps import Rank
from gapless.model.estimate import Estimate
from gapless.model.evidence import Evidence

_MAX_EVEN_SHARE: Final = 0.9  # of the most samples: loaders' last batches vary
_MIN_STEP_SHARE: Final = 0.02  # of the step
_MIN_EXPLAINED_SHARE: Final = 0.5  # of what it takes longer by itself: else that has other causes
_WORK: Final = ("busy.", "idle.data")  # that grows with the samples


class LadenRank(Struct, frozen=True):
    """A rank with more samples a batch than any other, which works longer for them."""

    rank: Rank
    samples: float  # of a batch
    most_of_others: float  # samples of a batch
    excess_ns: Estimate  # that it works longer for them than the others, a step


def find_laden_rank(evidence: Evidence) -> LadenRank | None:
    """Return the rank whose batches hold most samples, and which works longer for them.

    What it works longer: at most in proportion to its samples, at least by what its fastest step
    differs from the others'; others on the machine only slow steps down. ``None`` if others hold
    about as many, if their number is not known, if no window shows what each rank does, or if
    samples explain less than half of what it takes longer by itself than the next slowest.
    """
    ranks, steps = rank_waits.find_ranks(evidence), evidence.run_steps
    step_ns = evidence.step_ns
    if steps is None or not step_ns or not ranks:
        return None
    if any(rank.rank not in steps.rank_rates for rank in ranks):
        return None
    n_batches = evidence.facts.world.passes_a_step or 1.0
    samples = [steps.rank_rates[rank.rank] * steps.mean_ns / 1e9 / n_batches for rank in ranks]
    most = max(samples)
    index = samples.index(most)
    most_of_others = max(samples[:index] + samples[index + 1 :])
    if most_of_others > _MAX_EVEN_SHARE * most:
        return None
    work_ns = [rank.sums(_WORK) for rank in ranks]
    own_ns = work_ns.pop(index)
    expected_share = 1 - most_of_others / most
    longer_ns = max(0.0, float(own_ns.min()) - max(float(other_ns.min()) for other_ns in work_ns))
    low_ns = min(longer_ns, expected_share * float(own_ns.min()))
    expected_ns = expected_share * float(own_ns.mean())
    excess_ns = Estimate(low_ns, (low_ns + expected_ns) / 2, expected_ns)
    lengths_ns = [float(rank.own_lengths.mean()) for rank in ranks]
    surplus_ns = lengths_ns.pop(index) - max(lengths_ns)
    if (
        not low_ns
        or excess_ns.mid < _MIN_STEP_SHARE * step_ns
        or excess_ns.high < _MIN_EXPLAINED_SHARE * surplus_ns
    ):
        return None
    return LadenRank(ranks[index], most, most_of_others, excess_ns)
