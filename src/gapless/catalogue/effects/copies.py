"""What edits of copies to the device change."""

from gapless.catalogue.declare.fix import Changes, Effect
from gapless.catalogue.effects.loaders import loader_changes
from gapless.catalogue.queries.input.pinning import copies_others, pinning_delay
from gapless.model.change import CopyChange, LoaderChange
from gapless.model.edit import Proposal
from gapless.model.evidence import Evidence


def copy_effect(*, non_blocking: bool, ahead: bool = False) -> Effect:
    """Return the effect of a fix that also pins, lets copies not block, or makes them ahead.

    It is not known without a device, nor where most of what is copied are no batches. A loader
    that pins has one more thread, which also takes batches off the queue; without workers, the
    training thread pins.
    """

    def predict_changes(evidence: Evidence, proposal: Proposal) -> Changes | None:
        if not evidence.on_device or copies_others(evidence):
            return None
        changes = [
            change
            for change in loader_changes(evidence, proposal) or ()
            if isinstance(change, LoaderChange)
        ]
        pins_memory = not non_blocking or any(change.pin_memory for change in changes)
        replayable = changes if len(changes) == 1 and _is_known(evidence, changes[0]) else []
        delays = tuple(
            delay
            for change in changes
            if change.pin_memory
            for delay in pinning_delay(evidence, evidence.facts.find_loader(change.loader))
        )
        copying = CopyChange(pins_memory, non_blocking=non_blocking, ahead=ahead)
        return (copying, *delays, *replayable)

    return predict_changes


def _is_known(evidence: Evidence, change: LoaderChange) -> bool:
    """Return whether a loader feeds the training and was recorded well enough to be replayed."""
    loader = evidence.facts.find_loader(change.loader)
    use = None if loader is None or loader.trains is False else evidence.loader_use(loader)
    return use is not None and use.workers is not None and use.workers.fetches > 0
