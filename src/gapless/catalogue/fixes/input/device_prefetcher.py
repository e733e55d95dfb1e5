"""Copy the next batch to the device during the current step."""

from gapless.catalogue.declare.fix import Option, fix
from gapless.catalogue.declare.selectors import name_line, propose_for_loaders, uses_cuda
from gapless.catalogue.declare.targets import LOADER
from gapless.catalogue.effects.copies import copy_effect
from gapless.catalogue.fixes.input.non_blocking import pin_loaders
from gapless.catalogue.fixes.input.pin_memory import UNPINNABLE_CASES, find_pin_obstacle
from gapless.model.edit import Applicability, Proposal, Wrap
from gapless.model.facts import Facts, Loader


@fix(
    "device-prefetcher",
    effect=copy_effect(non_blocking=True, ahead=True),
    value="BATCHES",
    cases="""
    # Batches in ordinary memory
    > risky: batches of train.py:41 are copied 1 ahead on a stream of their own, pin_memory False →
      True at train.py:41
    gpu(), Wrap(LOADER, "device-prefetcher", {"ahead": 1}, LOADER_LINE)
    SetArgument(LOADER, "pin_memory", value=True, where=LOADER_LINE)
    """
    + UNPINNABLE_CASES,
)
def device_prefetcher(facts: Facts, option: Option) -> tuple[Proposal, ...]:
    """Copy the next batch to the device, on a separate stream, during the current step.

    ## Precondition
    A device, and batches that can be pinned. Memory on the device for one more batch (or more:
    ``device-prefetcher=2``).

    ## Safety
    The same values. Risky, since the loop gets batches that are already on the device: code that
    reads them on the host (``.numpy()``) fails or waits.
    """
    if not uses_cuda(facts):
        return (device_prefetcher.refusal("no device was used: nothing is copied to one"),)
    n_ahead = option.parse_number(1)

    def propose(loader: Loader) -> Proposal:
        reason = find_pin_obstacle(loader)
        if reason is not None:
            return device_prefetcher.refusal(reason, loader.location)
        pin_edits, pin_words = pin_loaders((loader,))
        line_ref = name_line(loader.location)
        summary = f"batches of {line_ref} are copied {n_ahead} ahead on a stream of their own"
        return device_prefetcher.proposal(
            ", ".join((summary, *pin_words)),
            Wrap(LOADER, "device-prefetcher", {"ahead": n_ahead}, loader.location),
            *pin_edits,
            applicability=Applicability.RISKY,
            risk="the loop gets batches on the device: code that reads them on the host may fail",
            location=loader.location,
        )

    return propose_for_loaders(device_prefetcher, facts, option, propose)
