"""More batches ahead for each worker."""

from typing import Final

from gapless.catalogue import examples, traps
from gapless.catalogue.choosing import each_loader, named
from gapless.catalogue.declare import Case, Option, fix
from gapless.catalogue.targets import LOADER
from gapless.model.edit import Applicability, Proposal, SetArgument
from gapless.model.facts import Facts, Loader

_START: Final = 4


@fix(
    "prefetch",
    since="0.1",
    value="BATCHES",
    cases=[
        Case(
            "Eight workers, two batches ahead each",
            examples.gpu(examples.fed()),
            "same: prefetch_factor 2 → 4 at train.py:41",
            edits=(SetArgument(LOADER, "prefetch_factor", 4, examples.LOADER_LINE),),
        ),
        Case(
            "No workers",
            examples.gpu(),
            "refused: the loader at train.py:41 has no workers that could work ahead: "
            "more-workers first",
        ),
        Case(
            "It is so already",
            examples.gpu(examples.fed()),
            "nothing to change: prefetch_factor is already 2 at train.py:41",
            Option(value="2"),
        ),
        Case(
            "A container with 1 GiB of shared memory",
            examples.gpu(examples.fed(), examples.machine(shm_bytes=1 << 30)),
            "refused: 8 workers × 8 batches of 38.0 MiB are 2.4 GiB, and 1.0 GiB are free in "
            "/dev/shm",
            Option(value="8"),
        ),
    ],
)
def prefetch(facts: Facts, option: Option) -> tuple[Proposal, ...]:
    """Let each worker make N batches ahead (without a number: 4, or twice what it is).

    It helps where single samples take very long: a deeper queue outlasts them. Where workers are
    too slow on the whole it does not.

    ## Precondition
    A loader with workers, and memory for the batches that wait.

    ## Safety
    The same batches in the same order. More of them are in memory at a time.
    """
    return each_loader(prefetch, facts, option, lambda one: _proposed(facts, one, option))


def _proposed(facts: Facts, loader: Loader, option: Option) -> Proposal:
    place = named(loader.where)
    if loader.num_workers == 0:
        why = f"the loader at {place} has no workers that could work ahead: more-workers first"
        return prefetch.refusal(why, loader.where)
    have = loader.prefetch_factor or traps.PREFETCH
    many = option.number(_START if have < _START else 2 * have)
    if many == have:
        return prefetch.nothing(f"prefetch_factor is already {have} at {place}", loader.where)
    trap = traps.crowded(facts, loader, loader.num_workers, many)
    if trap is not None:
        return prefetch.refusal(trap, loader.where)
    return prefetch.proposal(
        f"prefetch_factor {have} → {many} at {place}",
        SetArgument(LOADER, "prefetch_factor", many, loader.where),
        applicability=Applicability.SAME,
        where=loader.where,
    )
