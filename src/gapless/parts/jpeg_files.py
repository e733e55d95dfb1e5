"""Let workers hand JPEG files over as they are, to be decoded on the GPU. It needs Pillow, too."""

from __future__ import annotations

import functools
from typing import Any, Callable

import torch
from PIL import Image

from .jpeg_pixels import Axis, JpegPixels, decode_on_host, decode_reduced
from .uint8_pictures import send_uint8

_END = b"\xff\xd9"  # of a JPEG file that is whole
_METHODS = {Image.Resampling.BILINEAR: "bilinear", Image.Resampling.BICUBIC: "bicubic"}


def decode_on_device(loader: Any) -> Any:
    """Let the JPEG files of a ``DataLoader`` be decoded on the GPU; return the loader.

    ``loader = decode_on_device(DataLoader(…, num_workers=2, pin_memory=True))``: in its workers,
    ``PIL.Image.open`` gives pictures that are not decoded. Cropping, resizing and flipping are
    noted, with the random numbers that they draw as ever; the end of the data set's pipeline of
    torchvision transforms (``ToTensor``, ``Normalize``) is done on the device, as by
    ``send_uint8``. What is decoded is the batch, by nvJPEG (``torchvision.io.decode_jpeg``), in the
    thread that pins batches, or where it is copied to the device.

    A picture of which something else is asked is decoded by Pillow, there and then. Pixels from
    nvJPEG differ a little from those of Pillow.
    """
    if loader.num_workers and not isinstance(loader.worker_init_fn, InitDecoding):
        loader.worker_init_fn = InitDecoding(loader.worker_init_fn)
        send_uint8(loader)
    return loader


def decode_at_fraction(loader: Any) -> Any:
    """Let the JPEG files of a ``DataLoader`` be decoded at a fraction of their size; return it.

    ``loader = decode_at_fraction(DataLoader(…, num_workers=8))``: in its workers,
    ``PIL.Image.open`` gives pictures that are not decoded. What is cropped and resized of one is
    noted, and when its pixels are asked for, the decoder scales it while it decodes, by 2, 4 or 8,
    as far as it is to become smaller anyway. Pixels differ a little.
    """
    if loader.num_workers and not isinstance(loader.worker_init_fn, InitDecoding):
        loader.worker_init_fn = InitDecoding(loader.worker_init_fn, reduces=True)
    return loader


class InitDecoding:
    """A ``worker_init_fn`` after which files are opened to be decoded later."""

    def __init__(
        self, worker_init_fn: Callable[[int], None] | None = None, *, reduces: bool = False
    ) -> None:
        self.worker_init_fn, self.reduces = worker_init_fn, reduces

    def __call__(self, worker: int) -> None:
        """Begin a worker."""
        if self.worker_init_fn is not None:
            self.worker_init_fn(worker)
        open_later(reduces=self.reduces)


def open_later(*, reduces: bool = False) -> None:
    """Let ``PIL.Image.open`` give pictures that are not decoded, in this process.

    ``reduces``: they are decoded here, when their pixels are asked for, at a fraction.
    """
    original = Image.open
    if getattr(original, "is_later", False):
        return

    @functools.wraps(original)
    def open_picture(*args: Any, **kwargs: Any) -> Any:
        picture = original(*args, **kwargs)
        data = _read_file(picture) if _can_be_later(picture) else None
        if data is None:
            return picture
        decode = decode_reduced if reduces else decode_on_host
        return LaterPicture((data, decode), picture.info, *_plan(picture))

    vars(open_picture)["is_later"] = True
    Image.open = open_picture


def _can_be_later(picture: Any) -> bool:
    return type(picture).__name__ == "JpegImageFile" and picture.mode == "RGB"


def _read_file(picture: Any) -> bytes | None:
    """Return the file of a picture; None: it is not whole, which Pillow is to say."""
    position = picture.fp.tell()
    picture.fp.seek(0)
    data = picture.fp.read()
    picture.fp.seek(position)
    return data if data.rstrip(b"\0")[-2:] == _END else None


