"""G113."""

from typing import Final

from gapless.catalogue.examples import bare, cpu, fed, gpu, machine, world
from gapless.catalogue.ruling import Figure, rule
from gapless.catalogue.seen_examples import seen
from gapless.model.change import NO_LOADER, Feed
from gapless.model.facts import Machine, World
from gapless.model.finding import Loss, Measure
from gapless.model.run import Others
from gapless.model.seen import Seen

_STEP: Final = {"busy.math": 90.0, "idle.host.python": 10.0}
_CROWDED: Final = machine(cpus=4, intra_op_threads=32, device=None)


@rule(
    "G113",
    "too-many-threads",
    since="0.1",
    figures=[
        Figure(
            "A container that may use 4 of 32 processors",
            "32 threads compute operators side by side, and 4 processors are there for them.",
            seen(cpu(_CROWDED), _STEP),
        ),
        Figure(
            "Two ranks, each with a thread for every processor, and workers beside them",
            "2 processes with 16 threads each compute operators side by side, and 16 processors "
            "are there for them.",
            seen(
                cpu(
                    fed(),
                    machine(cpus=16, intra_op_threads=16, device=None),
                    world(ranks=2, local_ranks=2),
                ),
                _STEP,
            ),
        ),
        Figure("As many as there are", None, seen(cpu(), _STEP, Others(0.2, 0.0, 2))),
        Figure(
            "As many, on a machine that others use as well",
            None,
            seen(cpu(), _STEP, Others(1.4, 0.0, 2)),
        ),
        Figure("A GPU computes", None, seen(gpu(machine(cpus=4, intra_op_threads=32)), _STEP)),
        Figure("They were not counted", None, seen(bare(), _STEP)),
    ],
)
def too_many_threads(seen: Seen, machine: Machine, world: World) -> Loss | None:
    """Recognise a training on the CPU whose operators use more threads than there are processors.

    ## Why it costs time
    An operator is done when the last of its threads is. Threads without a processor make all others
    wait, and those spin meanwhile, on the processors that are wanted. torch counts the processors
    of the machine, not those that a container may use, and every rank starts as many threads.

    ## How it is measured
    The recorder notes ``torch.get_num_threads()`` of the training, the processors that it may use
    (affinity and the container's quota), and how many ranks share them. What others took of them
    meanwhile is no fault of the training's threads.
    """
    ranks = world.local_ranks or world.ranks
    threads, cpus = machine.intra_op_threads, machine.cpus
    if machine.device is not None or threads is None or cpus is None:
        return None
    fit = max(1, cpus // ranks)
    if threads <= fit:
        return None
    each = f"{threads} threads" if ranks == 1 else f"{ranks} processes with {threads} threads each"
    loaders = seen.facts.loaders if seen.facts is not None else ()
    # One for evaluation, not asked yet, feeds nothing: where another does, it is left out.
    feeding = [one for one in loaders if one.trains] or [
        one for one in loaders if one.trains is not False
    ]
    numbers = [one.id for one in feeding] or [NO_LOADER]
    return too_many_threads.loss(
        f"{each} compute operators side by side, and {cpus} processors are there for them.",
        *(Feed(one, intra_op_threads=fit) for one in numbers),
        evidence=(
            Measure("threads of a process", threads, ""),
            Measure("processes", ranks, ""),
            Measure("processors", cpus, ""),
        ),
        helps=(f"intra-op-threads={fit}",),
    )
