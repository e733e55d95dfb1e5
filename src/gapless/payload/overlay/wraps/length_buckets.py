"""length-buckets: batches hold samples of similar lengths.

The loader's batch sampler is replaced before it is iterated, and put back when the edit is
reverted. It takes effect with each batch.
"""

from __future__ import annotations

import functools
from typing import Any, Callable

from .. import iterations
from ..patch import edit_counters, targets


def apply(number: int, edit: Any) -> targets.Undo:
    """Apply an edit; return what reverts it."""
    target = f"{edit['target']}: batches by length"
    edit_counters.register_edit(number, target)
    undos: list[targets.Undo] = []
    make = functools.partial(_make, (number, target), undos)
    undos.append(iterations.replace_iterators(number, edit, make))
    return functools.partial(targets.undo_all, undos)


def _make(
    names: tuple[int, str], undos: list[targets.Undo], original: Any, _switch: targets.Switch
) -> Callable[[Any], Any]:
    buckets = iterations.import_part("batching.length_buckets")

    def get_iterator(loader: Any) -> Any:
        before = loader.batch_sampler
        if type(before) is not buckets.LengthBatches:
            try:
                buckets.bucket_by_length(loader)
            except ValueError as error:
                edit_counters.record_refusal(*names, str(error))
            else:
                undos.append(functools.partial(vars(loader).update, batch_sampler=before))
                report = functools.partial(
                    edit_counters.record_effect, *names, "as drawn", "sorted"
                )
                loader.batch_sampler.on_batch = report
        return original(loader)

    return get_iterator
