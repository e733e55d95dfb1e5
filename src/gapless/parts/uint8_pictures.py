"""Send pictures to the device as the bytes that they are, and make floats of them there."""

from __future__ import annotations

import sys
from typing import Any

import torch

from .pipelines import count_transforms_to_floats, find_pipelines, name_transform

_MODES = {"L": 1, "RGB": 3, "RGBA": 4}  # of PIL's, and their channels
_TAKE_ONLY_TENSORS = ("ConvertImageDtype", "ToDtype")
_TAKE_TENSORS = (*_TAKE_ONLY_TENSORS, "ToImage")
_TAKES_PIL = "PILToTensor"  # and nothing else
_MAX_CHANNELS = 4
_PICTURE_DIMS = 3

# By operator: what does it to bytes and their table (function, arguments, options), or gives None.
table_rules: dict[str, Any] = {}


def send_uint8(loader: Any) -> Any:
    """Let the pictures of a ``DataLoader`` become floats on the device; return the loader.

    ``loader = send_uint8(DataLoader(…))`` replaces the end of the data set's pipeline of
    torchvision transforms (``ToTensor``, ``Normalize``, or what v2 has for them) by one that does
    it later. Where no pipeline ends so, nothing is changed.
    """
    for compose in find_pipelines(loader.dataset):
        defer_floats(compose)
    return loader


def defer_floats(compose: Any) -> bool:
    """Let a pipeline's end be done later; return whether it ends in what can be."""
    transforms = compose.transforms
    count = count_transforms_to_floats(transforms) if isinstance(transforms, list) else 0
    if count:
        transforms[-count:] = [FloatsLater(transforms[-count:])]
    return bool(count)


class FloatsLater:
    """The end of a pipeline, done only once its picture is on the device.

    ``transforms``: the transforms at the end. A picture of bytes becomes a ``Uint8Picture``; what
    else comes goes through them as ever. What becomes of a byte is found by the transforms
    themselves, once for all 256 bytes, and looked up from then on: the floats are the same ones.
    """

    def __init__(self, transforms: list[Any]) -> None:
        self.transforms = transforms
        self.tables: dict[int, Any] = {}  # by number of channels: float of each byte

    def __call__(self, *inputs: Any) -> Any:
        """Return the picture as bytes that say they are floats."""
        first = name_transform(self.transforms[0])
        pictures: list[Any] = list(inputs)
        pixels = _read_pixels(pictures[0], first) if len(pictures) == 1 else None
        table = None if pixels is None else self._table(pixels.size(-1))
        return self._apply(inputs) if table is None else Uint8Picture(pixels, table)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle without the tables: each process makes its own."""
        return type(self), (self.transforms,)

    def _apply(self, inputs: tuple[Any, ...]) -> Any:
        for transform in self.transforms:
            output = transform(*inputs)
            inputs = output if isinstance(output, tuple) else (output,)
        return inputs[0] if len(inputs) == 1 else inputs

    def _table(self, n_channels: int) -> Any:
        """Return the floats of all bytes in each channel; None: they are no floats."""
        if n_channels not in self.tables:
            teach_collate()
            floats = self._apply((self._make_ramp(n_channels),))
            is_known = isinstance(floats, torch.Tensor) and floats.dtype == torch.float32
            is_known = is_known and floats.shape == (n_channels, 1, 256)
            self.tables[n_channels] = _flatten(floats) if is_known else None
        return self.tables[n_channels]

    def _make_ramp(self, n_channels: int) -> Any:
        """Return a picture of all bytes in each channel, as the first transform takes it."""
        ramp = torch.arange(256, dtype=torch.uint8).expand(n_channels, 1, 256).contiguous()
        name = name_transform(self.transforms[0])
        if name in _TAKE_ONLY_TENSORS:
            return ramp
        pixels = ramp.permute(1, 2, 0).contiguous().numpy()
        if name != _TAKES_PIL:
            return pixels
        return sys.modules["PIL.Image"].fromarray(pixels[:, :, 0] if n_channels == 1 else pixels)


def _flatten(floats: Any) -> Any:
    return floats.as_subclass(torch.Tensor).detach().reshape(-1).clone()


def _read_pixels(picture: Any, first: str | None) -> Any:
    """Return the bytes of a picture by row, column and channel; None: it is none of bytes.

    ``first``: the transform that would get the picture, which takes only some kinds of them.
    """
    if isinstance(picture, torch.Tensor):
        return _read_tensor(picture) if first in _TAKE_TENSORS else None
    if first in _TAKE_ONLY_TENSORS:
        return None
    pixels_later = getattr(picture, "pixels_later", None)  # of a file that is not decoded yet
    pixels = None if pixels_later is None else pixels_later()
    return _read_picture(picture, first) if pixels is None else pixels


def _read_tensor(picture: Any) -> Any:
    is_picture = picture.dtype == torch.uint8 and picture.dim() == _PICTURE_DIMS
    if not is_picture or picture.size(0) > _MAX_CHANNELS:
        return None
    return picture.as_subclass(torch.Tensor).permute(1, 2, 0).clone()


def _read_picture(picture: Any, first: str | None) -> Any:
    """Return the bytes of a picture of Pillow's, or of a NumPy array."""
    numpy, mode = sys.modules.get("numpy"), getattr(picture, "mode", None)
    if numpy is None:
        return None
    is_array = type(picture) is numpy.ndarray and picture.dtype == numpy.uint8
    if is_array and first != _TAKES_PIL and picture.ndim in (2, _PICTURE_DIMS):
        n_channels = 1 if picture.ndim == 2 else picture.shape[2]  # noqa: PLR2004 - grey
    elif mode in _MODES and hasattr(picture, "tobytes"):
        n_channels = _MODES[mode]
    else:
        return None
    pixels = torch.from_numpy(numpy.array(picture, copy=True, order="C"))
    return pixels.reshape(*pixels.shape[:2], n_channels) if n_channels <= _MAX_CHANNELS else None


