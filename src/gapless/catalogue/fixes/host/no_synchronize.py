"""Leave out calls of synchronize."""

from typing import Final

from gapless.catalogue.declare.fix import Option, fix
from gapless.catalogue.declare.selectors import uses_cuda
from gapless.model.change import Omit
from gapless.model.edit import Applicability, Proposal, Skip
from gapless.model.facts import Facts

DEVICE_WAITS: Final = ("*DeviceSynchronize",)  # what torch.cuda.synchronize() calls


@fix(
    "no-synchronize",
    effect=lambda evidence, _proposal: (Omit(DEVICE_WAITS),) if evidence.on_device else None,
    cases="""
    # The host waits in each step
    > risky: torch.cuda.synchronize() does nothing (624 waits were seen)
    gpu(synchronize=624), Skip("torch.cuda.synchronize")
    # It never waits
    > nothing to change: no call that waits for the device was seen
    gpu(synchronize=0)
    # No device
    > refused: no CUDA device was used
    cpu()
    """,
)
def no_synchronize(facts: Facts, _option: Option) -> tuple[Proposal, ...]:
    """Leave out the calls of ``torch.cuda.synchronize()``.

    They are usually left over from measuring: torch waits by itself where it must.

    ## Precondition
    A CUDA device, and a script that calls it.

    ## Safety
    Risky: times that the script measures become wrong, and code that shares memory with other
    streams or processes may need the wait.
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
            risk="times that the script measures become wrong",
        ),
    )
