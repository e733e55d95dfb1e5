"""A loader without workers."""

from gapless.catalogue.declare.rule import rule
from gapless.catalogue.declare.traps import find_workers_trap
from gapless.catalogue.fixes.input.workers_and_one_thread import request_workers
from gapless.catalogue.queries.input.data_waits import detect_own_loading
from gapless.catalogue.queries.input.loaders import (
    Loading,
    change_workers,
    find_loading,
    measure_loading,
)
from gapless.catalogue.queries.input.stages import describe_main_stage
from gapless.catalogue.queries.windows import ms
from gapless.model.evidence import Evidence
from gapless.model.facts import Loader
from gapless.model.finding import Detection


@rule(
    "G101",
    "loader-in-training-process",
    figures="""
    stage_waits = {"decode": 60.0, "collate": 20.0}
    lines_loader = loader(iterable=True, dataset="__main__.Lines", asks_worker_info=False)
    # Images are decoded while the GPU waits
    > The training process makes each batch itself, 7.0 ms of a step of 10.0 ms. Decoding takes 100
      % of making one.
    . step  aaaaaaaaaabbbbbbbbbb
    . main  WWWWWWWlLsWWWWWWWlLs
    . gpu   .......me........me.
    gpu(loader()), example_use(loader(), {"main": 7.0}, example_workers(0, {"decode": 0.1}))
    # Two processors
    > The training process makes each batch itself, 80.0 ms of a step of 100.0 ms. Decoding takes 72
      % of making one.
    cpu(loader())
    busy.math 20, idle.data.decode 60, idle.data.collate 20
    example_use(loader(), stage_waits, example_workers(0, {"decode": 0.9, "collate": 0.35}))
    # A stream that every worker would read from the start
    > The training process makes each batch itself, 80.0 ms of a step of 100.0 ms. Reading takes 100
      % of making one.
    gpu(lines_loader)
    busy.math 20, idle.data.read 80
    example_use(lines_loader, {"read": 80.0}, example_workers(0, {"read": 1.25}))
    # A trace without a recorded run: this much is known
    > The training process makes each batch itself, 80.0 ms of each 100.0 ms step, 94 % of it in
      decode (data.py:12).
    busy.math 20, idle.data.main 80
    operator("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", calls=1, host_ms=80)
    Site("idle.data.main", "train.py", 40, "main", 80 * MS * STEPS, STEPS)
    Site(IN_LOADING, "data.py", 5, "__getitem__", 79 * MS * STEPS, STEPS)
    Site(IN_LOADING, "data.py", 12, "decode", 75 * MS * STEPS, STEPS)
    # A trace in which workers make them
    busy.math 20, idle.data.unstaged 80
    operator("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", calls=1, host_ms=80)
    # Workers make them
    gpu(worker_loader())
    busy.math 90, idle.data.hand-over 2
    example_use(worker_loader(), {"hand-over": 2.0}, example_workers(8, {"decode": 1.0}))
    # A loader for evaluation
    gpu(loader(trains=False))
    busy.math 90, idle.io_main.eval 10
    example_use(loader(trains=False), {"decode": 10.0}, example_workers(0, {"decode": 0.1}))
    """,
)
def loader_in_training_process(evidence: Evidence, loader: Loader) -> Detection | None:
    """Recognise a loader without workers: the training process makes its batches itself.

    ## Why it costs time
    With ``num_workers=0`` a batch is read, decoded and collated when the training asks for it, by
    the thread that also launches the GPU's work. Nothing is prefetched: each step takes as long as
    its batch and its computation together. With workers it takes the longer of the two.

    ## How it is measured
    The recorder marks each ``next(loader)`` and what happens inside. As many workers are proposed
    as keep up with the training, if the processors can feed so many. If the training itself
    computes on those processors, fewer threads of its own are proposed with them: on few cores
    neither helps alone. A stage that takes most of a batch is named with its line: less of it also
    helps with workers.

    A trace alone shows the iterator that makes batches in the training process, and how long the
    device (or without one, the step) waits for it; with stacks, also the function in which batches
    are made.
    """
    if evidence.is_trace_only:
        return detect_own_loading(loader_in_training_process, evidence, loader)
    loading = find_loading(evidence, loader) if loader.num_workers == 0 else None
    if loading is None:
        return None
    n_workers = loading.target_workers()
    obstacle = find_workers_trap(loading.facts, loader, n_workers)
    single = obstacle is not None and find_workers_trap(loading.facts, loader, 1) is None
    return loader_in_training_process.detection(
        f"The training process makes each batch itself, {ms(loading.wait_ns)} of a step of "
        f"{ms(loading.step_ns)}.{_main_stage(evidence, loading)}",
        change_workers(loading, 1 if single else None),
        location=loader.location,
        measures=measure_loading(loading),
        helps=request_workers(loading, 1 if single else None) if single or obstacle is None else (),
        no_remedy=None if obstacle is None else _manual_remedy(obstacle, single=single),
    )


def _manual_remedy(obstacle: str, *, single: bool) -> str:
    if not single:
        return f"Workers cannot be used as it is: {obstacle}."
    return f"One worker can be used; more than one cannot, as it is: {obstacle}."


def _main_stage(evidence: Evidence, loading: Loading) -> str:
    return "" if loading.use.workers is None else describe_main_stage(evidence, loading)
