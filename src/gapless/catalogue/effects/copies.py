"""Effects of fixes for copies to the device, and for waits on it."""

from typing import Final

from gapless.catalogue.effects.feeding import loader_changes
from gapless.catalogue.rules.copies.explicit_synchronize import SYNC_CALLS
from gapless.model.change import Change, CopyChange, LoaderChange, Omit
from gapless.model.edit import Proposal
from gapless.model.evidence import Evidence

COPY_FIXES: Final = ("pin-memory", "non-blocking", "device-prefetcher", "no-synchronize")
_DEVICE_WAITS: Final = SYNC_CALLS[:1]  # what torch.cuda.synchronize() calls


def copy_changes(evidence: Evidence, proposal: Proposal) -> tuple[Change, ...] | None:
    """Return what a fix changes in copies or waits; ``None`` without a device: not known.

    A loader that pins has one more thread, which also takes batches off the queue.
    """
    if not evidence.on_device:
        return None
    changes = [
        change
        for change in loader_changes(evidence, proposal) or ()
        if isinstance(change, LoaderChange)
    ]
    pins_memory = any(change.pin_memory for change in changes)
    replayable = changes if len(changes) == 1 and _is_known(evidence, changes[0]) else []
    match proposal.fix:
        case "pin-memory":
            return (CopyChange(pinned=True), *replayable)
        case "non-blocking":
            return (CopyChange(pinned=pins_memory, non_blocking=True), *replayable)
        case "device-prefetcher":
            return (CopyChange(pinned=pins_memory, non_blocking=True, ahead=True), *replayable)
        case _:
            return (Omit(_DEVICE_WAITS),)


def _is_known(evidence: Evidence, change: LoaderChange) -> bool:
    """Return whether a loader feeds the training and was recorded well enough to be replayed."""
    loaders = () if evidence.facts is None else evidence.facts.loaders
    loader = next((candidate for candidate in loaders if candidate.id == change.loader), None)
    use = None if loader is None or loader.trains is False else evidence.loader_use(loader)
    return use is not None and use.workers is not None and use.workers.fetches > 0