class Uint8Picture(torch.Tensor):
    """Pictures whose floats are made of bytes when somebody asks for them.

    It is a tensor of float32, on the host, with all that tensors have. Copied to another device
    (``to``, ``cuda``), the bytes are copied, and become floats there. Stacked, pinned or pickled it
    stays what it is. Whatever else is asked of it makes floats of it, on the host, as ever.
    """

    __torch_function__: Any = torch._C._disabled_torch_function_impl  # noqa: SLF001 - its documented use

    @staticmethod
    def __new__(cls: Any, pixels: Any, table: Any) -> Any:
        """Return pictures of these bytes by row, column and channel."""
        *batch, height, width, channels = pixels.shape
        size = (*batch, channels, height, width)
        make: Any = torch.Tensor._make_wrapper_subclass  # noqa: SLF001
        return make(cls, size, dtype=torch.float32, device="cpu")

    def __init__(self, pixels: Any, table: Any) -> None:
        self.pixels: Any = pixels
        self.table = table
        self._floats: Any = None

    def floats(self) -> Any:
        """Return the floats, on the host. From now on they are what this is."""
        if self._floats is None:
            self._floats = make_floats(self.pixels.to("cpu"), self.table)
            self.pixels = None
        return self._floats

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Do what is asked of the floats, or of the bytes where that is the same."""
        kwargs = kwargs or {}
        name = func._schema.name  # noqa: SLF001
        if name == "aten::_to_copy" and _is_elsewhere(kwargs.get("device")):
            return args[0].copy_to(kwargs)
        if name == "aten::copy_" and _is_elsewhere(args[0].device) and type(args[1]) is cls:
            return args[0].copy_(args[1].copy_to({"device": args[0].device}))
        if name == "aten::stack" and len(args) == 1 and not kwargs and _can_be_stacked(args[0]):
            return stack_pictures(args[0])
        rule = table_rules.get(name)
        result = None if rule is None else rule(func, args, kwargs)
        if result is not None:
            return result
        plain_kwargs = {key: _make_plain(value) for key, value in kwargs.items()}
        return func(*_make_plain(args), **plain_kwargs)

    def copy_to(self, options: Any) -> Any:
        """Return the floats on another device; ``options``: those of torch's own copy."""
        if self._floats is not None:
            return torch.ops.aten._to_copy(self._floats, **options)  # noqa: SLF001
        device, non_blocking = options["device"], bool(options.get("non_blocking"))
        pixels = self.pixels.to(device, non_blocking=non_blocking)
        table = self.table.to(device, non_blocking=non_blocking)
        floats = make_floats(pixels, table)
        form = options.get("memory_format") or torch.preserve_format
        return floats.to(options.get("dtype") or torch.float32, memory_format=form)

    def pin_memory(self, device: Any = None) -> Any:  # noqa: ARG002 - as a tensor's
        """Return the same pictures, their bytes in pinned memory."""
        if self._floats is not None:
            return self._floats.pin_memory()
        return Uint8Picture(self.pixels.contiguous().pin_memory(), self.table)

    def is_pinned(self, device: Any = None) -> bool:  # noqa: ARG002
        """Return whether they are in pinned memory."""
        return (self.pixels if self._floats is None else self._floats).is_pinned()

    def numpy(self, **options: Any) -> Any:
        """Return the floats as an array."""
        return self.floats().numpy(**options)

    def tolist(self) -> Any:
        """Return the floats as lists."""
        return self.floats().tolist()

    def data_ptr(self) -> int:
        """Return where the floats are."""
        return self.floats().data_ptr()

    def untyped_storage(self) -> Any:
        """Return the memory of the floats."""
        return self.floats().untyped_storage()

    def share_memory_(self) -> Any:
        """Move the floats to shared memory."""
        return self.floats().share_memory_()

    def is_shared(self) -> bool:
        """Return whether they are in shared memory."""
        return (self.pixels if self._floats is None else self._floats).is_shared()

    def __dlpack__(self, **options: Any) -> Any:
        """Hand the floats over to another library."""
        return self.floats().__dlpack__(**options)

    def __repr__(self, **options: Any) -> str:
        """Return the floats as text."""
        return self.floats().__repr__(**options)

    def __deepcopy__(self, memo: Any) -> Any:
        """Return a copy of the floats."""
        return self.floats().clone()

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        """Pickle the bytes, where they are all."""
        if self._floats is not None:
            return _identity, (self._floats,)
        return Uint8Picture, (self.pixels, self.table)


