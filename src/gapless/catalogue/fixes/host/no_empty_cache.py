"""Leave out calls of empty_cache."""

from typing import Final

from gapless.catalogue.declare.fix import Option, fix
from gapless.catalogue.declare.selectors import uses_cuda
from gapless.catalogue.queries.windows import sum_calls
from gapless.model.change import Change, Drop, Omit
from gapless.model.edit import Applicability, Proposal, Skip
from gapless.model.evidence import Evidence
from gapless.model.facts import Facts

DEVICE_WAITS: Final = "idle.device.wait"  # of work that is ready, for its device
DEVICE_MEMORY: Final = ("cudaMalloc", "cudaFree", "hipMalloc", "hipFree")
_MIN_MAPPING_CALLS: Final = 0.5  # of the driver, a step: memory that is mapped, or given back


@fix(
    "no-empty-cache",
    effect=lambda evidence, _proposal: omit_allocations(evidence),
    cases="""
    # The cache is emptied in each step
    > same: torch.cuda.empty_cache() does nothing (312 calls)
    gpu(empty_cache=312), Skip("torch.cuda.empty_cache")
    # It is never emptied
    > nothing to change: torch.cuda.empty_cache() was not called
    gpu(empty_cache=0)
    # No device
    > refused: no CUDA device was used
    cpu()
    """,
)
def no_empty_cache(facts: Facts, _option: Option) -> tuple[Proposal, ...]:
    """Leave out the calls of ``torch.cuda.empty_cache()``.

    Each call waits for the device and gives memory back to the driver, which the next step asks for
    again.

    ## Precondition
    A CUDA device, and a script that calls it.

    ## Safety
    The same values. The allocator keeps more memory, so another process on the device gets less.
    """
    if not uses_cuda(facts):
        return (no_empty_cache.refusal("no CUDA device was used"),)
    calls = facts.calls.get("empty_cache")
    if calls == 0:
        return (no_empty_cache.no_change("torch.cuda.empty_cache() was not called"),)
    count_words = "" if calls is None else f" ({calls} calls)"
    return (
        no_empty_cache.proposal(
            f"torch.cuda.empty_cache() does nothing{count_words}",
            Skip("torch.cuda.empty_cache"),
            applicability=Applicability.IDENTICAL,
        ),
    )


def omit_allocations(evidence: Evidence) -> tuple[Change, ...]:
    """Return the changes that no step allocates or frees device memory.

    What is launched meanwhile has to wait for the device until the driver has mapped it: 0.2 to 0.5
    ms each time on an H200, which no step of 14 other trainings there had.
    """
    omission = Omit(DEVICE_MEMORY)
    return (omission, Drop((DEVICE_WAITS,))) if maps_memory(evidence) else (omission,)


def maps_memory(evidence: Evidence) -> bool:
    """Return whether steps of windows ask the driver for memory, so that their device waits."""
    n_calls = sum_calls(evidence, *DEVICE_MEMORY).count if evidence.study.account.steps else 0.0
    return n_calls >= _MIN_MAPPING_CALLS
