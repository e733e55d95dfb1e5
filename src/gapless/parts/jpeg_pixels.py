"""Pictures of JPEG files that are decoded, cropped and scaled where they are copied to."""

from __future__ import annotations

import importlib
import io
from collections import deque
from typing import Any, Callable, NamedTuple

import torch

_BICUBIC_A = -0.5  # Pillow's
_SUPPORT = {"bilinear": 1.0, "bicubic": 2.0}  # source pixels to each side, at a scale of 1
_REDUCTIONS = (8, 4, 2)  # that decoders of JPEG can do
_MAX_FLOATS = 1 << 26  # of source pixels that are scaled at a time

# Called once, with how far pixels differ: the most of 255, and on average.
on_first_batch: list[Callable[[int, float], None]] = []  # decoded on a device
on_first_reduced: list[Callable[[int, float], None]] = []  # decoded at a fraction, in a worker

# What makes pixels of a batch of files where it is put together; there is one, or none.
batch_decoders: list[Callable[[JpegPixels], Any]] = []


class Axis(NamedTuple):
    """What becomes of one axis: a part of it is scaled, a part of that is taken, and mirrored."""

    start: int
    length: int
    scaled: int  # length after scaling
    first: int  # of what is taken
    size: int
    is_mirrored: bool = False

    def crop(self, start: int, count: int) -> Axis | None:
        """Take a part; None: it is not all there."""
        if start < 0 or count < 1 or start + count > self.size:
            return None
        if self.is_mirrored:
            start = self.size - start - count
        if self.scaled == self.length == self.size and not self.first:
            return Axis(self.start + start, count, count, 0, count, self.is_mirrored)
        return self._replace(first=self.first + start, size=count)

    def scale(self, count: int) -> Axis | None:
        """Scale what there is; None: it is scaled already."""
        if count == self.size:
            return self
        if self.scaled != self.length or self.first or self.size != self.scaled:
            return None
        return self._replace(scaled=count, size=count)

    def mirror(self) -> Axis:
        """Turn it round."""
        return self._replace(is_mirrored=not self.is_mirrored)


