"""A rank for which the others wait in collectives, step after step."""

from typing import Final

from gapless.catalogue import examples, ranked, windowed
from gapless.catalogue.rank_examples import line, standing, together
from gapless.catalogue.ruling import Figure, rule
from gapless.model.change import Drop
from gapless.model.edit import Where
from gapless.model.finding import Loss, Measure
from gapless.model.seen import Seen

_LEAST: Final = 0.02  # of the step
_MOSTLY: Final = 0.6  # of the others' steps: in so many they wait for it, half of the surplus each
_TOLD: Final = 0.25  # of the surplus: what is less of it is not said
_WORK: Final = "computing"
_DOING: Final[dict[str, tuple[str, ...]]] = {  # what a rank may do more → leaves
    "waiting for data": ("idle.data",),
    "off the processor, or where nothing is recorded": ("idle.host.unframed",),
    "in Python between operators": ("idle.host.python",),
    "calling operators": ("idle.host.dispatch", "idle.launch", "idle.host.optimizer"),
    _WORK: ("busy.",),
    "in the garbage collector": ("idle.gc",),
    "on checkpoints": ("idle.io_main.checkpoint",),
    "on logging": ("idle.io_main.logging",),
    "on evaluation": ("idle.io_main.eval",),
    "on copies": ("copy.", "idle.h2d"),
    "waiting for its device": ("idle.sync",),
    "on memory": ("idle.alloc",),
}
_WORLD: Final = (examples.ddp(), examples.world(ranks=2))


@rule(
    "G601",
    "straggling-rank",
    since="0.1",
    figures=[
        Figure(
            "One rank sleeps in each step",
            "The others wait for rank 1 in 100 % of their steps: by itself it takes 8.0 ms longer "
            "of each 16.0 ms step than the next slowest, with 8.0 ms more off the processor, or "
            "where nothing is recorded.",
            standing(
                together(
                    examples.cpu(*_WORLD),
                    {"busy.math": 6, "comm.exposed": 2, "comm.straggler_wait": 8},
                    {"busy.math": 6, "comm.exposed": 2, "idle.host.unframed": 8},
                ),
                (line(77, 0.9), line(79, 0.0)),
                (line(77, 0.3), line(79, 0.6)),
            ),
        ),
        Figure(
            "On GPUs: the batches of one rank are longer",
            "The others wait for rank 0 in 100 % of their steps: by itself it takes 20.0 ms longer "
            "of each 100.0 ms step than the next slowest, with 20.0 ms more computing.",
            together(
                examples.gpu(*_WORLD),
                {"busy.tc_math": 90, "comm.exposed": 10},
                {"busy.tc_math": 70, "comm.exposed": 10, "comm.straggler_wait": 20},
            ),
        ),
        Figure(
            "Ranks wait for one another in turn",
            None,
            together(
                examples.cpu(*_WORLD),
                [{"busy.math": 10}, {"busy.math": 8, "comm.straggler_wait": 2}],
                [{"busy.math": 8, "comm.straggler_wait": 2}, {"busy.math": 10}],
            ),
        ),
        Figure(
            "Of one rank nothing is known of others",
            None,
            together(
                examples.cpu(*_WORLD), {"busy.math": 6, "comm.exposed": 2, "comm.wait_estimated": 8}
            ),
        ),
    ],
)
def straggling_rank(seen: Seen) -> Loss | None:
    """Recognise one rank that comes late to the collectives, so that all others wait for it.

    ## Why it costs time
    Ranks that reduce gradients together go on together: a step is as long as the slowest rank
    makes it. A rank that does more than the others, waits for more, or runs on a slower machine,
    delays them all. A rank's own trace shows the others' waits as communication, and itself busy:
    only side by side do they tell.

    ## How it is measured
    Collectives are matched over the windows of all ranks; what a rank waits for the last one is
    known from that. What each rank does by itself is its step without those waits. One rank must be
    the slowest by 2 % of a step at least, and the others must have waited for so much as half of
    that in six of ten of their steps, and longer than for any other rank. What removing it gives is
    what is left if that rank is as fast as the next slowest, which then decides; what it computes
    more is not gone but dealt out among all ranks. What they wait for one another by chance stays.
    What it spends more is found by comparing its steps with the others', and its line is the one
    in which its training thread was seen to stand more often than theirs.
    """
    ranks = ranked.several(seen)
    if not ranks:
        return None
    last, surplus = ranked.slowest(ranks)
    others = [one for one in ranks if one is not last]
    waited = [ns for one in others for ns in one.known.tolist()]
    often = sum(ns >= surplus / 2 for ns in waited) / len(waited)
    step = float(last.lengths.mean())
    told = {one.rank: one.ns for one in seen.study.stragglers}
    for_another = bool(told) and max(told, key=lambda rank: told[rank]) != last.rank
    if surplus < _LEAST * step or often < _MOSTLY or for_another:
        return None
    spent = ranked.more(ranks, last, _DOING)
    computed = min(1.0, dict(spent).get(_WORK, 0.0) / surplus)
    much = [one for one in spent if one[1] >= _TOLD * surplus][:2] or spent[:1]
    found = ranked.line_of(seen, last.rank)
    return straggling_rank.loss(
        f"The others wait for rank {last.rank} in {often * 100:.0f} % of their steps: by itself it "
        f"takes {windowed.ms(surplus)} longer of each {windowed.ms(step)} step than the next "
        f"slowest, with {' and '.join(f'{windowed.ms(ns)} more {doing}' for doing, ns in much)}.",
        Drop((ranked.LAST,), keep=max(0.0, computed) / len(ranks)),
        where=None if found is None else Where(found.file, found.line, found.function),
        evidence=(
            Measure("rank", last.rank, ""),
            Measure("by itself longer than the next slowest rank", surplus, "ns"),
            Measure("steps in which the others wait for it", often, "share"),
            *(Measure(f"{doing}, more than the others", ns, "ns") for doing, ns in much),
            Measure("ranks", len(ranks), ""),
        ),
        no_remedy=(
            "let that rank do what the others do: share its extra work among all, give it to a "
            "thread or a loader's workers; deal out samples by length; if it does nothing more, "
            "look at its machine"
        ),
    )
