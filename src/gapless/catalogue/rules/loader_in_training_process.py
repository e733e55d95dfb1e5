"""G101."""

from typing import Final

from gapless.catalogue.examples import cpu, fed, gpu, loader
from gapless.catalogue.loading import Loading, evidence, loading, more_workers
from gapless.catalogue.loading import fed as with_workers
from gapless.catalogue.ruling import Figure, rule
from gapless.catalogue.seen_examples import seen
from gapless.catalogue.seen_parts import MS, STEPS, made_by, operator, used
from gapless.catalogue.staged import mainly
from gapless.catalogue.traced import AT_HOME, BY_WORKERS
from gapless.catalogue.traps import workers as trap
from gapless.catalogue.waiting import loss_at_home
from gapless.catalogue.windowed import ms
from gapless.model.facts import Loader
from gapless.model.finding import Loss
from gapless.model.seen import Seen
from gapless.model.study import IN_LOADING, Site

_DECODES: Final = {"decode": 60.0, "collate": 20.0}
_LINES: Final = loader(iterable=True, dataset="__main__.Lines", asks_worker_info=False)


@rule(
    "G101",
    "loader-in-training-process",
    since="0.1",
    figures=[
        Figure(
            "Images are decoded while the GPU waits",
            "The training process makes each batch itself, 7.0 ms of a step of 10.0 ms. Decoding "
            "takes 100 % of making one.",
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
            "The training process makes each batch itself, 80.0 ms of a step of 100.0 ms. Decoding "
            "takes 72 % of making one.",
            seen(
                cpu(loader()),
                {"busy.math": 20, "idle.data.decode": 60, "idle.data.collate": 20},
                used(loader(), _DECODES, made_by(0, {"decode": 0.9, "collate": 0.35})),
            ),
        ),
        Figure(
            "A stream that every worker would read from its start",
            "The training process makes each batch itself, 80.0 ms of a step of 100.0 ms. Reading "
            "takes 100 % of making one.",
            seen(
                gpu(_LINES),
                {"busy.math": 20, "idle.data.read": 80},
                used(_LINES, {"read": 80.0}, made_by(0, {"read": 1.25})),
            ),
        ),
        Figure(
            "A trace, and no recorded run: as much is known",
            "The training process makes each batch itself, 80.0 ms of each 100.0 ms step, 94 % of "
            "it in decode (data.py:12).",
            seen(
                None,
                {"busy.math": 20, "idle.data.main": 80},
                operator(AT_HOME, calls=1, host_ms=80),
                Site("idle.data.main", "train.py", 40, "main", 80 * MS * STEPS, STEPS),
                Site(IN_LOADING, "data.py", 5, "__getitem__", 79 * MS * STEPS, STEPS),
                Site(IN_LOADING, "data.py", 12, "decode", 75 * MS * STEPS, STEPS),
            ),
        ),
        Figure(
            "A trace in which workers make them",
            None,
            seen(
                None,
                {"busy.math": 20, "idle.data.unstaged": 80},
                operator(BY_WORKERS, calls=1, host_ms=80),
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
    those processors, fewer threads of its own go with them: on few cores neither helps alone. A
    stage that takes most of a batch is named with its line: less of it helps with workers, too.

    A trace alone shows the iterator that makes batches in the training process, and how long the
    device (without one, the step) stands still for it; where it has stacks, also the function in
    which batches are made.
    """
    if seen.foreign:
        return loss_at_home(loader_in_training_process, seen, loader)
    one = loading(seen, loader) if loader.num_workers == 0 else None
    if one is None:
        return None
    many = one.target()
    why = trap(one.facts, loader, many)
    single = why is not None and trap(one.facts, loader, 1) is None
    return loader_in_training_process.loss(
        f"The training process makes each batch itself, {ms(one.wait_ns)} of a step of "
        f"{ms(one.step_ns)}.{_mainly(seen, one)}",
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


def _mainly(seen: Seen, one: Loading) -> str:
    return "" if one.use.workers is None else mainly(seen, one)