class JpegPixels:
    """Pixels of a batch of pictures, as files that are not decoded yet.

    It has what ``Uint8Picture`` asks of a tensor of bytes by picture, row, column and channel.
    ``data``: the files one after another; ``sizes``: their bytes; ``plans``: of each picture its
    rows and columns; ``method``: how they are scaled.
    """

    def __init__(
        self, data: Any, sizes: list[int], plans: list[Any], method: str, *, is_batch: bool = True
    ) -> None:
        self.data, self.sizes, self.plans, self.method = data, sizes, plans, method
        self.is_batch = is_batch  # or one picture
        self._sent: Any = None  # pixels on the device, and the event after which they are there

    @property
    def shape(self) -> tuple[int, ...]:
        """Return the shape of the pixels, when they are decoded."""
        rows, columns = self.plans[0]
        size = (rows.size, columns.size, 3)
        return (len(self.sizes), *size) if self.is_batch else size

    def size(self, dim: int) -> int:
        """Return the length of a dimension."""
        return self.shape[dim]

    def contiguous(self) -> JpegPixels:
        """Return itself."""
        return self

    def files(self) -> list[Any]:
        """Return the bytes of each file."""
        return list(self.data.split(self.sizes))

    @staticmethod
    def stack(pictures: list[JpegPixels]) -> Any:
        """Return the pictures as a batch, decoded if this process decodes batches."""
        data = torch.cat([picture.data for picture in pictures])
        sizes = [size for picture in pictures for size in picture.sizes]
        plans = [plan for picture in pictures for plan in picture.plans]
        batch = JpegPixels(data, sizes, plans, pictures[0].method)
        return batch_decoders[0](batch) if batch_decoders else batch

    def to(self, device: Any, *, non_blocking: bool = False) -> Any:
        """Return the pixels: of Pillow's on the host, of nvJPEG's on a CUDA device."""
        if torch.device(device).type != "cuda":
            return self._decode_on_host().to(device, non_blocking=non_blocking)
        pixels, event = self._sent or self._send(torch.device(device))
        stream: Any = torch.cuda.current_stream(pixels.device)
        stream.wait_event(event)
        pixels.record_stream(stream)
        return pixels.to(device)

    def pin_memory(self) -> JpegPixels:
        """Begin to decode on the current device, in the thread that pins batches."""
        self._sent = self._send(torch.device("cuda", torch.cuda.current_device()))
        return self

    def is_pinned(self) -> bool:
        """Return whether they are on their way to the device."""
        return self._sent is not None

    def is_shared(self) -> bool:
        """Return whether the files are in shared memory."""
        return self.data.is_shared()

    def _send(self, device: torch.device) -> Any:
        """Decode on a device, on a stream of its own; return pixels and when they are there."""
        if device not in _streams:
            _streams[device] = torch.cuda.Stream(device)
        stream: Any = _streams[device]
        with torch.cuda.stream(stream), torch.no_grad(), torch.autocast("cuda", enabled=False):
            pixels, pictures = self._decode_on_device(device)
            event: Any = stream.record_event()
        # nvJPEG reads and writes on a stream of its own: neither may be overwritten until then.
        _held.append((event, [self.data, *pictures]))
        while _held[0][0].query() and len(_held) > 1:
            _held.popleft()
        return pixels, event

    def _decode_on_device(self, device: torch.device) -> tuple[Any, list[Any]]:
        """Return the pixels, and what they are made of."""
        try:
            pictures = decode_files(self.files(), device)
        except _UNDECODED:
            return self._decode_on_host().to(device), []
        pixels = scale_pictures(pictures, self.plans, self.method)
        if on_first_batch:
            file = self.files()[0].numpy().tobytes()
            expected = decode_on_host(file, self.plans[0], self.method)
            _report_difference(on_first_batch.pop(), pixels[0], expected)
        return (pixels if self.is_batch else pixels[0]), pictures

    def _decode_on_host(self) -> Any:
        pictures = [
            decode_on_host(file.numpy().tobytes(), plan, self.method)
            for file, plan in zip(self.files(), self.plans)
        ]
        return torch.stack(pictures) if self.is_batch else pictures[0]


_UNDECODED = (RuntimeError, ImportError, AttributeError)  # nvJPEG cannot read a file, or is none
_streams: dict[Any, Any] = {}  # by device
_held: deque[tuple[Any, list[Any]]] = deque()  # what may be read still, and until when


def decode_files(files: list[Any], device: torch.device) -> list[Any]:
    """Return the pictures of JPEG files, decoded by nvJPEG, as bytes by channel, row and column."""
    image = importlib.import_module("torchvision.io")
    return image.decode_jpeg(files, mode=image.ImageReadMode.RGB, device=device)


