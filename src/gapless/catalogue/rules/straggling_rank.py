"""A rank for which the others wait in collectives."""

from typing import Final

import numpy as np

from gapless.catalogue import examples, ranked, windowed
from gapless.catalogue.rank_examples import line, standing, together
from gapless.catalogue.ruling import Figure, NotSeenError, rule
from gapless.catalogue.seen_parts import operator
from gapless.catalogue.traced import AT_HOME
from gapless.model.change import Drop
from gapless.model.edit import Where
from gapless.model.facts import Loader
from gapless.model.finding import Loss, Measure
from gapless.model.seen import Seen

_LEAST: Final = 0.02  # of the step
_MOSTLY: Final = 0.6  # of the time that ranks wait for one another: so much of it for this one
_BY_CHANCE: Final = 2.0  # standard errors: a surplus that is no larger may be none
_HALF: Final = 0.5  # of the surplus
_OTHERS: Final = 0.5  # processors that others took
_TOLD: Final = 0.25  # of the surplus: what is less of it is not said
_WORK: Final = "computing"
_DATA: Final = "waiting for data"
_DOING: Final[dict[str, tuple[str, ...]]] = {  # what a rank may do more → leaves
    _DATA: ("idle.data",),
    "off the processor, or where nothing is recorded": ("idle.host.unframed",),
    "in Python between operators": ("idle.host.python",),
    "calling operators": ("idle.host.dispatch", "idle.launch", "idle.host.optimizer"),
    _WORK: ("busy.",),
    "in the garbage collector": ("idle.gc",),
    "on checkpoints": ("idle.io_main.checkpoint",),
    "on logging": ("idle.io_main.logging",),
    "on evaluation": ("idle.io_main.eval",),
    "on its own profiler": ("idle.io_main.profiling",),
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
            "Rank 1 comes late to the collectives: the other waits 8.0 ms of each 16.0 ms step for "
            "it; by itself it takes 8.0 ms longer than the next slowest, with 8.0 ms more off the "
            "processor, or where nothing is recorded.",
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
            "Rank 0 comes late to the collectives: the other waits 20.0 ms of each 100.0 ms step "
            "for it; by itself it takes 20.0 ms longer than the next slowest, with 20.0 ms more "
            "computing.",
            together(
                examples.gpu(*_WORLD),
                {"busy.tc_math": 90, "comm.exposed": 10},
                {"busy.tc_math": 70, "comm.exposed": 10, "comm.straggler_wait": 20},
            ),
        ),
        Figure(
            "A trace: the loader of one rank is late",
            "Rank 1 comes late to the collectives: the other waits 50.0 ms of each 80.0 ms step "
            "for it; by itself it takes 50.0 ms longer than the next slowest, with 50.0 ms more "
            "waiting for data, which the training process loads itself.",
            together(
                None,
                {"busy.math": 25, "comm.exposed": 5, "comm.straggler_wait": 50},
                {"busy.math": 25, "comm.exposed": 5, "idle.data.main": 50},
                parts=(operator(AT_HOME, calls=1, host_ms=25),),
            ),
        ),
        Figure(
            "Half of the steps, and most of the time",
            "Rank 0 comes late to the collectives: the other waits 20.0 ms of each 60.0 ms step "
            "for it; by itself it takes 20.0 ms longer than the next slowest, with 20.0 ms more "
            "on checkpoints.",
            together(
                examples.gpu(*_WORLD),
                [{"busy.math": 40, "idle.io_main.checkpoint": 40}, {"busy.math": 40}],
                [{"busy.math": 40, "comm.straggler_wait": 40}, {"busy.math": 40}],
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
    the slowest by 2 % of a step at least, by more than chance makes of so many steps, and six
    tenths of all time that ranks wait for one another must be waits for it. On processors that
    others may have taken, a rank that only computes longer is not blamed. What removing it gives is
    what is left if that rank is as fast as the next slowest, which then decides; what it computes
    more is not gone but dealt out among all ranks. What they wait for one another by chance stays.
    What it spends more is found by comparing its steps with the others', and its line is the one
    in which its training thread was seen to stand more often than theirs.
    """
    ranks = ranked.several(seen)
    if not ranks:
        return None
    last, surplus = ranked.slowest(ranks)
    step, share = float(last.lengths.mean()), _share(seen, ranks, last)
    if surplus < _LEAST * step or share < _MOSTLY or _by_chance(ranks, last):
        return None
    spent = ranked.more(ranks, last, _DOING)
    computed = min(1.0, dict(spent).get(_WORK, 0.0) / surplus)
    if computed >= _HALF and _is_shared(seen):
        why = f"whether rank {last.rank} has more to compute or fewer processors is not known"
        raise NotSeenError("processors", why)
    much = [one for one in spent if one[1] >= _TOLD * surplus][:2] or spent[:1]
    waited = ranked.waited(ranks, last)
    others = "the other waits" if len(ranks) == 2 else "the others wait"  # noqa: PLR2004
    return straggling_rank.loss(
        f"Rank {last.rank} comes late to the collectives: {others} "
        f"{windowed.of_step(seen, waited)} for it; by itself it takes {windowed.ms(surplus)} "
        f"longer than the next slowest, with "
        f"{' and '.join(_said(seen, doing, ns) for doing, ns in much)}.",
        Drop((ranked.LAST,), keep=max(0.0, computed) / len(ranks)),
        where=_place(seen, last.rank, much[0][0]),
        evidence=(
            Measure("rank", last.rank, ""),
            Measure("waited for it, a step", waited, "ns"),
            Measure("of all waits for a last rank", share, "share"),
            Measure("by itself longer than the next slowest rank", surplus, "ns"),
            *(Measure(f"{doing}, more than the others", ns, "ns") for doing, ns in much),
            Measure("ranks", len(ranks), ""),
        ),
        no_remedy=(
            "let that rank do what the others do: share its extra work among all, give it to a "
            "thread or a loader's workers; deal out samples by length; if it does nothing more, "
            "look at its machine"
        ),
    )


def _share(seen: Seen, ranks: tuple[ranked.Rank, ...], last: ranked.Rank) -> float:
    """Give the share of the time in which ranks wait for a last one that is for this one.

    Where it was not told for whom: by who waits.
    """
    told = {one.rank: float(one.ns) for one in seen.study.stragglers}
    if sum(told.values()):
        return told.get(last.rank, 0.0) / sum(told.values())
    waits = {one.rank: float(one.known.sum()) for one in ranks}
    whole = sum(waits.values())
    return 1 - waits[last.rank] / whole if whole else 0.0


def _by_chance(ranks: tuple[ranked.Rank, ...], last: ranked.Rank) -> bool:
    """Tell whether its steps vary so much that it may be no slower than the next slowest."""
    others = [one for one in ranks if one is not last]
    if len({len(one.rows) for one in ranks}) > 1 or len(last.rows) < 2:  # noqa: PLR2004
        return False
    surplus = last.own - np.max([one.own for one in others], axis=0)
    error = float(surplus.std(ddof=1)) / len(surplus) ** 0.5
    return float(surplus.mean()) < _BY_CHANCE * error


def _is_shared(seen: Seen) -> bool:
    """Tell whether others may have taken the processors that the ranks compute on."""
    if seen.on_device:
        return False
    recorded = seen.study.recorded
    if recorded is None:
        return True
    return recorded.others is not None and recorded.others.cores > _OTHERS


def _said(seen: Seen, doing: str, ns: float) -> str:
    """Say what a rank does more, and of its waits for data who makes it wait."""
    words = f"{windowed.ms(ns)} more {doing}"
    loader = _loader(seen) if doing == _DATA else None
    if loader is None:
        return words
    made = "its workers make" if loader.num_workers else "the training process loads itself"
    return f"{words}, which {made}"


def _loader(seen: Seen) -> Loader | None:
    """Give the loader that feeds the training, if there is but one."""
    every = [one for one in (seen.facts.loaders if seen.facts else ()) if one.trains is not False]
    return every[0] if len(every) == 1 else None


def _place(seen: Seen, rank: int, doing: str) -> Where | None:
    """Give the line at which a rank stands more often than others; of its waits the loader's."""
    line = ranked.line_of(seen, rank)
    if line is not None:
        return Where(line.file, line.line, line.function)
    loader = _loader(seen) if doing == _DATA else None
    if loader is not None and loader.where is not None:
        return loader.where
    leaves = _DOING[doing]
    sites = {one.name for one in seen.study.sites if one.name.startswith(leaves)}
    return windowed.site(seen, *sites) if sites else None
