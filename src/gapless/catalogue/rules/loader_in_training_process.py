"""G101."""

from typing import Final

from gapless.catalogue.examples import cpu, fed, gpu, loader
from gapless.catalogue.loading import evidence, loading, more_workers
from gapless.catalogue.loading import fed as with_workers
from gapless.catalogue.ruling import Figure, rule
from gapless.catalogue.seen_examples import seen
from gapless.catalogue.seen_parts import made_by, used
from gapless.catalogue.traps import workers as trap
from gapless.catalogue.windowed import ms
from gapless.model.facts import Loader
from gapless.model.finding import Loss
from gapless.model.seen import Seen

_DECODES: Final = {"decode": 60.0, "collate": 20.0}
_LINES: Final = loader(iterable=True, dataset="__main__.Lines", asks_worker_info=False)


@rule(
    "G101",
    "loader-in-training-process",
    since="0.1",
    figures=[
        Figure(
            "Images are decoded while the GPU waits",
            "The training process makes each batch itself, 7.0 ms of a step of 10.0 ms.",
            drawing="""
                step  aaaaaaaaaabbbbbbbbbb
                main  WWWWWWWlLsWWWWWWWlLs
                gpu   .......me........me.
            """,
            facts=gpu(loader()),
            parts=(used(loader(), {"main": 7.0}, made_by(0, {"decode": 0.1})),),
        ),
        Figure(
            "Two processors",
            "The training process makes each batch itself, 80.0 ms of a step of 100.0 ms.",
            seen(
                cpu(loader()),
                {"busy.math": 20, "idle.data.decode": 60, "idle.data.collate": 20},
                used(loader(), _DECODES, made_by(0, {"decode": 0.9, "collate": 0.35})),
            ),
        ),
        Figure(
            "A stream that every worker would read from its start",
            "The training process makes each batch itself, 80.0 ms of a step of 100.0 ms.",
            seen(
                gpu(_LINES),
                {"busy.math": 20, "idle.data.read": 80},
                used(_LINES, {"read": 80.0}, made_by(0, {"read": 1.25})),
            ),
        ),
        Figure(
            "Workers make them",
            None,
            seen(
                gpu(fed()),
                {"busy.math": 90, "idle.data.hand-over": 2},
                used(fed(), {"hand-over": 2.0}, made_by(8, {"decode": 1.0})),
            ),
        ),
        Figure(
            "A loader for evaluation",
            None,
            seen(
                gpu(loader(trains=False)),
                {"busy.math": 90, "idle.io_main.eval": 10},
                used(loader(trains=False), {"decode": 10.0}, made_by(0, {"decode": 0.1})),
            ),
        ),
    ],
)
def loader_in_training_process(seen: Seen, loader: Loader) -> Loss | None:
    """Recognise a loader without workers: the training process makes its batches itself.

    ## Why it costs time
    With ``num_workers=0`` a batch is read, decoded and put together when the training asks for it,
    by the thread that also launches the GPU's work. Nothing is made ahead: each step takes as long
    as its batch and its computation together. With workers it takes the longer of the two.

    ## How it is measured
    The recorder notes each ``next(loader)`` and what went on in it. As many workers are proposed as
    keep up with the training, if the processors feed so many. Where the training itself computes on
    those processors, fewer threads of its own go with them: on few cores neither helps alone.
    """
    one = loading(seen, loader) if loader.num_workers == 0 else None
    if one is None:
        return None
    many = one.target()
    why = trap(one.facts, loader, many)
    single = why is not None and trap(one.facts, loader, 1) is None
    return loader_in_training_process.loss(
        f"The training process makes each batch itself, {ms(one.wait_ns)} of a step of "
        f"{ms(one.step_ns)}.",
        with_workers(one, 1 if single else None),
        where=loader.where,
        evidence=evidence(one),
        helps=more_workers(one, 1 if single else None) if single or why is None else (),
        no_remedy=None if why is None else _by_hand(why, single=single),
    )


def _by_hand(why: str, *, single: bool) -> str:
    if not single:
        return f"Workers cannot be set as it is: {why}."
    return f"One worker can be set; more than one cannot, as it is: {why}."
