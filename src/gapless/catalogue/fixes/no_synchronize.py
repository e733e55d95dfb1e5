"""Calls of synchronize, left out."""

from gapless.catalogue import examples
from gapless.catalogue.choosing import uses_cuda
from gapless.catalogue.declare import Case, Option, fix
from gapless.model.edit import Applicability, Proposal, Skip
from gapless.model.facts import Facts


@fix(
    "no-synchronize",
    since="0.1",
    cases=[
        Case(
            "The host waits in each step",
            examples.gpu(synchronize=624),
            "risky: torch.cuda.synchronize() does nothing (624 waits were seen)",
            edits=(Skip("torch.cuda.synchronize"),),
        ),
        Case(
            "It never does",
            examples.gpu(synchronize=0),
            "nothing to change: no call that waits for the device was seen",
        ),
        Case("No device", examples.cpu(), "refused: no CUDA device was used"),
    ],
)
def no_synchronize(facts: Facts, _option: Option) -> tuple[Proposal, ...]:
    """Leave out the calls of ``torch.cuda.synchronize()``.

    They are left over from measuring, as a rule: torch waits by itself where it must.

    ## Precondition
    A CUDA device, and a script that calls it.

    ## Safety
    Risky: times that the script takes of its own become wrong, and code that shares memory with
    other streams or processes may need the wait.
    """
    if not uses_cuda(facts):
        return (no_synchronize.refusal("no CUDA device was used"),)
    calls = facts.calls.get("synchronize")
    if calls == 0:
        return (no_synchronize.no_change("no call that waits for the device was seen"),)
    count_words = "" if calls is None else f" ({calls} waits were seen)"
    return (
        no_synchronize.proposal(
            f"torch.cuda.synchronize() does nothing{count_words}",
            Skip("torch.cuda.synchronize"),
            applicability=Applicability.RISKY,
            risk="times that the script takes itself become wrong",
        ),
    )
