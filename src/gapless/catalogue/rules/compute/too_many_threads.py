"""More threads than processors, on a CPU."""

from gapless.catalogue.declare.rule import rule
from gapless.catalogue.fixes.input.intra_op_threads import intra_op_threads
from gapless.model.change import NO_LOADER, LoaderChange
from gapless.model.evidence import Evidence
from gapless.model.facts import Machine, World
from gapless.model.finding import Detection, Measure


@rule(
    "G113",
    "too-many-threads",
    figures="""
    crowded_machine = machine(cpus=4, intra_op_threads=32, device=None)
    # A container that may use 4 of 32 processors
    > 32 threads compute operators side by side, and 4 processors are there for them.
    cpu(crowded_machine)
    busy.math 90.0, idle.host.python 10.0
    # Two ranks, each with a thread for every processor, and workers beside them
    > 2 processes with 16 threads each compute operators side by side, and 16 processors are there
      for them.
    cpu(worker_loader(), machine(cpus=16, intra_op_threads=16, device=None), world(ranks=2,
      local_ranks=2))
    busy.math 90.0, idle.host.python 10.0
    # As many as there are
    cpu()
    busy.math 90.0, idle.host.python 10.0
    CpuContention(0.2, 0.0, 2)
    # As many, on a shared machine
    cpu()
    busy.math 90.0, idle.host.python 10.0
    CpuContention(1.4, 0.0, 2)
    # A GPU computes
    gpu(machine(cpus=4, intra_op_threads=32))
    busy.math 90.0, idle.host.python 10.0
    # They were not counted
    bare_facts()
    busy.math 90.0, idle.host.python 10.0
    """,
)
def too_many_threads(evidence: Evidence, machine: Machine, world: World) -> Detection | None:
    """Recognise a training on the CPU whose operators use more threads than there are processors.

    ## Why it costs time
    An operator is done when the last of its threads is. Threads without a processor make all others
    wait, and those spin meanwhile, on the processors that are needed. torch counts the processors
    of the machine, not those that a container may use, and every rank starts as many threads.

    ## How it is measured
    The recorder notes ``torch.get_num_threads()`` of the training, the processors that it may use
    (affinity and the container's quota), and how many ranks share them. Processors taken by other
    processes are not blamed on the training's threads.
    """
    ranks = world.local_ranks or world.ranks
    threads, cpus = machine.intra_op_threads, machine.cpus
    if machine.device is not None or threads is None or cpus is None:
        return None
    n_fit = max(1, cpus // ranks)
    if threads <= n_fit:
        return None
    subject = (
        f"{threads} threads" if ranks == 1 else f"{ranks} processes with {threads} threads each"
    )
    loaders = evidence.facts.loaders
    # A loader for evaluation, not used yet, feeds nothing: it is left out if another does.
    feeding_loaders = [loader for loader in loaders if loader.trains] or [
        loader for loader in loaders if loader.trains is not False
    ]
    loader_ids = [loader.id for loader in feeding_loaders] or [NO_LOADER]
    return too_many_threads.detection(
        f"{subject} compute operators side by side, and {cpus} processors are there for them.",
        *(LoaderChange(loader_id, intra_op_threads=n_fit) for loader_id in loader_ids),
        measures=(
            Measure("threads of a process", threads, ""),
            Measure("processes", ranks, ""),
            Measure("processors", cpus, ""),
        ),
        helps=(intra_op_threads.request(n_fit),),
    )
