"""Whether packing a data set is a way out of its reads, and what that takes; for input rules."""

from typing import Final

from gapless.catalogue.queries.input.loaders import Loading
from gapless.report.text.numbers import size

_MINUTE_NS: Final = 60e9
_MIN_TOLD_NS: Final = 30e9  # a pass that takes less is not worth a word


def packing_advice(loading: Loading) -> str | None:
    """Return the command that packs the data set of a loader, and what packing it takes.

    ``None``: it has no indices, and cannot be packed. Disk and time are said where the run shows
    them: how large samples are in batches, and how long all of them take to be made as they were.
    """
    if loading.loader.iterable:
        return None
    costs = [phrase for phrase in (_disk_phrase(loading), _time_phrase(loading)) if phrase]
    price = f" ({'; '.join(costs)})" if costs else ""
    return (
        "gapless pack SOURCE TARGET writes its samples into few large files and prints the line "
        f"that reads them back{price}. "
    )


def _disk_phrase(loading: Loading) -> str | None:
    """Return how much the samples are; files that are packed as they are take what they take."""
    loader = loading.loader
    if not loader.length or not loader.batch_size or not loader.batch_bytes:
        return None
    n_bytes = loader.length / loader.batch_size * loader.batch_bytes
    return f"{loader.length:,} samples, in batches {size(n_bytes)}; files stay as large as they are"


def _time_phrase(loading: Loading) -> str | None:
    """Return how long one pass takes at the speed of the run, in minutes."""
    loader = loading.loader
    if not loader.length or not loader.batch_size:
        return None
    n_batches = loader.length / loader.batch_size
    pass_ns = n_batches * loading.fetch_ns / max(1, loader.num_workers)
    if pass_ns < _MIN_TOLD_NS:
        return None
    return f"reading them once takes {max(1, round(pass_ns / _MINUTE_NS))} min as they are read now"
