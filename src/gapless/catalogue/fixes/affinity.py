"""Processors of their own for the training and for its workers."""

from gapless.catalogue import examples
from gapless.catalogue.declare import Case, Option, fix
from gapless.errors import UsageError
from gapless.model.edit import Applicability, Proposal, Wrap
from gapless.model.facts import Facts

_LEAST = 4  # processors that are shared out without being asked


@fix(
    "affinity",
    since="0.1",
    value="TRAINING[,WORKERS]",
    cases=[
        Case(
            "16 processors, eight workers",
            examples.gpu(examples.fed()),
            "same: 2 processors are the training's own, 14 are the workers'",
            edits=(Wrap("process", "affinity", {"cpus": 2, "workers": 14}),),
        ),
        Case(
            "Two, shared out as asked",
            examples.cpu(examples.fed()),
            "same: 1 processor is the training's own, 1 is the workers'",
            Option(value="1,1"),
        ),
        Case(
            "Two processors",
            examples.cpu(examples.fed()),
            "refused: 2 processors are too few to share out; affinity=1,1 does it all the same",
        ),
        Case(
            "No workers",
            examples.gpu(),
            "refused: no loader has workers: there is nobody to keep apart from the training",
        ),
        Case(
            "Several ranks on a host",
            examples.gpu(examples.fed(), examples.world(ranks=4, local_ranks=4)),
            "refused: 4 processes of a host would share the same processors: their launcher must "
            "place them",
        ),
    ],
)
def affinity(facts: Facts, option: Option) -> tuple[Proposal, ...]:
    """Give the training some processors of its own, and the workers the others.

    Without numbers: an eighth of the processors (two at least) for the training. The training's are
    of the NUMA node of its device, where that is known.

    ## Precondition
    A loader with workers; four processors or more, or numbers: ``affinity=2,6``.

    ## Safety
    The same values. A process that may use fewer processors is slower where it needs them.
    """
    cpus, ranks = facts.machine.cpus, facts.world.local_ranks or facts.world.ranks
    if not any(one.num_workers for one in facts.loaders):
        why = "no loader has workers: there is nobody to keep apart from the training"
        return (affinity.refusal(why),)
    if ranks > 1:
        why = f"{ranks} processes of a host would share the same processors: their launcher must "
        return (affinity.refusal(f"{why}place them"),)
    if option.value is None and cpus is None:
        return (affinity.refusal("the processors were not counted: say how many, by affinity=2,6"),)
    if option.value is None and (cpus or 0) < _LEAST:
        why = f"{cpus} processors are too few to share out; affinity=1,1 does it all the same"
        return (affinity.refusal(why),)
    own, theirs = _shares(option, cpus or 0)
    if cpus is not None and own + theirs > cpus:
        return (affinity.refusal(f"{own} + {theirs} are more than the {cpus} processors here"),)
    return (
        affinity.proposal(
            f"{_many(own)} the training's own, {theirs} {_verb(theirs)} the workers'",
            Wrap("process", "affinity", {"cpus": own, "workers": theirs}),
            applicability=Applicability.SAME,
        ),
    )


def _shares(option: Option, cpus: int) -> tuple[int, int]:
    if option.value is None:
        own = max(2, cpus // 8)
        return own, cpus - own
    first, _, second = option.value.partition(",")
    if not first.isdecimal() or int(first) == 0 or (second and not second.isdecimal()):
        raise UsageError(f"affinity={option.value}: two numbers are meant, affinity=2,6")
    own = int(first)
    return own, int(second) if second else max(1, cpus - own)


def _many(count: int) -> str:
    return f"{count} processor{'' if count == 1 else 's'} {_verb(count)}"


def _verb(count: int) -> str:
    return "is" if count == 1 else "are"
