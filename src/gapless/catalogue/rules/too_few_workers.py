"""G102."""

from typing import Final

from gapless.catalogue.examples import fed, gpu, loader, machine
from gapless.catalogue.lateness import starts_anew
from gapless.catalogue.loading import Loading, evidence, more_workers, waited
from gapless.catalogue.loading import fed as with_workers
from gapless.catalogue.ruling import Figure, rule
from gapless.catalogue.seen_examples import seen
from gapless.catalogue.seen_parts import made_by, operator, used
from gapless.catalogue.staged import mainly
from gapless.catalogue.traced import BY_WORKERS
from gapless.catalogue.traps import workers as trap
from gapless.catalogue.waiting import loss_of_workers
from gapless.catalogue.windowed import ms
from gapless.model.facts import Loader
from gapless.model.finding import Loss, Measure
from gapless.model.seen import Seen

_WANT: Final = 1.1  # times the time between batches: what workers together take for each
_TWO: Final = loader(num_workers=2, prefetch_factor=2)
_WAITS: Final = {"decode": 30.0, "hand-over": 2.0}
_STEP: Final = {"busy.math": 20.0, "idle.data.decode": 30.0, "idle.data.hand-over": 2.0}


@rule(
    "G102",
    "too-few-workers",
    since="0.1",
    figures=[
        Figure(
            "Two workers, sixteen processors",
            "2 workers make a batch every 9.9 ms, where the training needs one every 3.0 ms: 8 "
            "would keep up. A worker takes 19.8 ms for a batch. Decoding takes 81 % of making one.",
            drawing="""
                step    aaaaaaaaaabbbbbbbbbb
                main    wwwwwwwlLswwwwwwwlLs
                gpu     .......me........me.
                worker  dddddcc...dddddcc...
            """,
            facts=gpu(_TWO),
            parts=(
                used(
                    _TWO,
                    {"decode": 5.0, "collate": 2.0},
                    made_by(2, {"decode": 0.25, "collate": 0.06}, busy=0.97),
                ),
            ),
        ),
        Figure(
            "Reads that wait for the disk leave their processor to others",
            "2 workers make a batch every 64.0 ms, where the training needs one every 20.0 ms: 8 "
            "would keep up. A worker takes 128.0 ms for a batch. Reading takes 95 % of making one.",
            seen(
                gpu(_TWO, machine(cpus=2)),
                _STEP,
                used(_TWO, _WAITS, made_by(2, {"read": (1.9, 0.3), "decode": 0.1}, busy=0.97)),
            ),
        ),
        Figure(
            "Both processors are at work",
            None,
            seen(
                gpu(_TWO, machine(cpus=2)),
                _STEP,
                used(_TWO, _WAITS, made_by(2, {"decode": 1.5}, busy=0.97)),
            ),
        ),
        Figure(
            "A trace, and no recorded run: that they are late is known",
            "Workers make batches more slowly than the training uses them: it waits for them in "
            "40.0 ms of each 60.0 ms step; how many workers there are the trace does not tell.",
            seen(
                None,
                {"busy.math": 20, "idle.data.unstaged": 40},
                operator(BY_WORKERS, calls=1, host_ms=40),
            ),
        ),
        Figure(
            "A trace in which a batch is handed over, and no more",
            None,
            seen(
                None,
                {"busy.math": 9, "idle.data.unstaged": 0.3},
                operator(BY_WORKERS, calls=1, host_ms=0.3),
            ),
        ),
        Figure(
            "A long text in some batches: two keep up with the mean, though they are hardly idle",
            None,
            seen(
                gpu(_TWO),
                {"busy.math": 70.0, "idle.data.decode": 28.0, "idle.data.hand-over": 2.0},
                used(
                    _TWO,
                    {"decode": 28.0, "hand-over": 2.0},
                    made_by(2, {"decode": 2.2}, busy=0.86, fetch_median_ns=60_000_000),
                ),
            ),
        ),
        Figure(
            "Eight keep up",
            None,
            seen(
                gpu(fed()),
                {"busy.math": 99.5, "idle.data.hand-over": 0.5},
                used(fed(), {"hand-over": 0.5}, made_by(8, {"decode": 1.5}, busy=0.12)),
            ),
        ),
    ],
)
def too_few_workers(seen: Seen, loader: Loader) -> Loss | None:
    """Recognise workers that work all the time, and too slowly together, where more could work.

    ## Why it costs time
    Workers make batches side by side. If one takes six times as long for a batch as the training
    does, six are needed; with fewer the training waits in each step for the difference.

    ## How it is measured
    From the recorder's marks: how long a worker takes for a batch (waiting for a processor left
    out), and what the training does between two batches. All workers together take more than a
    tenth longer than that. Where one stage is most of a fetch it is named, with its line: less of
    it helps as workers do. More can work if fetches leave processors free: one that waits for the
    disk nine tenths of its time leaves room for nine others on the same processor.

    A trace alone shows that batches come from workers, and how long the device (without one, the
    step) stands still for them, beyond what handing a batch over takes.
    """
    if seen.foreign:
        return loss_of_workers(too_few_workers, seen, loader)
    one = waited(seen, loader) if loader.num_workers else None
    if one is None:
        return None
    many = one.target()
    each = one.fetch_ns / loader.num_workers
    if each <= _WANT * one.work_ns or many <= loader.num_workers or starts_anew(one):
        return None
    why = trap(one.facts, loader, many)
    have = "1 worker makes" if loader.num_workers == 1 else f"{loader.num_workers} workers make"
    end = "would keep up" if one.enough() <= many else "is what the processors feed"
    return too_few_workers.loss(
        f"{have} a batch every {ms(each)}, where the training needs one every {ms(one.work_ns)}: "
        f"{many} {end}. A worker takes {ms(one.fetch_ns)} for a batch.{mainly(seen, one)}",
        with_workers(one),
        where=loader.where,
        evidence=(
            *evidence(one),
            *_busy(one),
            Measure("a batch in a worker", one.fetch_ns, "ns"),
            Measure("processors", one.machine.own, ""),
        ),
        helps=() if why else more_workers(one),
        no_remedy=None if why is None else f"More workers cannot be set as it is: {why}.",
    )


def _busy(one: Loading) -> tuple[Measure, ...]:
    busy = one.workers.busy
    return () if busy is None else (Measure("workers are busy", busy, "share"),)
