"""Leave out calls of empty_cache."""

from typing import Final

from gapless.catalogue.declare.fix import Option, fix
from gapless.catalogue.declare.selectors import uses_cuda
from gapless.catalogue.queries.windows import sum_calls
from gapless.model.change import Change, HostChange, Omit
from gapless.model.edit import Applicability, Proposal, Skip
from gapless.model.estimate import Estimate
from gapless.model.evidence import Evidence
from gapless.model.facts import Facts

DEVICE_WAITS: Final = "idle.device.wait"  # of work that is ready, for its device
DEVICE_MEMORY: Final = ("cudaMalloc", "cudaFree", "hipMalloc", "hipFree")
_MAX_MAPPING_NS: Final = 500_000  # that a device waits for a call of the driver's, on an H200


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
    """Return the changes that no step allocates or frees device memory."""
    omission, share = Omit(DEVICE_MEMORY), mapped_wait_share(evidence)
    kept_share = Estimate(*3 * (1 - share,))
    return (omission, HostChange((DEVICE_WAITS,), kept_share)) if share else (omission,)


def mapped_wait_share(evidence: Evidence) -> float:
    """Return which share of the waits for a device is that for memory which the driver maps.

    What is launched meanwhile has to wait until that is done: 0.2 to 0.5 ms each time on an H200,
    which no step of 14 other trainings there had, or as long as the calls take. What exceeds it is
    others'.
    """
    wait_ns = evidence.per_step(DEVICE_WAITS) if evidence.study.account.steps else 0.0
    if not wait_ns:
        return 0.0
    calls = sum_calls(evidence, *DEVICE_MEMORY)
    return min(1.0, max(calls.count * _MAX_MAPPING_NS, calls.host_ns) / wait_ns)
