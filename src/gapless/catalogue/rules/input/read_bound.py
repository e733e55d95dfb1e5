"""Reads, or other waits of the data set, that make batches late."""

from typing import Final

from msgspec.structs import replace

from gapless.catalogue.declare.rule import rule
from gapless.catalogue.fixes.samples.read_ahead import read_ahead
from gapless.catalogue.fixes.samples.sample_cache import request_sample_cache
from gapless.catalogue.queries.input.fetch_waits import find_blocked_loading
from gapless.catalogue.queries.input.stages import detect_blocked_fetch, detect_slow_stage
from gapless.model.evidence import Evidence
from gapless.model.facts import Loader
from gapless.model.finding import Detection

_MANUAL_REMEDY: Final = (
    "Small files are read faster from few large ones (tar shards, LMDB, an array on disk), from a "
    "local disk that they are copied to before training (or while it reads them: the fix "
    "file-cache=FOLDER), or, if they fit, from memory. Measure with cold caches: a second epoch "
    "reads from memory. Where it is no file that is waited for (a request, another process), ask "
    "for many samples at once, ahead."
)


@rule(
    "G106",
    "read-bound",
    figures="""
    the_loader = loader(num_workers=16, prefetch_factor=2)
    two_workers = loader(num_workers=2, prefetch_factor=2)
    # Small files on a network drive
    > Making a batch waits off the processor for 556.8 ms of 608.0 ms: without that a step could
      take 13.2 ms, with 16 workers 38.0 ms at best.
    gpu(the_loader)
    busy.math 10.0, idle.data.read 90.0
    example_use(the_loader, {"read": 90.0}, example_workers(16, {"read": (9.0, 0.3), "decode":
      0.5}))
    # More workers would keep up, and would still wait
    > Making a batch waits off the processor for 556.8 ms of 608.0 ms: without that a step could
      take 63.2 ms, with 16 workers 63.2 ms at best.
    gpu(two_workers)
    busy.math 60.0, idle.data.read 40.0
    example_use(two_workers, {"read": 40.0}, example_workers(2, {"read": (9.0, 0.3), "decode":
      0.5}))
    # No call that reads, and no work either: something else is waited for
    > Making a batch waits off the processor for 64.0 ms of 96.0 ms: without that a step could take
      26.7 ms, with 6 workers 27.6 ms at best.
    cpu(loader())
    busy.math 20.0, idle.data.other 20.0
    example_use(loader(), {"other": 20.0}, example_workers(0, {"other": (1.2, 0.2), "decode": 0.3}))
    # Samples of stacks tell that it sleeps: that is another cause
    cpu(loader())
    busy.math 20.0, idle.data.other 20.0
    example_use(loader(), {"other": 20.0}, example_workers(0, {"other": (1.2, 0.2), "decode": 0.3}))
    FetchWait("sleep", 0.66, 200, "data.py", 12, "Frames.__getitem__")
    # Reading takes most, and computes: files are unpacked as they are read
    > Reading takes 91 % of making a batch (320.0 ms of 352.0 ms): without it a step could take 26.7
      ms, with 2 workers 182.6 ms at best.
    gpu(two_workers, machine(cpus=2))
    busy.math 10.0, idle.data.read 90.0
    example_use(two_workers, {"read": 90.0}, example_workers(2, {"read": 5.0, "decode": 0.5}))
    # Threads of workers wait for processors, and are waited for
    gpu(the_loader)
    busy.math 10.0, idle.data.read 90.0
    example_use(the_loader, {"other": 90.0}, example_workers(16, {"other": (9.0, 0.9), "decode":
      0.1}, on_cpu=0.1, run_queue=0.4, blocked=0.5))
    # A tokenizer computes in threads of its own, on text in memory
    cpu(loader())
    busy.math 20.0, idle.data.tokenise 20.0
    example_use(loader(), {"tokenise": 20.0}, example_workers(0, {"tokenise": (1.2, 0.4), "collate":
      0.1}))
    # Single samples are late, and the others are not
    gpu(the_loader)
    busy.math 10.0, idle.data.read 90.0
    example_use(the_loader, {"other": 90.0}, example_workers(16, {"other": (9.0, 0.3), "decode":
      0.5}, fetch_median_ns=70_000_000))
    # Some reads are long, and finished batches lie behind the one that is late
    gpu(the_loader)
    busy.math 10.0, idle.data.read 90.0
    example_use(the_loader, {"other": 90.0}, example_workers(16, {"read": (9.0, 0.3), "decode":
      0.5}, busy=0.6), hol_ms=60.0)
    # Nobody waits for it
    gpu(the_loader)
    busy.math 99.8, idle.data.hand-over 0.2
    example_use(the_loader, {"hand-over": 0.2}, example_workers(16, {"read": (9.0, 0.3), "decode":
      0.5}))
    """,
)
def read_bound(evidence: Evidence, loader: Loader) -> Detection | None:
    """Recognise samples that block while they are made: in reads, or anywhere else.

    ## Why it costs time
    The process that makes a batch waits for the disk, the network or another process. Meanwhile its
    processor is free, so more workers help; past some number the storage itself is too slow: many
    small files, a cold cache, a network drive. Data that are ready make the same batch without the
    wait, and need neither more processes nor their memory.

    ## How it is measured
    The system counts how long each fetch was on a processor, and how long it was runnable and
    waited for one. For the rest it was blocked. The part of that in the data set's own code (all
    but tokenising and collating, which work on what is in memory) is a wait for storage or the
    network, whatever call it is in: a client of an object store, a memory map, a database. The
    recorder also times ``open``, reads, and what NumPy, torch, pandas, h5py and zarr read from
    files; if most of the wait is elsewhere, that it is storage is inferred. It is the cause if a
    fetch, both on average and in the median, is blocked for longer than any of its stages computes,
    and if fetches do not wait for processors: else a thread that they are blocked on may wait for
    one. If only single fetches are late, if finished batches wait behind the late one in at least
    half of the waits, or if most of the time is spent on restarting workers, other rules apply.
    Threads or processes of the data set that compute meanwhile cannot be distinguished from
    storage. If sampled stacks of fetches stood mostly in a sleep, or in a wait for a socket, a
    process or a lock, that is another cause (wait-bound).

    More workers are another remedy for the same wait. Each is priced separately, and the one that
    gains more comes first.

    If reads mostly compute, they are a stage like others: a cause if a step without them would be
    shorter than one with as many workers as the processors can feed. Both are lower bounds: the
    longest of the work between batches plus a hand-over, the time of the workers, and that of all
    processors. Of the stage, the time to write the batch once remains.

    If the training computes on the same processors and makes its batches itself, workers gain less
    than that bound: there the stage is also a cause, unless workers would be a fifth faster at
    best.
    """
    blocked = detect_blocked_fetch(read_bound, evidence, loader, _MANUAL_REMEDY)
    if blocked is None:
        words = ("read", _MANUAL_REMEDY)
        return detect_slow_stage(
            read_bound, evidence, loader, words=words, helps=request_sample_cache
        )
    loading = find_blocked_loading(evidence, loader)
    if loading is None:
        return blocked
    # Waits for files are known, and which come next.
    is_ahead = not blocked.inferred and loader.files is not None
    ahead = (loading.request(read_ahead),) if is_ahead else ()
    return replace(blocked, helps=(*blocked.helps, *ahead, *request_sample_cache(loading)))
