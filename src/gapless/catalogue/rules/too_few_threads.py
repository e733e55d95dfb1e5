"""G116."""

from typing import Final

from gapless.catalogue import windowed
from gapless.catalogue.computing import share, work_of
from gapless.catalogue.examples import cpu, fed, gpu, loader, machine
from gapless.catalogue.ruling import Figure, rule
from gapless.catalogue.seen_examples import seen as stated
from gapless.catalogue.work_examples import worked
from gapless.model.facts import Facts, Machine, World
from gapless.model.finding import Loss, Measure
from gapless.model.interval import Interval
from gapless.model.run import Others
from gapless.model.seen import Seen
from gapless.model.work import Work
from gapless.replay.roofline import SAME, scales

_LEAST: Final = 0.1  # of the step
_LARGE_NS: Final = 50_000  # a call of a thread: less is not worth dividing, and torch does not
# Of the logarithm of how many more threads, so much is gained (benchmarks/libraries_off.py).
_GAINED: Final = Interval(0.2, 0.55, 1.0)
_PRODUCT: Final = worked("aten::mm", ((512, 512),) * 2, 9, "busy.math", calls=6)
_STEP: Final = {"busy.math": 9, "idle.host.python": 1}


def _one_thread(**changes: int | None) -> Machine:
    usual = {"cpus": 8, "cores": 8, "intra_op_threads": 1, "device": None}
    return machine(**(usual | changes))


@rule(
    "G116",
    "too-few-threads",
    since="0.1",
    figures=[
        Figure(
            "One thread on eight cores, as torchrun sets it",
            "1 thread computes operators, and 8 cores are there for it: 9.0 ms of each 10.0 ms "
            "step are operators large enough to be divided.",
            stated(cpu(_one_thread(), loader(num_workers=0)), _STEP, _PRODUCT),
        ),
        Figure(
            "Two processors are threads of one core",
            None,
            stated(cpu(_one_thread(cpus=2, cores=1), loader(num_workers=0)), _STEP, _PRODUCT),
        ),
        Figure(
            "Eight workers have the others",
            None,
            stated(cpu(_one_thread(), fed()), _STEP, _PRODUCT),
        ),
        Figure(
            "Others have all but one",
            None,
            stated(cpu(_one_thread(), loader(num_workers=0)), _STEP, _PRODUCT, Others(6.9, 0.0, 8)),
        ),
        Figure(
            "Operators are small",
            None,
            stated(
                cpu(_one_thread(), loader(num_workers=0)),
                _STEP,
                worked("aten::mm", ((16, 16),) * 2, 9, "busy.math", calls=900),
            ),
        ),
        Figure(
            "The cores were not counted",
            None,
            stated(cpu(_one_thread(cores=None), loader(num_workers=0)), _STEP, _PRODUCT),
        ),
        Figure(
            "A GPU computes",
            None,
            stated(gpu(machine(cpus=16, cores=16, intra_op_threads=1)), _STEP, _PRODUCT),
        ),
    ],
)
def too_few_threads(seen: Seen, machine: Machine, world: World) -> Loss | None:
    """Recognise a training on the CPU whose operators use half of its cores, or fewer.

    ## Why it costs time
    torch divides large operators among threads, one for each core unless it is told otherwise:
    by ``torch.set_num_threads``, or by ``OMP_NUM_THREADS``, which torchrun sets to 1 for several
    processes. The other cores have nothing to do then.

    ## How it is measured
    The recorder notes ``torch.get_num_threads()`` of the training, the cores that it may use
    (processors that are threads of one core count once), how many ranks share them, how many
    workers the loaders have, which need some, too, and how many others had meanwhile. Only
    operators that take a thread long enough to be divided count, by the windows. Memory, which
    cores share, bounds what more of them give.
    """
    ranks = world.local_ranks or world.ranks
    threads, cores = machine.intra_op_threads, machine.cores
    if machine.device is not None or threads is None or cores is None:
        return None
    fit = cores // ranks - _workers(seen.facts) - _others(seen)
    if fit < 2 * threads:
        return None
    spent = sum(one.ns for one in work_of(seen) if _is_large(one))
    if share(seen, spent) < _LEAST:
        return None
    step = seen.step_ns or 0.0
    one = "1 thread computes" if threads == 1 else f"{threads} threads compute"
    return too_few_threads.loss(
        f"{one} operators, and {fit} cores are there for {'it' if threads == 1 else 'them'}: "
        f"{windowed.of_step(seen, step * share(seen, spent))} are operators large enough to be "
        "divided.",
        *scales(seen.study.work, lambda work: _factor(work, fit / threads)),
        evidence=(
            Measure("threads of a process", threads, ""),
            Measure("cores for each", fit, ""),
            Measure("in large operators, a step", step * share(seen, spent), "ns"),
        ),
        helps=(f"intra-op-threads={fit}",),
    )


def _others(seen: Seen) -> int:
    """Count the processors that others had meanwhile."""
    others = None if seen.study.recorded is None else seen.study.recorded.others
    return 0 if others is None else round(others.cores + (others.stolen or 0.0))


def _workers(facts: Facts | None) -> int:
    """Count the workers of the loaders that feed a training."""
    loaders = () if facts is None else facts.loaders
    return sum(one.num_workers or 0 for one in loaders if one.trains is not False)


def _is_large(work: Work) -> bool:
    return work.calls > 0 and work.ns / work.calls >= _LARGE_NS


def _factor(work: Work, more: float) -> Interval:
    """Give what an operator takes with so many times the threads, of what it takes now."""
    if not _is_large(work):
        return SAME
    return Interval(more**-_GAINED.high, more**-_GAINED.mid, more**-_GAINED.low)
