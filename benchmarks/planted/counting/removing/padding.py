"""Cut batches as long as their rows are filled on average: as much of them is computed with."""

import os

from .notes import note

_ROWS = (0, 1)  # the dimensions that rows may be


def cut(batch, rows, filled, dimensions):
    """Return a batch with rows so long as they are filled, of a share; what has lengths, too."""
    length = _find_length(batch, rows, dimensions)
    if length is None:
        return batch
    note("removed")
    return _cut(batch, rows, length, max(1, round(filled * length)))


def _find_length(member, rows, dimensions):
    """Return the length of the first tensor of rows; ``None`` where there is none."""
    if hasattr(member, "dim"):
        if member.dim() != dimensions or rows not in member.shape[:2]:
            return None
        return member.shape[1 - member.shape[:2].index(rows)]
    items = member.values() if isinstance(member, dict) else member
    if not isinstance(member, (dict, tuple, list)):
        return None
    lengths = (_find_length(item, rows, dimensions) for item in items)
    return next((length for length in lengths if length is not None), None)


def _cut(member, rows, length, kept):
    if hasattr(member, "dim"):
        return _cut_tensor(member, rows, length, kept)
    if isinstance(member, dict):
        for name in list(member):
            member[name] = _cut(member[name], rows, length, kept)
        return member
    if isinstance(member, (tuple, list)):
        items = [_cut(item, rows, length, kept) for item in member]
        return type(member)(*items) if hasattr(member, "_fields") else type(member)(items)
    is_length = type(member) is int and kept < member <= length
    return kept if is_length else member


def _cut_tensor(tensor, rows, length, kept):
    is_lengths = tensor.dim() == 1 and tensor.shape[0] == rows and not tensor.is_floating_point()
    if is_lengths and int(tensor.max()) <= length:
        return tensor.clamp(max=kept)
    along_rows = next((axis for axis in _ROWS[: tensor.dim()] if tensor.shape[axis] == rows), None)
    for axis, size in enumerate(tensor.shape):
        if size == length and axis != along_rows:
            tensor = tensor.narrow(axis, 0, kept)
    return tensor.contiguous()


def _cut_batches(module):
    rows, filled, dimensions = os.environ["PLANTED_REMOVAL_OPTION"].split()
    iterator = module._BaseDataLoaderIter  # noqa: SLF001
    following = iterator.__next__

    def shortened(self):
        return cut(following(self), int(rows), float(filled), int(dimensions))

    iterator.__next__ = shortened


ACTS = {"torch.utils.data.dataloader": _cut_batches}
