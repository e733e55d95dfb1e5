"""A rank whose batches hold more samples than those of the others."""

from msgspec.structs import astuple, replace

from gapless.catalogue.declare.rule import rule
from gapless.catalogue.queries import windows
from gapless.catalogue.queries.ranks import collectives
from gapless.catalogue.queries.ranks.laden_rank import LadenRank, find_laden_rank
from gapless.catalogue.queries.ranks.rank_steps import STRAGGLER_WAIT
from gapless.model.change import Change, Drop
from gapless.model.estimate import Estimate
from gapless.model.evidence import Evidence
from gapless.model.facts import World
from gapless.model.finding import Detection, Measure


@rule(
    "G611",
    "uneven-batches",
    figures="""
    the_world = (ddp(), world(ranks=2))
    # DataLoader(data, 64 if rank else 32)
    > Rank 1's batches hold 64 samples, no other's more than 32: it works 10.0 ms of each 40.0 ms
      step longer than the others, which wait for it.
    with_steps(evidence_of_ranks(cpu(*the_world), {"busy.math": 10, "comm.exposed": 20,
      "comm.straggler_wait": 10}, {"busy.math": 20, "comm.exposed": 20}),
      rank_rates={0: 800.0, 1: 1600.0})
    # Alike, but for an epoch's last batch
    with_steps(evidence_of_ranks(cpu(*the_world), {"busy.math": 10, "comm.exposed": 20,
      "comm.straggler_wait": 10}, {"busy.math": 20, "comm.exposed": 20}),
      rank_rates={0: 1550.0, 1: 1600.0})
    # Four micro-batches of each step
    > Rank 1's batches hold 64 samples, no other's more than 32: it works 10.0 ms of each 40.0 ms
      step longer than the others, which wait for it.
    with_steps(evidence_of_ranks(cpu(ddp(), world(ranks=2, micro_batches=4.0)), {"busy.math": 10,
      "comm.exposed": 20, "comm.straggler_wait": 10}, {"busy.math": 20, "comm.exposed": 20}),
      rank_rates={0: 3200.0, 1: 6400.0})
    # A few samples more, and much that they do not explain
    with_steps(evidence_of_ranks(cpu(*the_world), {"busy.math": 20, "comm.exposed": 10,
      "comm.straggler_wait": 40}, {"busy.math": 60, "comm.exposed": 10}),
      rank_rates={0: 60 / 0.07, 1: 70 / 0.07})
    # It works no longer for them
    with_steps(evidence_of_ranks(cpu(*the_world), {"busy.math": 20, "comm.exposed": 20},
      {"busy.math": 20, "comm.exposed": 20}), rank_rates={0: 800.0, 1: 1600.0})
    """,
)
def uneven_batches(evidence: Evidence, world: World) -> Detection | None:
    """Recognise that one rank's batches hold more samples, so that it computes longer.

    ## Why it costs time
    Ranks that reduce gradients together go on together: those with smaller batches wait for the one
    with the largest in every step. (That also weighs samples unequally: gradients of ranks are
    averaged, not those of samples.)

    ## How it is measured
    By the samples of all batches of the run, and by what each rank computes and loads in windows:
    its fastest step is longer than that of any other, by no more than its share of samples above
    theirs; that is at least half of what it takes longer by itself, or it has other causes. The
    extra samples are not saved but dealt out among all ranks.
    """
    laden = find_laden_rank(evidence) if world.ranks > 1 else None
    if laden is None:
        return None
    rank = laden.rank.rank
    return replace(
        uneven_batches.detection(
            f"Rank {rank}'s batches hold {laden.samples:.0f} samples, no other's more than "
            f"{laden.most_of_others:.0f}: it works "
            f"{windows.format_step_part(evidence, laden.excess_ns.mid)} longer than the others, "
            "which wait for it.",
            _deal_out(evidence, laden, world.ranks),
            measures=(
                Measure("rank", rank, ""),
                Measure("samples of its batches", laden.samples, ""),
                Measure("of the others', at most", laden.most_of_others, ""),
                Measure("works longer, a step", laden.excess_ns.mid, "ns"),
                Measure("ranks", world.ranks, ""),
            ),
            no_remedy="deal out samples evenly: DistributedSampler, and one batch size for all",
        ),
        rank=rank,
    )


def _deal_out(evidence: Evidence, laden: LadenRank, n_ranks: int) -> Change:
    """Return what goes if all ranks take their share of the extra samples."""
    if evidence.on_device or not evidence.step_ns:
        return Drop((STRAGGLER_WAIT,), keep=1 / n_ranks)
    saved_share = (1 - 1 / n_ranks) / evidence.step_ns
    return collectives.change_joint_step(
        Estimate(*(saved_share * ns for ns in astuple(laden.excess_ns)))
    )
