"""Processors of their own for the training and for its workers."""

from typing import Final

from gapless.catalogue import examples
from gapless.catalogue.choosing import on_cuda
from gapless.catalogue.declare import Case, Option, fix
from gapless.catalogue.processors import parsed, written
from gapless.errors import UsageError
from gapless.model.edit import Applicability, Proposal, Wrap
from gapless.model.facts import Facts

_LEAST: Final = 4  # processors that are shared out without being asked


@fix(
    "affinity",
    since="0.1",
    value="TRAINING[,WORKERS]",
    cases=[
        Case(
            "16 processors, eight workers",
            examples.gpu(examples.fed()),
            "equivalent: the training runs on processors 0-1, its workers on 2-15",
            edits=(Wrap("process", "affinity", {"cpus": "0-1", "workers": "2-15"}),),
        ),
        Case(
            "Two NUMA nodes, and the device is at the second",
            examples.gpu(examples.fed(), examples.machine(device_cpus="8-15")),
            "equivalent: the training runs on processors 8-9, its workers on 0-7,10-15",
        ),
        Case(
            "The same, without workers",
            examples.gpu(examples.machine(device_cpus="8-15")),
            "same: the training runs on processors 8-15, those of its device's NUMA node",
            edits=(Wrap("process", "affinity", {"cpus": "8-15"}),),
        ),
        Case(
            "Two, shared out as asked",
            examples.cpu(examples.fed()),
            "equivalent: the training runs on processors 0, its workers on 1",
            Option(value="1,1"),
        ),
        Case(
            "Two processors",
            examples.cpu(examples.fed()),
            "refused: 2 processors are too few to share out; affinity=1,1 does it all the same",
        ),
        Case(
            "No workers, and nothing known of NUMA",
            examples.gpu(),
            "refused: no loader has workers, and it is not known which processors are near the "
            "device",
        ),
        Case(
            "Several ranks on a host",
            examples.gpu(examples.fed(), examples.world(ranks=4, local_ranks=4)),
            "refused: 4 processes of a host would share the same processors: their launcher must "
            "place them",
        ),
        Case(
            "More than there are",
            examples.cpu(examples.fed()),
            "refused: 2 + 2 are more than 2 processors",
            Option(value="2,2"),
        ),
    ],
)
def affinity(facts: Facts, option: Option) -> tuple[Proposal, ...]:
    """Give the training some processors of its own, and the workers the others.

    Without numbers the training gets an eighth of them (two at least; half without a device), near
    its device where that is known. Without workers it gets those of its device's NUMA node.

    ## Precondition
    A loader with workers, and four processors or more, or numbers: ``affinity=2,6``. Or a device
    on one of several NUMA nodes.

    ## Safety
    The same values where the training keeps as many processors as it has threads. With fewer it is
    equivalent: torch then takes fewer threads, which make sums in another order. A process that may
    use fewer processors is slower where it needs them.
    """
    have, ranks = facts.machine.cpu_list, facts.world.local_ranks or facts.world.ranks
    if ranks > 1:
        why = f"{ranks} processes of a host would share the same processors: their launcher must "
        return (affinity.refusal(f"{why}place them"),)
    if have is None:
        return (affinity.refusal("which processors the training may use was not observed"),)
    here = parsed(have)
    near = set(parsed(facts.machine.device_cpus or have)) & set(here)
    if not any(one.num_workers for one in facts.loaders):
        return (_at_device(facts, near, here),)
    if option.value is None and len(here) < _LEAST:
        why = f"{len(here)} processors are too few to share out; affinity=1,1 does it all the same"
        return (affinity.refusal(why),)
    own, theirs = _shares(option, len(here), on_device=on_cuda(facts))
    if own + theirs > len(here):
        return (affinity.refusal(f"{own} + {theirs} are more than {len(here)} processors"),)
    order = sorted(here, key=lambda one: (one not in near, one))
    cpus, workers = written(order[:own]), written(order[own : own + theirs])
    return (
        affinity.proposal(
            f"the training runs on processors {cpus}, its workers on {workers}",
            Wrap("process", "affinity", {"cpus": cpus, "workers": workers}),
            applicability=_class(facts, own),
            risk=_risk(facts, own),
        ),
    )


def _class(facts: Facts, own: int) -> Applicability:
    """Tell what fewer processors change: torch takes as many threads, if it was told nothing."""
    threads = facts.machine.intra_op_threads
    enough = threads is not None and threads <= own
    return Applicability.SAME if enough else Applicability.EQUIVALENT


def _risk(facts: Facts, own: int) -> str | None:
    if _class(facts, own) is Applicability.SAME:
        return None
    return "torch uses as many threads as processors, and sums are made in another order"


def _at_device(facts: Facts, near: set[int], here: tuple[int, ...]) -> Proposal:
    if not near or len(near) == len(here):
        why = "no loader has workers, and it is not known which processors are near the device"
        return affinity.refusal(why)
    cpus = written(near)
    return affinity.proposal(
        f"the training runs on processors {cpus}, those of its device's NUMA node",
        Wrap("process", "affinity", {"cpus": cpus}),
        applicability=_class(facts, len(near)),
        risk=_risk(facts, len(near)),
    )


def _shares(option: Option, cpus: int, *, on_device: bool) -> tuple[int, int]:
    if option.value is None:
        own = max(2, cpus // 8 if on_device else cpus // 2)
        return own, cpus - own
    first, _, second = option.value.partition(",")
    if not first.isdecimal() or int(first) == 0 or (second and not second.isdecimal()):
        raise UsageError(f"affinity={option.value}: two numbers are meant, affinity=2,6")
    own = int(first)
    return own, int(second) if second else max(1, cpus - own)
