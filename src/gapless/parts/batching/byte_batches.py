"""Copy a batch of pictures as bytes where the loop makes floats of it: ``x.float() / 255``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from ..batches import convert
from ..handwritten_floats import ARITHMETIC_RULES, TO_FLOATS, make_later
from ..uint8_pictures import table_rules

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_BATCH_DIMS = 4  # batch, channel, row, column
_MAX_BATCH_CHANNELS = 4
_MIN_SIDE = 8  # pixels: less is no picture
_CONVERSION_ARGUMENTS = 2  # of ``to``: a device and a type


class ByteBatches:
    """Iterate over a loader's batches, of which pictures become floats on the device.

    ``for x, y in ByteBatches(loader): …`` takes the place of ``for x, y in loader: …``, where the
    loop then says ``x = x.float() / 255`` and ``x = x.to(device)``, or ``x.to(device,
    torch.float32)``. Batches stay what they are, but for contiguous tensors of bytes by batch,
    channel, row and column on the host: these come as ``ByteBatch``.
    """

    def __init__(self, loader: Iterable[Any]) -> None:
        object.__setattr__(self, "loader", loader)

    def __iter__(self) -> Iterator[Any]:
        """Begin an iteration of the loader."""
        return map(defer_batch, self.loader)

    def __len__(self) -> int:
        """Return the loader's length. Raises ``TypeError`` if it has none."""
        return len(self.loader)  # type: ignore[arg-type]

    def __getattr__(self, name: str) -> Any:
        """Return the loader's attribute."""
        if name == "loader" or name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.loader, name)

    def __setattr__(self, name: str, value: Any) -> None:
        """Set the loader's attribute."""
        setattr(self.loader, name, value)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the loader."""
        return type(self), (self.loader,)


def defer_batch(batch: Any) -> Any:
    """Return a batch whose pictures of bytes become floats later."""
    table_rules.update(ARITHMETIC_RULES)
    return convert(batch, _defer, lambda members: members)


def _defer(tensor: Any) -> Any:
    return tensor.as_subclass(ByteBatch) if is_byte_batch(tensor) else tensor


def is_byte_batch(tensor: Any) -> bool:
    """Return whether a tensor holds pictures as bytes, on the host."""
    if type(tensor) not in (torch.Tensor, ByteBatch) or tensor.dtype != torch.uint8:
        return False
    if tensor.dim() != _BATCH_DIMS or tensor.device.type != "cpu" or not tensor.is_contiguous():
        return False
    _, channels, *sides = tensor.shape
    return 1 <= channels <= _MAX_BATCH_CHANNELS and min(sides) >= _MIN_SIDE


class ByteBatch(torch.Tensor):
    """Pictures as bytes, whose floats are ``Uint8Picture``; what else is asked gives tensors."""

    __torch_function__: Any = torch._C._disabled_torch_function_impl  # noqa: SLF001 - its documented use

    def float(self, **options: Any) -> Any:
        """Return floats that are bytes until they are on the device."""
        return _plain(self).float(**options) if options or not is_byte_batch(self) else _later(self)

    def to(self, *args: Any, **options: Any) -> Any:
        """Return floats that are bytes until then; of another device, after copying the bytes."""
        if is_byte_batch(self) and (args, options) in TO_FLOATS:
            return _later(self)
        if "copy" in options or len(args) > _CONVERSION_ARGUMENTS:
            return _plain(self).to(*args, **options)
        library: Any = torch._C  # noqa: SLF001
        parse = library._nn._parse_to  # noqa: SLF001 - as ``Module.to`` reads its arguments
        device, dtype, non_blocking, _ = parse(*args, **options)
        is_copied = device is not None and device.type != "cpu"
        if not is_copied or dtype is None or "memory_format" in options:
            return _plain(self).to(*args, **options)
        return _plain(self).to(device, non_blocking=non_blocking).to(dtype)

    def div(self, *args: Any, **options: Any) -> Any:
        """Divide floats that are bytes until they are on the device."""
        return (_later(self) if is_byte_batch(self) else _plain(self)).div(*args, **options)

    def __truediv__(self, other: Any) -> Any:
        """Divide floats that are bytes until they are on the device."""
        return (_later(self) if is_byte_batch(self) else _plain(self)) / other

    def __repr__(self, **options: Any) -> str:
        """Return the bytes as text."""
        return _plain(self).__repr__(**options)

    def __deepcopy__(self, memo: Any) -> Any:
        """Return a copy of the bytes."""
        return _plain(self).clone()

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Pickle a tensor of bytes."""
        return _plain(self).__reduce_ex__(protocol)


def _plain(batch: Any) -> Any:
    return batch.as_subclass(torch.Tensor)


def _later(batch: Any) -> Any:
    return make_later(_plain(batch))
