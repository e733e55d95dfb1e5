"""Samples that wait for something else than storage while they are made."""

from typing import Final

from gapless.catalogue.declare.rule import rule
from gapless.catalogue.declare.traps import find_workers_trap
from gapless.catalogue.fixes.input.workers_and_one_thread import request_workers
from gapless.catalogue.fixes.samples.sample_cache import request_sample_cache
from gapless.catalogue.queries.input.fetch_waits import (
    describe_wait,
    find_blocked_loading,
    find_main_wait,
    leave_out_waits,
    wait_location,
)
from gapless.catalogue.queries.input.loaders import Loading, measure_loading
from gapless.catalogue.queries.windows import ms
from gapless.model.edit import FixRequest
from gapless.model.evidence import Evidence
from gapless.model.facts import Loader
from gapless.model.finding import Detection, Measure

_REMEDIES: Final = {
    "sleep": "leave it out, or sleep once for a batch",
    "socket": "ask for all samples of a batch at once, or ahead, so that answers lie ready",
    "pipe": "ask for all samples of a batch at once, or ahead, so that answers lie ready",
    "process": "start a process once and keep it, for many samples; or do its work in the worker",
    "lock": "let each worker have its own of what is locked, or fill a queue ahead",
}


@rule(
    "G117",
    "wait-bound",
    figures="""
    the_loader = loader()
    full_loader = loader(num_workers=16, prefetch_factor=2)
    sleep = FetchWait("sleep", 0.88, 300, "data.py", 12, "Frames.__getitem__")
    # A client that sleeps between requests, in the training process
    > Sleeping in `Frames.__getitem__` (data.py:12) takes 64.0 ms of 76.8 ms of making a batch:
      workers would wait side by side.
    cpu(the_loader, machine(cpus=8))
    busy.math 20.0, idle.data.other 80.0
    example_use(the_loader, {"other": 80.0}, example_workers(0, {"other": (1.1, 0.1), "decode":
      0.1}))
    sleep
    # As many workers as can be fed, and all of them wait for an answer
    > Waiting for a socket in `ask` (client.py:40) takes 516.8 ms of 608.0 ms of making a batch.
    gpu(full_loader)
    busy.math 10.0, idle.data.other 90.0
    example_use(full_loader, {"other": 90.0}, example_workers(16, {"other": (9.0, 0.5), "decode":
      0.5}))
    FetchWait("socket", 0.85, 4000, "client.py", 40, "ask")
    # Reads are what takes long; what sleeps is little of it
    cpu(the_loader, machine(cpus=8))
    busy.math 20.0, idle.data.read 80.0
    example_use(the_loader, {"read": 80.0}, example_workers(0, {"read": (1.1, 0.1), "decode": 0.1}))
    FetchWait("sleep", 0.1, 300, "data.py", 12, "Frames.__getitem__")
    # Few samples of stacks
    cpu(the_loader, machine(cpus=8))
    busy.math 20.0, idle.data.other 80.0
    example_use(the_loader, {"other": 80.0}, example_workers(0, {"other": (1.1, 0.1), "decode":
      0.1}))
    FetchWait("sleep", 0.9, 10, "data.py", 12, "Frames.__getitem__")
    # Nobody waits for it
    gpu(full_loader)
    busy.math 99.8, idle.data.hand-over 0.2
    example_use(full_loader, {"hand-over": 0.2}, example_workers(16, {"other": (1.1, 0.1), "decode":
      0.1}))
    sleep
    """,
)
def wait_bound(evidence: Evidence, loader: Loader) -> Detection | None:
    """Recognise samples that wait while they are made: asleep, for an answer, for a process.

    ## Why it costs time
    While a sample is made its process sleeps, or waits for a socket, a pipe, another process or a
    lock. Its processor is free meanwhile: workers wait side by side, so that more of them make
    more batches in the same time, until whoever answers is busy. A wait that is left out, or made
    once for many samples, costs nothing at all.

    ## How it is measured
    As for read-bound, a fetch is blocked for longer than any of its stages computes, and does not
    wait for processors. It is this cause if less than half of the blocked time is in calls that
    read, and if sampled stacks of fetches stood in one kind of wait for most of it: the system
    tells which. The line is the user's at which they stood most. A wait for a lock counts only
    where Python's own waits for it, since in libraries threads that compute are waited for in the
    same way.
    """
    loading = find_blocked_loading(evidence, loader)
    wait = None if loading is None else find_main_wait(evidence, loading)
    if loading is None or wait is None:
        return None
    helps = _name_fixes(loading)
    waited_ns = min(loading.blocked_ns, wait.share * loading.fetch_ns)
    side_by_side = ": workers would wait side by side" if helps else ""
    return wait_bound.detection(
        f"{describe_wait(wait)} takes {ms(waited_ns)} of {ms(loading.fetch_ns)} of making a "
        f"batch{side_by_side}.",
        leave_out_waits(loading),
        location=wait_location(wait),
        measures=(
            *measure_loading(loading),
            Measure("blocked, a batch", loading.blocked_ns, "ns"),
            Measure("sampled in that wait, of making batches", wait.share, "share"),
            Measure("samples", wait.looks, ""),
        ),
        helps=(*helps, *request_sample_cache(loading)),
        no_remedy=_REMEDIES[wait.kind],
    )


def _name_fixes(loading: Loading) -> tuple[FixRequest, ...]:
    """Return the fixes that set a larger number of workers, where that does no harm."""
    n_workers = loading.target_workers()
    is_harmful = find_workers_trap(loading.facts, loading.loader, n_workers) is not None
    if is_harmful or n_workers <= loading.loader.num_workers:
        return ()
    return request_workers(loading)
