"""Whether workers ask for new memory for each batch, as the kernel counts it."""

from typing import Final

from gapless.catalogue.queries.input.loaders import Loading
from gapless.model.facts import Loader

_PAGE_BYTES: Final = 4096  # what one fault brings, with pages as small as they usually are
_MIN_PAGE_SHARE: Final = 0.5  # of a batch's pages: below it, most of its memory was there already
_MIN_BATCH_BYTES: Final = 1 << 20  # below it, memory is asked for once and kept by the allocator
_TORCH_COLLATE: Final = "torch.utils.data._utils.collate."


def asks_for_memory(loading: Loading) -> bool:
    """Return whether workers get a page fault for most pages of each batch that they make.

    False where that was not observed. Raises ``NotObservedError`` without a recorded fetch.
    """
    workers, batch_bytes = loading.workers, loading.loader.batch_bytes
    if not workers.processes or workers.faults_per_sample is None or not workers.samples:
        return False
    if batch_bytes is None or batch_bytes < _MIN_BATCH_BYTES:
        return False
    faults = workers.faults_per_sample * workers.samples / max(1, workers.fetches)
    return faults * _PAGE_BYTES >= _MIN_PAGE_SHARE * batch_bytes


def is_torch_collate(loader: Loader) -> bool:
    """Return whether batches are put together by a function of torch's own."""
    return (loader.collate_name or "").startswith(_TORCH_COLLATE)
