"""Fixes of copies to the device, and of waiting for it."""

from typing import Final

from gapless.catalogue.effects.feeding import feeding
from gapless.catalogue.rules.explicit_synchronize import WAITS
from gapless.model.change import Change, Copied, Feed, Omit
from gapless.model.edit import Proposal
from gapless.model.seen import Seen

COPIES: Final = ("pin-memory", "non-blocking", "device-prefetcher", "no-synchronize")
_DEVICE_WAITS: Final = WAITS[:1]  # what torch.cuda.synchronize() calls


def copies(seen: Seen, proposal: Proposal) -> tuple[Change, ...] | None:
    """Give what a fix changes of copies or waits; ``None``: without a device it is not known.

    A loader that is made to pin has a thread more, which also takes batches off the queue.
    """
    if not seen.on_device:
        return None
    feeds = [one for one in feeding(seen, proposal) or () if isinstance(one, Feed)]
    pins = any(one.pin_memory for one in feeds)
    played = feeds if len(feeds) == 1 and _is_known(seen, feeds[0]) else []
    match proposal.fix:
        case "pin-memory":
            return (Copied(pinned=True), *played)
        case "non-blocking":
            return (Copied(pinned=pins, non_blocking=True), *played)
        case "device-prefetcher":
            return (Copied(pinned=pins, non_blocking=True, ahead=True), *played)
        case _:
            return (Omit(_DEVICE_WAITS),)


def _is_known(seen: Seen, feed: Feed) -> bool:
    """Tell whether a loader feeds the training, and enough was recorded of it to be replayed."""
    loaders = () if seen.facts is None else seen.facts.loaders
    found = next((one for one in loaders if one.id == feed.loader), None)
    use = None if found is None or found.trains is False else seen.use(found)
    return use is not None and use.workers is not None and use.workers.fetches > 0
