"""Take batches in the order in which they are ready."""

from typing import Final

from gapless.catalogue.declare.fix import Option, fix
from gapless.catalogue.declare.selectors import (
    deterministic_setting,
    name_line,
    propose_for_loaders,
)
from gapless.catalogue.declare.targets import LOADER
from gapless.catalogue.effects.loaders import loader_changes
from gapless.model.edit import Applicability, Proposal, SetArgument
from gapless.model.facts import Facts, Loader

_SINCE: Final = (2, 6)


@fix(
    "out-of-order",
    effect=loader_changes,
    cases="""
    # Eight workers, shuffled
    > equivalent: in_order True → False at train.py:41
    gpu(worker_loader()), SetArgument(LOADER, "in_order", value=False, where=LOADER_LINE)
    # Not shuffled
    > refused: the loader at train.py:41 does not shuffle, so the order may be intended; --override
      changes it anyway
    gpu(worker_loader(shuffle=False))
    # Not shuffled, and that may be changed
    > equivalent: in_order True → False at train.py:41
    gpu(worker_loader(shuffle=False)), Option(override=True)
    # Reproducible results are asked for
    > refused: torch.use_deterministic_algorithms(True) asks for reproducible results; --override
      changes the order anyway
    gpu(worker_loader(), precision(deterministic=True))
    # One worker
    > nothing to change: the loader at train.py:41 does not have two workers that could overtake
      each other
    gpu(loader(num_workers=1))
    # An old torch
    > refused: torch 2.5 has no in_order: it came with 2.6
    gpu(worker_loader(), world(torch=(2, 5)))
    # Already so
    > nothing to change: in_order is already False at train.py:41
    gpu(worker_loader(in_order=False))
    """,
)
def out_of_order(facts: Facts, option: Option) -> tuple[Proposal, ...]:
    """Let the loader return batches in the order in which they are ready.

    A slow batch then does not hold up others. It helps where the time for a batch varies much.

    ## Precondition
    At least two workers, and torch 2.6. Refused where the order may be intended: without shuffling,
    and where deterministic algorithms are asked for (unless ``--override``).

    ## Safety
    Equivalent: the same batches in another order, which differs from run to run. If slow batches
    are of one kind (long texts), that kind comes late in each epoch.
    """
    torch = facts.world.torch
    if torch is not None and torch < _SINCE:
        reason = f"torch {torch[0]}.{torch[1]} has no in_order: it came with 2.6"
        return (out_of_order.refusal(reason),)
    determinism = deterministic_setting(facts)
    if determinism is not None and not option.override:
        reason = f"{determinism} asks for reproducible results; --override changes the order anyway"
        return (out_of_order.refusal(reason),)
    return propose_for_loaders(out_of_order, facts, option, lambda loader: _propose(loader, option))


def _propose(loader: Loader, option: Option) -> Proposal:
    line_ref = name_line(loader.location)
    if loader.num_workers <= 1:
        reason = (
            f"the loader at {line_ref} does not have two workers that could overtake each other"
        )
        return out_of_order.no_change(reason, loader.location)
    if loader.in_order is False:
        return out_of_order.no_change(f"in_order is already False at {line_ref}", loader.location)
    if not (loader.shuffle or loader.iterable or option.override):
        reason = f"the loader at {line_ref} does not shuffle, so the order may be intended; "
        return out_of_order.refusal(f"{reason}--override changes it anyway", loader.location)
    return out_of_order.proposal(
        f"in_order True → False at {line_ref}",
        SetArgument(LOADER, "in_order", value=False, where=loader.location),
        applicability=Applicability.EQUIVALENT,
        risk="batches come in another order, which differs from run to run",
        location=loader.location,
    )