def decode_on_host(file: bytes, plan: Any, method: str, reduction: int = 1) -> Any:
    """Return the pixels of one file as Pillow makes them, by row, column and channel.

    ``reduction``: decode it at this fraction of its size, which changes pixels.
    """
    numpy, image = importlib.import_module("numpy"), importlib.import_module("PIL.Image")
    opened = importlib.import_module("PIL.JpegImagePlugin").JpegImageFile(io.BytesIO(file))
    rows, columns = plan
    size, resampling = (columns.scaled, rows.scaled), getattr(image.Resampling, method.upper())
    box = (columns.start, rows.start, columns.start + columns.length, rows.start + rows.length)
    if reduction > 1:
        opened.draft(None, (opened.width // reduction, opened.height // reduction))
        picture = opened.resize(size, resampling, tuple(side / reduction for side in box))
    else:
        part = opened.crop(box)
        picture = part.resize(size, resampling) if size != part.size else part
    pixels = numpy.array(picture)
    for axis, taken in enumerate((rows, columns)):
        window: list[Any] = [slice(None)] * 3
        window[axis] = slice(taken.first, taken.first + taken.size)
        pixels = pixels[tuple(window)]
        pixels = numpy.flip(pixels, axis) if taken.is_mirrored else pixels
    return torch.from_numpy(numpy.ascontiguousarray(pixels))


def decode_reduced(file: bytes, plan: Any, method: str) -> Any:
    """Return the pixels, of a file decoded as small as it can be without being enlarged again."""
    fitting = [
        reduction
        for reduction in _REDUCTIONS
        if all(axis.length >= reduction * axis.scaled for axis in plan)
    ]
    pixels = decode_on_host(file, plan, method, fitting[0] if fitting else 1)
    if fitting and on_first_reduced:
        _report_difference(on_first_reduced.pop(), pixels, decode_on_host(file, plan, method))
    return pixels


def scale_pictures(pictures: list[Any], plans: list[Any], method: str) -> Any:
    """Return pictures cropped, scaled and mirrored as Pillow does it, by row, column, channel.

    ``pictures``: bytes by channel, row and column. Columns are scaled first, and rounded.
    """
    height = max(rows.length for rows, _ in plans)
    width = max(columns.length for _, columns in plans)
    at_a_time = max(1, _MAX_FLOATS // (3 * height * width))
    parts: list[Any] = []
    for start in range(0, len(pictures), at_a_time):
        rows_now = slice(start, start + at_a_time)
        parts.append(_scale_some(pictures[rows_now], plans[rows_now], (height, width), method))
    return torch.cat(parts) if len(parts) > 1 else parts[0]


def _scale_some(pictures: list[Any], plans: list[Any], size: tuple[int, int], method: str) -> Any:
    device = pictures[0].device
    source = torch.zeros(len(pictures), 3, *size, dtype=torch.uint8, device=device)
    for picture, (rows, columns), target in zip(pictures, plans, source):
        part = picture[
            :, rows.start : rows.start + rows.length, columns.start : columns.start + columns.length
        ]
        target[:, : rows.length, : columns.length] = part
    over_rows = make_weights([rows for rows, _ in plans], size[0], method, device)
    over_columns = make_weights([columns for _, columns in plans], size[1], method, device)
    pixels = source.float() @ over_columns.transpose(1, 2).unsqueeze(1)
    pixels = over_rows.unsqueeze(1) @ pixels.round().clamp(0, 255)
    return pixels.round_().clamp_(0, 255).to(torch.uint8).permute(0, 2, 3, 1).contiguous()


def make_weights(axes: list[Axis], length: int, method: str, device: Any) -> Any:
    """Return the weight of each source pixel in each pixel that is taken, of each picture."""
    values = [
        (axis.length, axis.scaled, axis.first, axis.size, int(axis.is_mirrored)) for axis in axes
    ]
    table = torch.tensor(values, dtype=torch.float32).to(device, non_blocking=True)
    lengths, scaled, first, count, mirrored = (column.view(-1, 1, 1) for column in table.unbind(1))
    position = torch.arange(axes[0].size, device=device).view(1, -1, 1)
    position = torch.where(mirrored > 0, count - 1 - position, position) + first
    scale = lengths / scaled
    stretch = scale.clamp(min=1.0)
    center = (position + 0.5) * scale
    source = torch.arange(length, device=device).view(1, 1, -1)
    distance = (source + 0.5 - center) / stretch
    weights = _FILTERS[method](distance.abs())
    support = _SUPPORT[method] * stretch
    is_near = (source >= (center - support + 0.5).floor()) & (
        source < (center + support + 0.5).floor()
    )
    weights = torch.where(is_near & (source < lengths), weights, 0.0)
    return weights / weights.sum(2, keepdim=True)


def _bilinear(distance: Any) -> Any:
    return (1 - distance).clamp(min=0.0)


def _bicubic(x: Any) -> Any:
    near = ((_BICUBIC_A + 2) * x - (_BICUBIC_A + 3)) * x * x + 1
    far = (((x - 5) * x + 8) * x - 4) * _BICUBIC_A
    return torch.where(x < 1, near, torch.where(x < 2, far, 0.0))  # noqa: PLR2004 - its support


_FILTERS = {"bilinear": _bilinear, "bicubic": _bicubic}


def _report_difference(report: Callable[[int, float], None], pixels: Any, expected: Any) -> None:
    """Say once how far the first picture is from what Pillow makes of it."""
    difference = (pixels.cpu().int() - expected.int()).abs()
    report(int(difference.max()), float(difference.float().mean()))
