"""Memory of the host that the C library gives back in each step."""

from math import prod
from typing import Final

from gapless.catalogue.declare.rule import rule
from gapless.catalogue.fixes.host.malloc import find_allocator, malloc
from gapless.catalogue.queries import windows
from gapless.catalogue.queries.compute import work_of
from gapless.model.change import Change, HostChange, Scale
from gapless.model.estimate import Estimate
from gapless.model.evidence import Evidence, NotObservedError
from gapless.model.facts import Facts
from gapless.model.finding import Detection, Measure
from gapless.model.run import PageFaults
from gapless.model.work import Work
from gapless.roofline.formulas import SIZES
from gapless.roofline.padding import sizes_of

_MIN_SHARE: Final = 0.03  # of the step: other faults are the usual business of a process
# Of what a page takes in a loop that does nothing else: other data leaves the caches, and threads
# of one process wait for each other (benchmarks/returned_memory.py).
_PAGE_FACTOR: Final = Estimate(0.8, 1.2, 1.6)
_HOST_LEAVES: Final = ("idle.host", "idle.launch")
_LOADING: Final = "idle.data"
_READ_AROUND: Final = 16  # pages of shared memory that one fault maps, where it is read
_PYTHON: Final = ("idle.host.python", "idle.data")  # where Python's own objects are made
_UNSURE: Final = (
    "what Python does takes longer than operators: some of it may be Python's own memory"
)
_MIN_BLOCK: Final = 128 << 10  # bytes: smaller ones the C library keeps
_USUAL_WIDTH: Final = 4  # bytes of a number of another type than operators compute with
_MAX_SAVED_SHARE: Final = 0.9


@rule(
    "G405",
    "returned-memory",
    figures="""
    large_work = example_work("aten::mul", ((61708, 8, 8),), 20, "busy.elementwise", calls=30)
    small_work = example_work("aten::mul", ((64, 8, 8),), 20, "busy.elementwise", calls=30)
    # Tensors of 15 MB, made and freed in each step
    > Each step takes 47 MB of memory from the kernel anew, which the C library had given back to
      it: 11,538 page faults, which take the training thread 16.6 ms of each 35.0 ms step.
    cpu(machine(device=None), loader(num_workers=0)), large_work
    busy.elementwise 33, idle.host.python 2
    PageFaults(11538, 18.5e6, 35e6, 1200, 4096)
    # Few
    cpu(machine(device=None), loader(num_workers=0)), large_work
    busy.elementwise 33, idle.host.python 2
    PageFaults(500, 1e6, 35e6, 1200, 4096)
    # The kernel is asked for little: the thread computes
    cpu(machine(device=None), loader(num_workers=0)), large_work
    busy.elementwise 33, idle.host.python 2
    PageFaults(11538, 0.5e6, 35e6, 1200, 4096)
    # Operators have small tensors: Python's own memory, files that are mapped, forks
    cpu(machine(device=None), loader(num_workers=0)), small_work
    busy.elementwise 33, idle.host.python 2
    PageFaults(11538, 18.5e6, 35e6, 1200, 4096)
    # Batches of 750 MB from workers, in memory that is shared with them
    cpu(machine(device=None), loader(num_workers=4, pin_memory=False, batch_bytes=750_000_000))
    busy.elementwise 33, idle.host.python 2
    large_work, PageFaults(11538, 18.5e6, 35e6, 1200, 4096)
    # Another allocator
    cpu(machine(device=None, environment={"LD_PRELOAD": "libjemalloc.so.2"}),
      loader(num_workers=0))
    busy.elementwise 33, idle.host.python 2
    large_work, PageFaults(11538, 18.5e6, 35e6, 1200, 4096)
    """,
)
def returned_memory(evidence: Evidence) -> Detection | None:
    """Recognise that the memory of each step's tensors is given back, and asked for anew.

    ## Why it costs time
    The C library gives large blocks back to the kernel when they are freed, and the top of its heap
    when much of it is free. The next step asks for the same memory, and the kernel hands it out
    page by page, each one cleared when it is first touched: that may take as long as computing.
    Whether it does depends on how the heap happens to lie: one start of a training may be twice as
    fast as the next one, and what a profiler leaves on the heap may change it, too.

    ## How it is measured
    From outside, twice a second: page faults of the training process's first thread, and its time
    in the kernel, between windows (before the first one, where that was sampled). What a page takes
    is measured on the machine as the run begins. Memory that the process gains, and batches that
    arrive in memory shared with workers, do not count; nor does more than operators had of large
    tensors in a step of the windows (Python's own memory and mapped files are no C library's), or
    than the thread's time in the kernel.
    """
    faults = evidence.page_faults
    if faults is None:
        raise NotObservedError("page faults", "no page faults were sampled while it stepped")
    if find_allocator(evidence.facts) is not None:
        return None
    n_pages = faults.count - _count_shared_faults(evidence.facts, faults)
    if n_pages * faults.fault_ns * _PAGE_FACTOR.mid < _MIN_SHARE * faults.step_ns:
        return None
    n_pages = min(n_pages, _large_bytes(evidence) / faults.page_bytes)
    saved_ns = _saved_ns(faults, n_pages)
    if saved_ns.mid < _MIN_SHARE * faults.step_ns:
        return None
    taken = f"{windows.ms(saved_ns.mid)} of each {windows.ms(faults.step_ns)} step"
    return returned_memory.detection(
        f"Each step takes {n_pages * faults.page_bytes / 1e6:.0f} MB of memory from the kernel "
        f"anew, which the C library had given back to it: {n_pages:,.0f} page faults, which take "
        f"the training thread {taken}.",
        *_changes_kept(evidence, saved_ns, faults.step_ns),
        measures=(
            Measure("page faults, a step", n_pages, ""),
            Measure("what one takes on this machine", faults.fault_ns, "ns"),
            Measure("the training thread in the kernel, a step", faults.kernel_ns, "ns"),
        ),
        helps=(malloc.request(),),
        unsure=_UNSURE if evidence.share("busy.") < evidence.share(*_PYTHON) else None,
    )