def make_floats(pixels: Any, table: Any) -> Any:
    """Return the floats of bytes by row, column and channel, as channel, row and column."""
    channels = pixels.size(-1)
    starts = torch.arange(channels, device=pixels.device) * 256
    floats = table[pixels.long() + starts]
    order = (*range(pixels.dim() - 3), pixels.dim() - 1, pixels.dim() - 3, pixels.dim() - 2)
    return floats.permute(order).clone(memory_format=torch.contiguous_format)


def stack_pictures(pictures: Any, *, collate_fn_map: Any = None) -> Any:
    """Return pictures stacked; by torch's ``default_collate``, its bytes in shared memory."""
    if not _can_be_stacked(pictures):
        pictures = [picture.floats() for picture in pictures]
        return collate_fn_map[torch.Tensor](pictures, collate_fn_map=collate_fn_map)
    pixels = [picture.pixels for picture in pictures]
    stack = getattr(pixels[0], "stack", torch.stack)  # files are not stacked as tensors are
    if collate_fn_map is None or stack is not torch.stack:
        return Uint8Picture(stack(pixels), pictures[0].table)
    stacked = collate_fn_map[torch.Tensor](pixels, collate_fn_map=collate_fn_map)
    return Uint8Picture(stacked, pictures[0].table)


def _can_be_stacked(pictures: Any) -> bool:
    first = pictures[0]
    return all(
        type(picture) is Uint8Picture
        and picture.pixels is not None
        and picture.table is first.table
        and type(picture.pixels) is type(first.pixels)
        and getattr(picture.pixels, "method", None) == getattr(first.pixels, "method", None)
        and picture.size() == first.size()
        for picture in pictures
    )


def _make_plain(value: Any) -> Any:
    """Return an argument with floats in place of pictures, also in lists."""
    if type(value) is Uint8Picture:
        return value.floats()
    return type(value)(map(_make_plain, value)) if type(value) in (list, tuple) else value


def _is_elsewhere(device: Any) -> bool:
    return device is not None and torch.device(device).type != "cpu"


def _identity(value: Any) -> Any:
    return value


def teach_collate() -> None:
    """Let torch's ``default_collate`` stack such pictures, in this process."""
    module = sys.modules.get("torch.utils.data._utils.collate")
    if module is not None:
        module.default_collate_fn_map[Uint8Picture] = stack_pictures
