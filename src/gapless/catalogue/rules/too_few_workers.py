"""G102."""

from typing import Final

from gapless.catalogue.examples import fed, gpu, loader, machine
from gapless.catalogue.loading import evidence, more_workers, percent, waited
from gapless.catalogue.loading import fed as with_workers
from gapless.catalogue.ruling import Figure, rule
from gapless.catalogue.seen_examples import seen
from gapless.catalogue.seen_parts import made_by, used
from gapless.catalogue.traps import workers as trap
from gapless.catalogue.windowed import ms
from gapless.model.facts import Loader
from gapless.model.finding import Loss, Measure
from gapless.model.seen import Seen

_BUSY: Final = 0.7  # of their life: below, workers waited for something else than for time
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
            "2 workers are busy 97 % of their time and make a batch in 19.8 ms each, where the "
            "training needs one in 3.0 ms: 8 would keep up.",
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
            "2 workers are busy 97 % of their time and make a batch in 128.0 ms each, where the "
            "training needs one in 20.0 ms: 8 would keep up.",
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
    From the recorder's marks: the share of their life in which workers fetch, how long they take
    for a batch (waiting for a processor left out), and what the training does between two batches.
    More can work if fetches leave processors free: one that waits for the disk nine tenths of its
    time leaves room for nine others on the same processor.
    """
    one = waited(seen, loader) if loader.num_workers else None
    if one is None:
        return None
    busy = one.workers.busy
    many = one.target()
    if busy is None or busy < _BUSY or many <= loader.num_workers:
        return None
    why = trap(one.facts, loader, many)
    have = "1 worker is" if loader.num_workers == 1 else f"{loader.num_workers} workers are"
    end = "would keep up" if one.enough() <= many else "is what the processors feed"
    return too_few_workers.loss(
        f"{have} busy {percent(busy)} of their time and make a batch in {ms(one.fetch_ns)} each, "
        f"where the training needs one in {ms(one.work_ns)}: {many} {end}.",
        with_workers(one),
        where=loader.where,
        evidence=(
            *evidence(one),
            Measure("workers are busy", busy, "share"),
            Measure("a batch in a worker", one.fetch_ns, "ns"),
            Measure("processors", one.machine.own, ""),
        ),
        helps=() if why else more_workers(one),
        no_remedy=None if why is None else f"More workers cannot be set as it is: {why}.",
    )
