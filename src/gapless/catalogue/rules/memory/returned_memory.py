"""Memory of the host that the C library gives back in each step."""

from typing import Final

from gapless.catalogue.declare.rule import rule
from gapless.catalogue.fixes.host.malloc import find_setting, malloc
from gapless.catalogue.queries import windows
from gapless.model.change import Change, HostChange, Scale
from gapless.model.estimate import Estimate
from gapless.model.evidence import Evidence, NotObservedError
from gapless.model.facts import Facts
from gapless.model.finding import Detection, Measure
from gapless.model.run import PageFaults

_MIN_SHARE: Final = 0.03  # of the step: other faults are the usual business of a process
# Of what a page takes in a loop that does nothing else: other data leaves the caches, and threads
# of one process wait for each other (benchmarks/returned_memory.py).
_PAGE_FACTOR: Final = Estimate(0.8, 1.2, 1.6)
_HOST_LEAVES: Final = ("idle.host", "idle.data", "idle.launch")
_MAX_SAVED_SHARE: Final = 0.9


@rule(
    "G405",
    "returned-memory",
    figures="""
    # Tensors of 15 MB, made and freed in each step
    > Each step takes 47 MB of memory from the kernel anew, which the C library had given back to
      it: 11,538 page faults, 16.6 ms of each 35.0 ms step.
    cpu(machine(device=None), loader(num_workers=0))
    busy.elementwise 33, idle.host.python 2
    PageFaults(11538, 18.5e6, 35e6, 1200, 4096)
    # Few
    cpu(machine(device=None), loader(num_workers=0))
    busy.elementwise 33, idle.host.python 2
    PageFaults(500, 1e6, 35e6, 1200, 4096)
    # The kernel is asked for little: the thread computes
    cpu(machine(device=None), loader(num_workers=0))
    busy.elementwise 33, idle.host.python 2
    PageFaults(11538, 0.5e6, 35e6, 1200, 4096)
    # Batches of 45 MB from workers, in memory that is shared with them
    cpu(machine(device=None), loader(num_workers=4, batch_bytes=46_000_000))
    busy.elementwise 33, idle.host.python 2
    PageFaults(11538, 18.5e6, 35e6, 1200, 4096)
    # Somebody chose what is kept
    cpu(machine(device=None, environment={"MALLOC_TRIM_THRESHOLD_": "68719476736"}),
      loader(num_workers=0))
    busy.elementwise 33, idle.host.python 2
    PageFaults(11538, 18.5e6, 35e6, 1200, 4096)
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
    arrive in memory shared with workers, do not count; nor does more than the thread's time in the
    kernel.
    """
    faults = evidence.page_faults
    if faults is None:
        raise NotObservedError("page faults", "they were not sampled while it stepped")
    if find_setting(dict(evidence.facts.machine.environment)) is not None:
        return None
    count = faults.count - _count_shared_pages(evidence.facts, faults)
    saved_ns = _saved_ns(faults, count)
    if saved_ns.mid < _MIN_SHARE * faults.step_ns:
        return None
    size = count * faults.page_bytes
    return returned_memory.detection(
        f"Each step takes {size / 1e6:.0f} MB of memory from the kernel anew, which the C library "
        f"had given back to it: {count:,.0f} page faults, "
        f"{windows.ms(saved_ns.mid)} of each {windows.ms(faults.step_ns)} step.",
        *_changes_kept(evidence, saved_ns, faults.step_ns),
        measures=(
            Measure("page faults, a step", count, ""),
            Measure("what one takes on this machine", faults.fault_ns, "ns"),
            Measure("the training thread in the kernel, a step", faults.kernel_ns, "ns"),
        ),
        helps=(malloc.request(),),
    )


def _count_shared_pages(facts: Facts, faults: PageFaults) -> float:
    """Count the pages of a batch that workers hand over in memory that is shared with them."""
    sizes = [
        loader.batch_bytes or 0
        for loader in facts.loaders
        if loader.num_workers and loader.trains is not False
    ]
    return sum(sizes) / faults.page_bytes


def _saved_ns(faults: PageFaults, count: float) -> Estimate:
    """Return what the faults of a step take: no more than the thread is in the kernel."""
    bounds = (_PAGE_FACTOR.low, _PAGE_FACTOR.mid, _PAGE_FACTOR.high)
    page_ns = max(0.0, count) * faults.fault_ns
    return Estimate(*(min(faults.kernel_ns, bound * page_ns) for bound in bounds))


def _changes_kept(evidence: Evidence, saved_ns: Estimate, step_ns: float) -> tuple[Change, ...]:
    """Return the changes: which of the thread's work meets the faults is not known, so all does."""
    shares = [min(_MAX_SAVED_SHARE, ns / step_ns) for ns in (saved_ns.high, saved_ns.mid)]
    factor = Estimate(*(1 - share for share in (*shares, saved_ns.low / step_ns)))
    host = HostChange(_HOST_LEAVES, factor)
    return (host,) if evidence.on_device else (host, Scale(factor, leaves=("busy.",)))
