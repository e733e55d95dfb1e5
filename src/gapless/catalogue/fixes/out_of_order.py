"""Batches in the order in which they are ready."""

from typing import Final

from gapless.catalogue import examples
from gapless.catalogue.choosing import deterministic_setting, propose_for_loaders, name_line
from gapless.catalogue.declare import Case, Option, fix
from gapless.catalogue.targets import LOADER
from gapless.model.edit import Applicability, Proposal, SetArgument
from gapless.model.facts import Facts, Loader

_SINCE: Final = (2, 6)


@fix(
    "out-of-order",
    since="0.1",
    cases=[
        Case(
            "Eight workers, shuffled",
            examples.gpu(examples.worker_loader()),
            "equivalent: in_order True → False at train.py:41",
            edits=(SetArgument(LOADER, "in_order", value=False, where=examples.LOADER_LINE),),
        ),
        Case(
            "Not shuffled",
            examples.gpu(examples.worker_loader(shuffle=False)),
            "refused: the loader at train.py:41 does not shuffle, so the order may be meant; "
            "--override changes it all the same",
        ),
        Case(
            "Not shuffled, and that may be changed",
            examples.gpu(examples.worker_loader(shuffle=False)),
            "equivalent: in_order True → False at train.py:41",
            Option(override=True),
        ),
        Case(
            "The same result each time is asked for",
            examples.gpu(examples.worker_loader(), examples.precision(deterministic=True)),
            "refused: torch.use_deterministic_algorithms(True) asks for the same result each "
            "time; --override changes the order all the same",
        ),
        Case(
            "One worker",
            examples.gpu(examples.loader(num_workers=1)),
            "nothing to change: the loader at train.py:41 has not two workers that could overtake "
            "each other",
        ),
        Case(
            "An old torch",
            examples.gpu(examples.worker_loader(), examples.world(torch=(2, 5))),
            "refused: torch 2.5 has no in_order: it came with 2.6",
        ),
        Case(
            "It is so already",
            examples.gpu(examples.worker_loader(in_order=False)),
            "nothing to change: in_order is already False at train.py:41",
        ),
    ],
)
def out_of_order(facts: Facts, option: Option) -> tuple[Proposal, ...]:
    """Let the loader give batches in the order in which they are ready.

    One slow batch then holds up no others. It helps where the time that a batch takes varies much.

    ## Precondition
    Two workers or more, torch 2.6. Refused where the order may be meant: without shuffling, and
    where deterministic algorithms are asked for (unless ``--override``).

    ## Safety
    Equivalent: the same batches in another order, which differs from run to run. Where slow batches
    are of a kind (long texts), that kind comes late in each epoch.
    """
    torch = facts.world.torch
    if torch is not None and torch < _SINCE:
        reason = f"torch {torch[0]}.{torch[1]} has no in_order: it came with 2.6"
        return (out_of_order.refusal(reason),)
    determinism = deterministic_setting(facts)
    if determinism is not None and not option.override:
        reason = (
            f"{determinism} asks for the same result each time; --override changes the order all the same"
        )
        return (out_of_order.refusal(reason),)
    return propose_for_loaders(out_of_order, facts, option, lambda loader: _propose(loader, option))


def _propose(loader: Loader, option: Option) -> Proposal:
    line_ref = name_line(loader.location)
    if loader.num_workers <= 1:
        reason = f"the loader at {line_ref} has not two workers that could overtake each other"
        return out_of_order.no_change(reason, loader.location)
    if loader.in_order is False:
        return out_of_order.no_change(f"in_order is already False at {line_ref}", loader.location)
    if not (loader.shuffle or loader.iterable or option.override):
        reason = f"the loader at {line_ref} does not shuffle, so the order may be meant; "
        return out_of_order.refusal(f"{reason}--override changes it all the same", loader.location)
    return out_of_order.proposal(
        f"in_order True → False at {line_ref}",
        SetArgument(LOADER, "in_order", value=False, where=loader.location),
        applicability=Applicability.EQUIVALENT,
        risk="batches come in another order, which differs from run to run",
        location=loader.location,
    )
