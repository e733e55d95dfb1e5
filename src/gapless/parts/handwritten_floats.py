"""Send pictures as bytes where a data set's own code makes floats of them: ``x.float() / 255``."""

from __future__ import annotations

import functools
from typing import Any, Callable

import torch

from .uint8_pictures import Uint8Picture, table_rules, teach_collate

_PICTURE_SIZE = 3  # dimensions: channel, row, column
_MOST_CHANNELS = 4
_FEWEST_PIXELS = 8  # to a side: less is no picture
_ARITHMETIC = ("add", "sub", "mul", "div")
TO_FLOATS = (  # arguments
    ((), {}),
    ((torch.float32,), {}),
    ((), {"dtype": torch.float32}),
)
_tables: dict[bytes, Any] = {}  # each once, so that pictures of the same can be stacked

# Called once, in each process, with the first picture that stays bytes.
on_first_by_hand: list[Callable[[], None]] = []


def send_handwritten_uint8(loader: Any) -> Any:
    """Let the pictures of a ``DataLoader`` be sent as bytes; return the loader.

    ``loader = send_handwritten_uint8(DataLoader(…, num_workers=8))``: in its workers, what
    ``float()``, ``to(torch.float32)`` or a division makes of a tensor of bytes by channel, row and
    column stays bytes. What is added, subtracted, multiplied and divided by numbers, or by one
    number for each channel, is done to the 256 values that a byte may have, and looked up on the
    device. Whatever else is asked of a picture makes floats of it, there and then.
    """
    if loader.num_workers and not isinstance(loader.worker_init_fn, InitByHand):
        loader.worker_init_fn = InitByHand(loader.worker_init_fn)
    return loader


class InitByHand:
    """A ``worker_init_fn`` after which bytes that become floats stay bytes."""

    def __init__(self, worker_init_fn: Callable[[int], None] | None) -> None:
        self.worker_init_fn = worker_init_fn

    def __call__(self, worker: int) -> None:
        """Begin a worker."""
        if self.worker_init_fn is not None:
            self.worker_init_fn(worker)
        defer_arithmetic()


def defer_arithmetic() -> Callable[[], None]:
    """Let tensors of bytes become floats later, in this process; return what reverts it."""
    teach_collate()
    kind: Any = torch.Tensor
    originals = {name: getattr(kind, name) for name in ("float", "to", "div", "__truediv__")}
    if getattr(kind.float, "is_later", False):
        return lambda: None
    for name, original in originals.items():
        setattr(kind, name, _wrap(original, is_division=name in ("div", "__truediv__")))
    table_rules.update(ARITHMETIC_RULES)

    def revert() -> None:
        for name, original in originals.items():
            setattr(kind, name, original)
        for name in ARITHMETIC_RULES:
            table_rules.pop(name, None)

    return revert


def _wrap(original: Any, *, is_division: bool) -> Any:
    @functools.wraps(original)
    def convert(tensor: Any, *args: Any, **kwargs: Any) -> Any:
        if type(tensor) is torch.Tensor and tensor.dtype == torch.uint8 and _is_picture(tensor):
            if is_division:
                return original(make_later(tensor), *args, **kwargs)
            if (args, kwargs) in TO_FLOATS:
                return make_later(tensor)
        return original(tensor, *args, **kwargs)

    vars(convert)["is_later"] = True
    return convert


def _is_picture(tensor: Any) -> bool:
    """Return whether bytes are those of a picture, by channel, row and column."""
    if tensor.dim() != _PICTURE_SIZE or tensor.device.type != "cpu":
        return False
    channels, *sides = tensor.shape
    return 1 <= channels <= _MOST_CHANNELS and min(sides) >= _FEWEST_PIXELS


def make_later(tensor: Any) -> Any:
    """Return bytes of a picture, or a batch of them, that say they are floats."""
    if on_first_by_hand:
        on_first_by_hand.pop()()
    ramp = torch.arange(256, dtype=torch.uint8).to(torch.float64).to(torch.float32)
    table = _intern(ramp.expand(tensor.size(-3), 256).reshape(-1))
    view = tensor.movedim(-3, -1)
    # Not in a worker that was forked beside CUDA: to ask there is an error.
    is_pinned = torch.cuda.is_initialized() and tensor.is_pinned()
    pixels = torch.empty(view.shape, dtype=torch.uint8, pin_memory=is_pinned)
    return Uint8Picture(pixels.copy_(view), table)


def _intern(table: Any) -> Any:
    """Return the same tensor for the same floats."""
    return _tables.setdefault(table.numpy().tobytes(), table)


def _compute(in_place: bool, func: Any, args: Any, kwargs: Any) -> Any:  # noqa: FBT001 - bound
    """Do arithmetic to the floats of all bytes; None: it is not the same for all pixels."""
    picture, *others = args
    if type(picture) is not Uint8Picture or not _has_bytes(picture) or not others:
        return None
    if not all(_is_same_for_pixels(other, picture) for other in others):
        return None
    others = [_strip_batch(other) for other in others]
    table = picture.table.clone().view(picture.size(-3), 1, 256)
    floats = func(table, *others, **kwargs)
    if floats.dtype != torch.float32 or floats.shape != table.shape:
        return None
    table = _intern(floats.reshape(-1))
    if in_place:
        picture.table = table
        return picture
    return Uint8Picture(picture.pixels, table)


def _is_same_for_pixels(value: Any, picture: Any) -> bool:
    """Return whether a value is a number, or one number for each channel."""
    if type(value) in (int, float, bool):
        return True
    if type(value) is not torch.Tensor or value.device.type != "cpu" or value.requires_grad:
        return False
    value = _strip_batch(value) if picture.dim() > _PICTURE_SIZE else value
    size = (1,) * (_PICTURE_SIZE - value.dim()) + tuple(value.shape)
    return len(size) == _PICTURE_SIZE and size[0] in (1, picture.size(-3)) and size[1:] == (1, 1)


def _strip_batch(value: Any) -> Any:
    """Return a number for each channel without the dimension of the batch."""
    is_batched = type(value) is torch.Tensor and value.dim() > _PICTURE_SIZE and value.size(0) == 1
    return value.squeeze(0) if is_batched else value


def _flip(_func: Any, args: Any, _kwargs: Any) -> Any:
    """Turn the bytes round, by row or column."""
    picture, dims = args
    axes = {dim % picture.dim() - picture.dim() for dim in dims}
    if not _has_bytes(picture) or not axes <= {-1, -2}:
        return None
    return Uint8Picture(picture.pixels.flip([axis - 1 for axis in axes]), picture.table)


def _has_bytes(picture: Any) -> bool:
    return type(picture.pixels) is torch.Tensor


ARITHMETIC_RULES: dict[str, Any] = {
    **{f"aten::{name}": functools.partial(_compute, False) for name in _ARITHMETIC},  # noqa: FBT003
    **{f"aten::{name}_": functools.partial(_compute, True) for name in _ARITHMETIC},  # noqa: FBT003
    "aten::flip": _flip,
}