def _plan(picture: Any) -> tuple[Axis, Axis]:
    width, height = picture.size
    return Axis(0, height, height, 0, height), Axis(0, width, width, 0, width)


class LaterPicture(Image.Image):
    """A picture of Pillow's that is decoded when its pixels are asked for.

    What is cropped, resized and flipped of it is another one, as far as the device can do it.
    """

    format = "JPEG"

    def __init__(
        self, source: Any, info: Any, rows: Axis, columns: Axis, method: str | None = None
    ) -> None:
        super().__init__()
        self.source = source  # the file, and what decodes it
        self.plan, self.method = (rows, columns), method
        self.info = dict(info)
        self.is_loaded = False
        self.fp = None
        self._mode, self._size = "RGB", (columns.size, rows.size)

    def pixels_later(self) -> JpegPixels | None:
        """Return its pixels as they are sent; None: they are here already."""
        file, decode = self.source
        if self.is_loaded or decode is not decode_on_host:
            return None
        data = torch.frombuffer(bytearray(file), dtype=torch.uint8)
        method = self.method or "bilinear"
        return JpegPixels(data, [len(file)], [self.plan], method, is_batch=False)

    def load(self) -> Any:
        """Decode it, as Pillow does."""
        if not self.is_loaded:
            file, decode = self.source
            pixels = decode(file, self.plan, self.method or "bilinear")
            self.im = Image.fromarray(pixels.numpy()).im
            self.is_loaded = True
        return super().load()

    def _derive(self, rows: Any, columns: Any, method: str | None = None) -> Any:
        """Return another one of the same file; None: it has to be decoded for that."""
        if self.is_loaded or rows is None or columns is None:
            return None
        return LaterPicture(self.source, self.info, rows, columns, method or self.method)

    def crop(self, box: Any = None) -> Any:
        """Return a part of it."""
        left, top, right, bottom = box or (0, 0, *self.size)
        rows, columns = self.plan
        is_whole = all(isinstance(side, int) for side in (left, top, right, bottom))
        derived = (
            self._derive(rows.crop(top, bottom - top), columns.crop(left, right - left))
            if is_whole
            else None
        )
        return super().crop(box) if derived is None else derived

    def resize(
        self, size: Any, resample: Any = None, box: Any = None, reducing_gap: Any = None
    ) -> Any:
        """Return it in another size."""
        method = _METHODS.get(Image.Resampling.BICUBIC if resample is None else resample)
        rows, columns = self.plan
        width, height = size
        derived = None
        if method and self.method in (None, method) and box is None and reducing_gap is None:
            derived = self._derive(rows.scale(height), columns.scale(width), method)
        return super().resize(size, resample, box, reducing_gap) if derived is None else derived

    def transpose(self, method: Any) -> Any:
        """Return it mirrored, or turned."""
        rows, columns = self.plan
        derived = None
        if method == Image.Transpose.FLIP_LEFT_RIGHT:
            derived = self._derive(rows, columns.mirror())
        elif method == Image.Transpose.FLIP_TOP_BOTTOM:
            derived = self._derive(rows.mirror(), columns)
        return super().transpose(method) if derived is None else derived

    def convert(self, mode: Any = None, *args: Any, **kwargs: Any) -> Any:
        """Return it in another mode."""
        is_same = mode in (None, "RGB") and not args and not kwargs
        derived = self._derive(*self.plan) if is_same else None
        return super().convert(mode, *args, **kwargs) if derived is None else derived

    def thumbnail(self, *args: Any, **kwargs: Any) -> None:
        """Make it smaller in place."""
        self.load()
        super().thumbnail(*args, **kwargs)

    def __reduce__(self) -> Any:
        """Pickle it decoded."""
        return _keep, (self.copy(),)


def _keep(picture: Any) -> Any:
    return picture
