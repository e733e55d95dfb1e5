"""Separate processors for the training and for its workers."""

from typing import Final

from gapless.catalogue.declare.cpu_lists import format_cpu_list, parse_cpu_list
from gapless.catalogue.declare.fix import Option, fix
from gapless.catalogue.declare.selectors import uses_cuda
from gapless.errors import UsageError
from gapless.model.edit import Applicability, Proposal, Wrap
from gapless.model.facts import Facts

_MIN_PROCESSORS: Final = 4  # processors needed to share them out without numbers


@fix(
    "affinity",
    value="TRAINING[,WORKERS]",
    cases="""
    # 16 processors, eight workers
    > equivalent: the training runs on processors 0-1, its workers on 2-15
    gpu(worker_loader()), Wrap("process", "affinity", {"cpus": "0-1", "workers": "2-15"})
    # Two NUMA nodes, and the device is at the second
    > equivalent: the training runs on processors 8-9, its workers on 0-7,10-15
    gpu(worker_loader(), machine(device_cpus="8-15"))
    # The same, without workers
    > same: the training runs on processors 8-15, those of its device's NUMA node
    gpu(machine(device_cpus="8-15")), Wrap("process", "affinity", {"cpus": "8-15"})
    # Two, shared out as requested
    > equivalent: the training runs on processors 0, its workers on 1
    cpu(worker_loader()), Option(value="1,1")
    # Two processors
    > refused: 2 processors are too few to share out; affinity=1,1 does it anyway
    cpu(worker_loader())
    # No workers, and nothing known of NUMA
    > refused: no loader has workers, and it is not known which processors are near the device
    gpu()
    # Several ranks on a host
    > refused: 4 processes of a host would share the same processors: their launcher must place them
    gpu(worker_loader(), world(ranks=4, local_ranks=4))
    # More than there are
    > refused: 2 + 2 are more than 2 processors
    cpu(worker_loader()), Option(value="2,2")
    """,
)
def affinity(facts: Facts, option: Option) -> tuple[Proposal, ...]:
    """Give the training some processors of its own, and the workers the others.

    Without numbers the training gets an eighth of them (at least two; half without a device), near
    its device if that is known. Without workers it gets those of its device's NUMA node.

    ## Precondition
    A loader with workers, and four processors or more, or numbers: ``affinity=2,6``. Or a device
    on one of several NUMA nodes.

    ## Safety
    The same values where the training keeps as many processors as it has threads. With fewer it is
    equivalent: torch then uses fewer threads, which sum in another order. A process with fewer
    processors is slower where it needs more.
    """
    cpu_list, ranks = facts.machine.cpu_list, facts.world.local_ranks or facts.world.ranks
    if ranks > 1:
        reason = (
            f"{ranks} processes of a host would share the same processors: their launcher must "
        )
        return (affinity.refusal(f"{reason}place them"),)
    if cpu_list is None:
        return (affinity.refusal("which processors the training may use was not observed"),)
    cpus = parse_cpu_list(cpu_list)
    near_cpus = set(parse_cpu_list(facts.machine.device_cpus or cpu_list)) & set(cpus)
    if not any(loader.num_workers for loader in facts.loaders):
        return (_propose_device_node(facts, near_cpus, cpus),)
    if option.value is None and len(cpus) < _MIN_PROCESSORS:
        reason = f"{len(cpus)} processors are too few to share out; affinity=1,1 does it anyway"
        return (affinity.refusal(reason),)
    n_training, n_workers = _share_processors(option, len(cpus), on_device=uses_cuda(facts))
    if n_training + n_workers > len(cpus):
        return (
            affinity.refusal(f"{n_training} + {n_workers} are more than {len(cpus)} processors"),
        )
    ordered_cpus = sorted(cpus, key=lambda cpu: (cpu not in near_cpus, cpu))
    training_cpus, worker_cpus = (
        format_cpu_list(ordered_cpus[:n_training]),
        format_cpu_list(ordered_cpus[n_training : n_training + n_workers]),
    )
    return (
        affinity.proposal(
            f"the training runs on processors {training_cpus}, its workers on {worker_cpus}",
            Wrap("process", "affinity", {"cpus": training_cpus, "workers": worker_cpus}),
            applicability=_find_applicability(facts, n_training),
            risk=_find_risk(facts, n_training),
        ),
    )


def _find_applicability(facts: Facts, n_training: int) -> Applicability:
    """Return the class of the edit: with fewer processors torch may use fewer threads."""
    threads = facts.machine.intra_op_threads
    is_enough = threads is not None and threads <= n_training
    return Applicability.IDENTICAL if is_enough else Applicability.EQUIVALENT


def _find_risk(facts: Facts, n_training: int) -> str | None:
    if _find_applicability(facts, n_training) is Applicability.IDENTICAL:
        return None
    return "torch uses as many threads as processors, and sums are made in another order"


def _propose_device_node(facts: Facts, near_cpus: set[int], cpus: tuple[int, ...]) -> Proposal:
    if not near_cpus or len(near_cpus) == len(cpus):
        reason = "no loader has workers, and it is not known which processors are near the device"
        return affinity.refusal(reason)
    node_cpus = format_cpu_list(near_cpus)
    return affinity.proposal(
        f"the training runs on processors {node_cpus}, those of its device's NUMA node",
        Wrap("process", "affinity", {"cpus": node_cpus}),
        applicability=_find_applicability(facts, len(near_cpus)),
        risk=_find_risk(facts, len(near_cpus)),
    )


def _share_processors(option: Option, n_cpus: int, *, on_device: bool) -> tuple[int, int]:
    if option.value is None:
        n_training = max(2, n_cpus // 8 if on_device else n_cpus // 2)
        return n_training, n_cpus - n_training
    training_text, _, workers_text = option.value.partition(",")
    if (
        not training_text.isdecimal()
        or int(training_text) == 0
        or (workers_text and not workers_text.isdecimal())
    ):
        raise UsageError(f"affinity={option.value}: expected two numbers, as in affinity=2,6")
    n_training = int(training_text)
    return n_training, int(workers_text) if workers_text else max(1, n_cpus - n_training)
