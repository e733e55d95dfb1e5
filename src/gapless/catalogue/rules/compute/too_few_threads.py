"""Fewer threads than cores, on a CPU."""

from typing import Final

from gapless.catalogue.declare.rule import rule
from gapless.catalogue.fixes.input.intra_op_threads import intra_op_threads
from gapless.catalogue.queries import windows
from gapless.catalogue.queries.compute import window_share, work_of
from gapless.model.estimate import Estimate
from gapless.model.evidence import Evidence
from gapless.model.facts import Facts, Machine, World
from gapless.model.finding import Detection, Measure
from gapless.model.work import Work
from gapless.roofline.roofline import NO_CHANGE, scale_changes

_MIN_STEP_SHARE: Final = 0.1  # of the step
_MIN_CALL_NS: Final = 50_000  # a call of a thread: torch does not divide shorter ones
# Gain for the logarithm of the ratio of threads (benchmarks/libraries_off.py).
_THREAD_EXPONENT: Final = Estimate(0.2, 0.55, 1.0)


@rule(
    "G116",
    "too-few-threads",
    figures="""
    product_work = example_work("aten::mm", ((512, 512),) * 2, 9, "busy.math", calls=6)
    single_thread_machine(**changes) = machine(**{"cpus": 8, "cores": 8, "intra_op_threads": 1,
      "device": None} | changes)
    # One thread on eight cores, as torchrun sets it
    > 1 thread computes operators, and 8 cores are there for it: 9.0 ms of each 10.0 ms step are
      operators large enough to be divided.
    cpu(single_thread_machine(), loader(num_workers=0))
    busy.math 9, idle.host.python 1
    product_work
    # Two processors are threads of one core
    cpu(single_thread_machine(cpus=2, cores=1), loader(num_workers=0))
    busy.math 9, idle.host.python 1
    product_work
    # Eight workers use the others
    cpu(single_thread_machine(), worker_loader())
    busy.math 9, idle.host.python 1
    product_work
    # Other processes use all but one
    cpu(single_thread_machine(), loader(num_workers=0))
    busy.math 9, idle.host.python 1
    product_work, CpuContention(6.9, 0.0, 8)
    # Operators are small
    cpu(single_thread_machine(), loader(num_workers=0))
    busy.math 9, idle.host.python 1
    example_work("aten::mm", ((16, 16),) * 2, 9, "busy.math", calls=900)
    # The cores were not counted
    cpu(single_thread_machine(cores=None), loader(num_workers=0))
    busy.math 9, idle.host.python 1
    product_work
    # A GPU computes
    gpu(machine(cpus=16, cores=16, intra_op_threads=1))
    busy.math 9, idle.host.python 1
    product_work
    """,
)
def too_few_threads(evidence: Evidence, machine: Machine, world: World) -> Detection | None:
    """Recognise a training on the CPU whose operators use half of its cores, or fewer.

    ## Why it costs time
    torch divides large operators among threads, one for each core unless it is told otherwise:
    by ``torch.set_num_threads``, or by ``OMP_NUM_THREADS``, which torchrun sets to 1 for several
    processes. The other cores are then idle.

    ## How it is measured
    The recorder notes ``torch.get_num_threads()`` of the training, the cores that it may use
    (processors that are threads of one core count once), how many ranks share them, how many
    workers the loaders have, which need some, too, and how many other processes used meanwhile.
    Only operators that are long enough to be divided count, by the windows. Memory, which cores
    share, bounds the gain from more of them.
    """
    ranks = world.local_ranks or world.ranks
    threads, cores = machine.intra_op_threads, machine.cores
    if machine.device is not None or threads is None or cores is None:
        return None
    n_fit = cores // ranks - _count_workers(evidence.facts) - _count_taken_cores(evidence)
    if n_fit < 2 * threads:
        return None
    rows_ns = sum(row.ns for row in work_of(evidence) if _is_large(row))
    if window_share(evidence, rows_ns) < _MIN_STEP_SHARE:
        return None
    step_ns = evidence.step_ns or 0.0
    subject = "1 thread computes" if threads == 1 else f"{threads} threads compute"
    return too_few_threads.detection(
        f"{subject} operators, and {n_fit} cores are there for {'it' if threads == 1 else 'them'}: "
        f"{windows.format_step_part(evidence, step_ns * window_share(evidence, rows_ns))} are "
        "operators large enough to be divided.",
        *scale_changes(evidence.study.work, lambda work: _factor(work, n_fit / threads)),
        measures=(
            Measure("threads of a process", threads, ""),
            Measure("cores for each", n_fit, ""),
            Measure("in large operators, a step", step_ns * window_share(evidence, rows_ns), "ns"),
        ),
        helps=(intra_op_threads.request(n_fit),),
    )


def _count_taken_cores(evidence: Evidence) -> int:
    """Count the processors that other processes used meanwhile."""
    contention = evidence.contention
    return 0 if contention is None else round(contention.cores + (contention.stolen or 0.0))


def _count_workers(facts: Facts) -> int:
    """Count the workers of the loaders that feed a training."""
    return sum(loader.num_workers or 0 for loader in facts.loaders if loader.trains is not False)


def _is_large(work: Work) -> bool:
    return work.calls > 0 and work.ns / work.calls >= _MIN_CALL_NS


def _factor(work: Work, thread_ratio: float) -> Estimate:
    """Return the factor on the time of an operator with so many times the threads."""
    if not _is_large(work):
        return NO_CHANGE
    return Estimate(
        thread_ratio**-_THREAD_EXPONENT.high,
        thread_ratio**-_THREAD_EXPONENT.mid,
        thread_ratio**-_THREAD_EXPONENT.low,
    )