def _large_bytes(evidence: Evidence) -> float:
    """Return the bytes of large tensors that operators had as inputs, a step of the windows.

    What is made and freed again is an input of the operator after it.
    """
    total = sum(row.calls * _block_bytes(row) for row in work_of(evidence))
    return total / (evidence.study.account.steps or 1)


def _block_bytes(work: Work) -> int:
    width = SIZES.get(work.dtype or "", _USUAL_WIDTH)
    sizes = (width * prod(sizes) for sizes in sizes_of(work))
    return sum(size for size in sizes if size >= _MIN_BLOCK)


def _count_shared_faults(facts: Facts, faults: PageFaults) -> float:
    """Count the faults of batches that workers hand over in memory that is shared with them.

    Those that are pinned are read by the thread that pins them.
    """
    n_bytes = [
        loader.batch_bytes or 0
        for loader in facts.loaders
        if loader.num_workers and loader.trains and not loader.pin_memory
    ]
    return sum(n_bytes) / faults.page_bytes / _READ_AROUND


def _saved_ns(faults: PageFaults, n_pages: float) -> Estimate:
    """Return what the faults of a step take: no more than the thread is in the kernel."""
    bounds = (_PAGE_FACTOR.low, _PAGE_FACTOR.mid, _PAGE_FACTOR.high)
    max_ns = min(faults.kernel_ns, _MAX_SAVED_SHARE * faults.step_ns)
    page_ns = max(0.0, n_pages) * faults.fault_ns
    return Estimate(*(min(max_ns, bound * page_ns) for bound in bounds))


def _changes_kept(evidence: Evidence, saved_ns: Estimate, step_ns: float) -> tuple[Change, ...]:
    """Return the changes: which of the thread's work meets the faults is not known, so all does."""
    factor = Estimate(*(1 - ns / step_ns for ns in (saved_ns.high, saved_ns.mid, saved_ns.low)))
    loads_itself = not any(loader.num_workers for loader in evidence.facts.loaders)
    host = HostChange((*_HOST_LEAVES, *((_LOADING,) if loads_itself else ())), factor)
    return (host,) if evidence.on_device else (host, Scale(factor, leaves=("busy.",)))
