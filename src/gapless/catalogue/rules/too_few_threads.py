"""G116."""

import re
from typing import Final

from gapless.catalogue.computing import share, work_of
from gapless.catalogue.examples import cpu, gpu, machine
from gapless.catalogue.ruling import Figure, rule
from gapless.catalogue.seen_examples import seen
from gapless.catalogue.windowed import of_step
from gapless.catalogue.work_examples import worked
from gapless.model.facts import Machine, World
from gapless.model.finding import Loss, Measure
from gapless.model.interval import Interval
from gapless.model.run import Others
from gapless.model.seen import Seen
from gapless.model.work import Work
from gapless.replay.roofline import SAME, scales

_LARGE_NS: Final = 200_000  # a call: below, threads hardly gain more than it takes to wake them
_LEAST: Final = 0.05  # of the step: what would go if threads were without cost
_LOST: Final = Interval(0.0, 0.35, 1.0)  # of that, what memory and waiting for each other keep
_IN_TURN: Final = re.compile(r"rnn|lstm|gru", re.IGNORECASE)  # one small product after the other
_ONE: Final = machine(cpus=4, intra_op_threads=1, device=None)
_LARGE: Final = worked("aten::addmm", ((512, 4096), (4096, 4096)), 80.0, "busy.math", calls=8)
_STEP: Final = {"busy.math": 80.0, "idle.host.python": 20.0}


@rule(
    "G116",
    "too-few-threads",
    since="0.1",
    figures=[
        Figure(
            "A launcher that set OMP_NUM_THREADS to 1",
            "1 thread computes operators that take 80.0 ms of each 100.0 ms step, and 4 processors "
            "are there for them.",
            seen(cpu(_ONE), _STEP, _LARGE),
        ),
        Figure("Others use the processors", None, seen(cpu(_ONE), _STEP, _LARGE, Others(3, 0, 2))),
        Figure(
            "Operators so small that another thread gives nothing",
            None,
            seen(
                cpu(_ONE),
                _STEP,
                worked("aten::addmm", ((32, 64), (64, 64)), 80.0, "busy.math", calls=1000),
            ),
        ),
        Figure(
            "A recurrent layer: small products, one after the other",
            None,
            seen(
                cpu(_ONE),
                _STEP,
                worked("aten::mkldnn_rnn_layer", ((32, 20, 64),), 80.0, "busy.math", calls=8),
            ),
        ),
        Figure(
            "As many as there are",
            None,
            seen(cpu(machine(cpus=4, intra_op_threads=4, device=None)), _STEP, _LARGE),
        ),
        Figure(
            "A GPU computes",
            None,
            seen(gpu(machine(cpus=4, intra_op_threads=1)), {"busy.math": 80.0}, _LARGE),
        ),
    ],
)
def too_few_threads(seen: Seen, machine: Machine, world: World) -> Loss | None:
    """Recognise a training on the CPU that leaves processors idle while it computes.

    ## Why it costs time
    An operator on large tensors parts its work among torch's threads. Launchers set
    ``OMP_NUM_THREADS`` to 1 (torchrun does, for more than one process), scripts that were written
    for a shared machine call ``torch.set_num_threads(1)``, and a quota that was raised since is not
    asked for again.

    ## How it is measured
    The recorder notes ``torch.get_num_threads()`` of the training, the processors that it may use
    (affinity and the container's quota), how many ranks share them, and what others and the
    loaders' workers take of them. Operators of 0.2 ms or more a call could be parted further,
    smaller ones and recurrent layers hardly. How much that gives depends on memory and on what
    else is computed: a wide interval, and a trial takes a minute.
    """
    threads, cpus = machine.intra_op_threads, machine.cpus
    if machine.device is not None or threads is None or cpus is None:
        return None
    there = cpus // (world.local_ranks or world.ranks) - round(_taken(seen))
    if threads >= there:
        return None
    rows = work_of(seen)
    large = share(seen, sum(one.ns for one in rows if _is_large(one)))
    part = threads / there
    if large * (1 - part) < _LEAST:
        return None
    left = Interval(*(part + (1 - part) * one for one in (_LOST.low, _LOST.mid, _LOST.high)))
    many = "1 thread computes" if threads == 1 else f"{threads} threads compute"
    return too_few_threads.loss(
        f"{many} operators that take {of_step(seen, large * (seen.step_ns or 0))}, and {there} "
        "processors are there for them.",
        *scales(rows, lambda work: left if _is_large(work) else SAME),
        evidence=(
            Measure("threads of a process", threads, ""),
            Measure("processors", cpus, ""),
            Measure("in large operators", large, "share"),
        ),
        helps=(f"intra-op-threads={there}",),
    )


def _is_large(work: Work) -> bool:
    return work.ns >= _LARGE_NS * work.calls and not _IN_TURN.search(work.operator)


def _taken(seen: Seen) -> float:
    """Give how many processors others and loaders' workers take, as far as known."""
    recorded = seen.study.recorded
    if recorded is None:
        return 0.0
    others = 0.0 if recorded.others is None else recorded.others.cores
    used = [one.workers for one in recorded.loaders if one.workers is not None]
    return others + sum(
        one.processes * (1.0 if one.on_cpu is None else (one.busy or 1.0) * one.on_cpu)
        for one in used
    )
