"""length-buckets: batches hold samples of similar lengths.

The loader's batch sampler is replaced before it is iterated, and put back when the edit is
reverted. It takes effect with each batch.
"""

from __future__ import annotations

import functools
from typing import Any

from .. import iterations
from ..patch import edit_counters, targets


def apply(number: int, edit: Any) -> targets.Undo:
    """Apply an edit; return what reverts it."""
    target = f"{edit['target']}: batches by length"
    edit_counters.register_edit(number, target)
    sort = functools.partial(_sort, (number, target))
    return iterations.before_iterations(number, edit, sort)


def _sort(names: tuple[int, str], loader: Any) -> targets.Undo | None:
    buckets = iterations.import_part("batching.length_buckets")
    before = loader.batch_sampler
    if type(before) is buckets.LengthBatches:
        return None
    try:
        buckets.bucket_by_length(loader)
    except ValueError as error:
        edit_counters.record_refusal(*names, str(error))
        return None
    report = functools.partial(edit_counters.record_effect, *names, "as drawn", "sorted")
    loader.batch_sampler.on_batch = report
    return functools.partial(vars(loader).update, batch_sampler=before)
