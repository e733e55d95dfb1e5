"""Processors that others use, or that the machine does not really have."""

from typing import Final

from gapless.catalogue.declare.rule import rule
from gapless.catalogue.fixes.input.intra_op_threads import intra_op_threads
from gapless.model.change import Change, HostChange, Scale
from gapless.model.estimate import Estimate
from gapless.model.evidence import Evidence, NotObservedError
from gapless.model.finding import Detection, Measure

_MIN_TAKEN_SHARE: Final = 0.25  # of the processors
_MIN_STOLEN_SHARE: Final = 0.05
_MIN_HELD_PERCENT: Final = 5.0  # per cent of the time
_UNSURE_REASON: Final = "what others take of the machine comes and goes with them"
_MIN_OPERATORS_SHARE: Final = 0.25  # of the step
_HOST_LEAVES: Final = ("idle.host", "idle.launch")
_DATA_LEAVES: Final = ("idle.data",)


@rule(
    "G804",
    "taken-processors",
    figures="""
    # Others use half of them
    > Others took 8.0 of 16 processors while the training ran.
    gpu()
    busy.tc_math 20, idle.host.python 10
    CpuContention(8.0, 0.0, 16)
    # A limit of the control group
    > A control group's limit held the training back for 40 % of the time.
    gpu()
    busy.tc_math 20, idle.host.python 10
    CpuContention(0.1, 0.0, 16), gauge("cpu.throttled", 40, 0, 90)
    # Another machine on the same processors
    > The host gave 0.5 of 2 processors to other machines while the training ran.
    gpu()
    busy.tc_math 20, idle.host.python 10
    CpuContention(0.0, 0.5, 2)
    # The same, where the processors train
    > Others took 1.0 of 2 processors while the training ran.
    cpu(machine(cpus=2, intra_op_threads=1, device=None))
    busy.math 20, idle.host.python 2
    CpuContention(1.0, 0.0, 2)
    # They leave less than the threads that compute operators side by side
    > Others took 1.5 of 2 processors while the training ran, and each operator waits for the last
      of its 2 threads.
    cpu(machine(cpus=2, intra_op_threads=2, device=None))
    busy.math 20, idle.host.python 2
    CpuContention(1.5, 0.0, 2)
    # Another machine takes little: nearly each thread has its processor
    > The host gave 0.2 of 2 processors to other machines while the training ran.
    cpu(machine(cpus=2, intra_op_threads=2, device=None))
    busy.math 20, idle.host.python 2
    CpuContention(0.1, 0.2, 2)
    # A quiet machine
    gpu()
    busy.tc_math 20, idle.host.python 10
    CpuContention(0.1, 0.0, 16)
    """,
)
def taken_processors(evidence: Evidence) -> Detection | None:
    """Recognise that processors were not the training's own while it ran.

    ## Why it costs time
    The threads that launch, and the workers that load, wait for a processor. That time comes and
    goes with the other processes, and makes all measurements uncertain.

    ## How it is measured
    By the busy time of the machine's processors minus that of the run's processes; by the time that
    the host of a virtual machine took (stolen time); and by throttling through a control group's
    limit. Other waits while a batch is made do not count.

    Where others take a quarter of the processors, and operators run on more threads than are left,
    each is done when the last of its threads has had one, and the others spin meanwhile. That costs
    more than what others take (``benchmarks/crowded_threads.py``), so no bound is given: fewer
    threads are worth a trial.

    Other processes are no fault of the training: they are reported next to its causes, never as one
    of them, with the most that they may take. A limit of the training's own control group is a
    cause.
    """
    contention = evidence.contention
    if contention is None:
        raise NotObservedError("processors", "what others took was not sampled")
    total = contention.processors or 0
    percent = next(
        (series.mean for series in evidence.run.machine if series.name == "cpu.throttled"), 0.0
    )
    stolen = contention.stolen or 0.0
    if percent >= _MIN_HELD_PERCENT:
        share, min_share = percent / 100, percent / 200  # while the limit applies, nothing runs
        text = f"A control group's limit held the training back for {percent:.0f} % of the time."
    elif total and stolen >= _MIN_STOLEN_SHARE * total:
        share, min_share = stolen / total, stolen / total / 2
        text = f"The host gave {stolen:.1f} of {total} processors to other machines while the "
        text += "training ran."
    elif total and contention.cores >= _MIN_TAKEN_SHARE * total:
        share, min_share = contention.cores / total, 0.0  # other processors may have been free
        text = f"Others took {contention.cores:.1f} of {total} processors while the training ran."
    else:
        return None
    factor = Estimate(max(0.1, 1 - share), 1 - (share + min_share) / 2, 1 - min_share)
    changes, threads = _changes_alone(evidence, factor), evidence.facts.machine.intra_op_threads
    taken, world = contention.cores + stolen, evidence.facts.world
    n_free = max(1, round(total - taken) // (world.local_ranks or world.ranks))
    is_crowded = percent < _MIN_HELD_PERCENT and _are_crowded(
        evidence, taken / max(total, 1), n_free
    )
    if is_crowded:
        text = f"{text[:-1]}, and each operator waits for the last of its {threads} threads."
    return taken_processors.detection(
        text,
        *(() if is_crowded else changes),
        measures=(
            Measure("processors that others took", contention.cores, ""),
            Measure("stolen by the host", stolen, ""),
            Measure("held back by a limit", percent / 100, "share"),
        ),
        helps=(intra_op_threads.request(n_free),) if is_crowded else (),
        no_remedy="Run it alone, ask for more processors, or raise the control group's limit.",
        unsure=None if percent >= _MIN_HELD_PERCENT else _UNSURE_REASON,
    )


def _are_crowded(evidence: Evidence, taken_share: float, n_free: int) -> bool:
    """Return whether operators, a good part of the step, run on more threads than are left."""
    threads = evidence.facts.machine.intra_op_threads
    is_on_cpu = not evidence.has_device and evidence.share("busy.") >= _MIN_OPERATORS_SHARE
    is_taken = taken_share >= _MIN_TAKEN_SHARE
    return is_on_cpu and is_taken and threads is not None and threads > n_free


def _changes_alone(evidence: Evidence, factor: Estimate) -> tuple[Change, ...]:
    """Return what exclusive processors change: the host's time, or all if processors train."""
    awake_share = _awake_share(evidence)
    data_factor = Estimate(
        *(1 - awake_share * (1 - bound) for bound in (factor.low, factor.mid, factor.high))
    )
    host_changes = (
        HostChange(_HOST_LEAVES, factor),
        *((HostChange(_DATA_LEAVES, data_factor),) if awake_share else ()),
    )
    return host_changes if evidence.on_device else (*host_changes, Scale(factor, leaves=("busy.",)))


def _awake_share(evidence: Evidence) -> float:
    """Return the share of the waits for data in which making a batch needs a processor.

    For the rest it sleeps (storage, a network, another process), with any number of processors.
    """
    uses = evidence.loader_uses
    waits_ns = wanted_ns = 0.0
    for use in uses:
        workers = use.workers
        shares = None if workers is None else (workers.on_cpu, workers.run_queue, workers.blocked)
        total_share = sum(share or 0.0 for share in shares or ())
        asleep_share = (
            (workers.blocked or 0.0) / total_share if workers is not None and total_share else 0.0
        )
        waits_ns, wanted_ns = waits_ns + use.wait_ns, wanted_ns + use.wait_ns * (1 - asleep_share)
    return wanted_ns / waits_ns if waits_ns else 1.0
