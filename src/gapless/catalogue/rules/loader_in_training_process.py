"""G101."""

from typing import Final

from gapless.catalogue.examples import cpu, worker_loader, gpu, loader
from gapless.catalogue.loading import Loading, measure_loading, find_loading, name_worker_fixes
from gapless.catalogue.loading import change_workers as with_workers
from gapless.catalogue.ruling import RuleFigure, rule
from gapless.catalogue.seen_examples import evidence_of
from gapless.catalogue.seen_parts import MS, STEPS, example_workers, operator, example_use
from gapless.catalogue.staged import describe_main_stage
from gapless.catalogue.traced import IN_PROCESS_ITERATOR, WORKER_ITERATOR
from gapless.catalogue.traps import find_workers_trap as trap
from gapless.catalogue.waiting import detect_own_loading
from gapless.catalogue.windowed import ms
from gapless.model.facts import Loader
from gapless.model.finding import Detection
from gapless.model.seen import Evidence
from gapless.model.study import IN_LOADING, Site

_STAGE_WAITS: Final = {"decode": 60.0, "collate": 20.0}
_LINES_LOADER: Final = loader(iterable=True, dataset="__main__.Lines", asks_worker_info=False)


@rule(
    "G101",
    "loader-in-training-process",
    since="0.1",
    figures=[
        RuleFigure(
            "Images are decoded while the GPU waits",
            "The training process makes each batch itself, 7.0 ms of a step of 10.0 ms. Decoding "
            "takes 100 % of making one.",
            drawing="""
                step  aaaaaaaaaabbbbbbbbbb
                main  WWWWWWWlLsWWWWWWWlLs
                gpu   .......me........me.
            """,
            facts=gpu(loader()),
            parts=(example_use(loader(), {"main": 7.0}, example_workers(0, {"decode": 0.1})),),
        ),
        RuleFigure(
            "Two processors",
            "The training process makes each batch itself, 80.0 ms of a step of 100.0 ms. Decoding "
            "takes 72 % of making one.",
            evidence_of(
                cpu(loader()),
                {"busy.math": 20, "idle.data.decode": 60, "idle.data.collate": 20},
                example_use(loader(), _STAGE_WAITS, example_workers(0, {"decode": 0.9, "collate": 0.35})),
            ),
        ),
        RuleFigure(
            "A stream that every worker would read from its start",
            "The training process makes each batch itself, 80.0 ms of a step of 100.0 ms. Reading "
            "takes 100 % of making one.",
            evidence_of(
                gpu(_LINES_LOADER),
                {"busy.math": 20, "idle.data.read": 80},
                example_use(_LINES_LOADER, {"read": 80.0}, example_workers(0, {"read": 1.25})),
            ),
        ),
        RuleFigure(
            "A trace, and no recorded run: as much is known",
            "The training process makes each batch itself, 80.0 ms of each 100.0 ms step, 94 % of "
            "it in decode (data.py:12).",
            evidence_of(
                None,
                {"busy.math": 20, "idle.data.main": 80},
                operator(IN_PROCESS_ITERATOR, calls=1, host_ms=80),
                Site("idle.data.main", "train.py", 40, "main", 80 * MS * STEPS, STEPS),
                Site(IN_LOADING, "data.py", 5, "__getitem__", 79 * MS * STEPS, STEPS),
                Site(IN_LOADING, "data.py", 12, "decode", 75 * MS * STEPS, STEPS),
            ),
        ),
        RuleFigure(
            "A trace in which workers make them",
            None,
            evidence_of(
                None,
                {"busy.math": 20, "idle.data.unstaged": 80},
                operator(WORKER_ITERATOR, calls=1, host_ms=80),
            ),
        ),
        RuleFigure(
            "Workers make them",
            None,
            evidence_of(
                gpu(worker_loader()),
                {"busy.math": 90, "idle.data.hand-over": 2},
                example_use(worker_loader(), {"hand-over": 2.0}, example_workers(8, {"decode": 1.0})),
            ),
        ),
        RuleFigure(
            "A loader for evaluation",
            None,
            evidence_of(
                gpu(loader(trains=False)),
                {"busy.math": 90, "idle.io_main.eval": 10},
                example_use(loader(trains=False), {"decode": 10.0}, example_workers(0, {"decode": 0.1})),
            ),
        ),
    ],
)
def loader_in_training_process(evidence: Evidence, loader: Loader) -> Detection | None:
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
    if evidence.is_trace_only:
        return detect_own_loading(loader_in_training_process, evidence, loader)
    loading = find_loading(evidence, loader) if loader.num_workers == 0 else None
    if loading is None:
        return None
    n_workers = loading.target_workers()
    obstacle = trap(loading.facts, loader, n_workers)
    single = obstacle is not None and trap(loading.facts, loader, 1) is None
    return loader_in_training_process.detection(
        f"The training process makes each batch itself, {ms(loading.wait_ns)} of a step of "
        f"{ms(loading.step_ns)}.{_main_stage(evidence, loading)}",
        with_workers(loading, 1 if single else None),
        location=loader.location,
        measures=measure_loading(loading),
        helps=name_worker_fixes(loading, 1 if single else None) if single or obstacle is None else (),
        no_remedy=None if obstacle is None else _manual_remedy(obstacle, single=single),
    )


def _manual_remedy(obstacle: str, *, single: bool) -> str:
    if not single:
        return f"Workers cannot be set as it is: {obstacle}."
    return f"One worker can be set; more than one cannot, as it is: {obstacle}."


def _main_stage(evidence: Evidence, loading: Loading) -> str:
    return "" if loading.use.workers is None else describe_main_stage(evidence, loading)
