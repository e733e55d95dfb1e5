"""Decode the JPEG files of a data set by another library. It needs Pillow and NumPy, too."""

from __future__ import annotations

import functools
import importlib
import io
from typing import Any, Callable, NamedTuple

import numpy as np
import torch
from PIL import Image
from PIL.JpegImagePlugin import JpegImageFile

_MAX_MEAN = 2.0  # of 255: a first picture that is further off Pillow's, and Pillow decodes again
_ENDING = b"\xff\xd9"  # of a JPEG file that is whole
_PADDING = 64  # bytes of zero that may follow it

# Called once, with how far the first picture is off (the most of 255, and on average) and whether
# that is too far.
on_first_decoded: list[Callable[[int, float, bool], None]] = []


def decode_with(loader: Any, library: str = "simplejpeg") -> Any:
    """Let the JPEG files of a ``DataLoader`` be decoded by another library; return the loader.

    ``loader = decode_with(DataLoader(…, num_workers=8), "simplejpeg")``: in its workers, what
    ``PIL.Image.open`` gives is decoded by ``"simplejpeg"``, ``"turbojpeg"``, ``"opencv"`` or
    ``"torchvision"``, and is a picture of Pillow's as ever. Files that are no JPEG, are not RGB or
    are cut off, and those that the library cannot decode, are left to Pillow. Pixels may differ a
    little; where those of a worker's first picture differ by more than 2 of 255 on average, Pillow
    goes on decoding. Raises ``ImportError`` where the library is not installed.
    """
    find_library(library)
    if loader.num_workers and not isinstance(loader.worker_init_fn, InitLibrary):
        loader.worker_init_fn = InitLibrary(loader.worker_init_fn, library)
    return loader


class InitLibrary:
    """A ``worker_init_fn`` after which a library decodes the files that are opened."""

    def __init__(self, worker_init_fn: Callable[[int], None] | None, library: str) -> None:
        self.worker_init_fn, self.library = worker_init_fn, library

    def __call__(self, worker: int) -> None:
        """Begin a worker."""
        if self.worker_init_fn is not None:
            self.worker_init_fn(worker)
        open_with(self.library)


class JpegLibrary(NamedTuple):
    """How a library decodes the bytes of a file to rows, columns and RGB, and how it fails."""

    decode: Callable[[bytes], Any]
    errors: tuple[type[BaseException], ...]


def find_library(name: str) -> JpegLibrary:
    """Return a library by its name. Raises ``ImportError`` if it cannot be used here."""
    if name not in _LIBRARIES:
        raise ImportError(f"{name!r} is none of {', '.join(_LIBRARIES)}")
    return _LIBRARIES[name]()


def open_with(name: str) -> None:
    """Let a library decode what ``PIL.Image.open`` gives, in this process."""
    original = Image.open
    if getattr(original, "decodes", False):
        return
    library = _CheckedLibrary(find_library(name))

    @functools.wraps(original)
    def open_picture(*args: Any, **kwargs: Any) -> Any:
        picture = original(*args, **kwargs)
        if type(picture) is JpegImageFile and picture.mode == "RGB" and library.is_like_pillow:
            picture.__class__ = LibraryJpegFile
            vars(picture).update(library=library, size_of_file=picture.size)
        return picture

    vars(open_picture)["decodes"] = True
    Image.open = open_picture


class LibraryJpegFile(JpegImageFile):
    """A file that is opened, and decoded by a library when its pixels are asked for."""

    def load(self) -> Any:
        """Decode it; what the library is not to decode, or cannot, is decoded as ever."""
        library, size = (vars(self).pop(name, None) for name in ("library", "size_of_file"))
        is_as_opened = self.tile and self.mode == "RGB" and self.size == size
        pixels = library.decode_file(self) if library is not None and is_as_opened else None
        if pixels is not None:
            self.im = Image.fromarray(pixels).im
            self.tile = []
            if getattr(self, "_exclusive_fp", False) and self.fp is not None:
                self.fp.close()
            self.fp = None
        return super().load()

    def __reduce__(self) -> Any:
        """Pickle it decoded."""
        return _keep_picture, (self.copy(),)


def _keep_picture(picture: Any) -> Any:
    return picture


class _CheckedLibrary:
    """A library, whose first picture of this process is compared with Pillow's."""

    def __init__(self, library: JpegLibrary) -> None:
        self.library = library
        self.is_compared, self.is_like_pillow = False, True

    def decode_file(self, picture: Any) -> Any:
        """Return the pixels of an opened file; None: Pillow is to decode it."""
        position = picture.fp.tell()
        picture.fp.seek(0)
        data = picture.fp.read()
        picture.fp.seek(position)
        if not data[-_PADDING:].rstrip(b"\0").endswith(_ENDING):
            return None
        try:
            pixels = self.library.decode(data)
        except self.library.errors:
            return None
        if pixels is None or pixels.shape != (*picture.size[::-1], 3):
            return None
        if not self.is_compared:
            self._compare(data, pixels)
        return pixels if self.is_like_pillow else None

    def _compare(self, data: bytes, pixels: Any) -> None:
        """Compare a picture with Pillow's, once."""
        expected = np.asarray(JpegImageFile(io.BytesIO(data)))
        difference = np.abs(pixels.astype(np.int16) - expected)
        largest, mean = int(difference.max()), float(difference.mean())
        self.is_compared, self.is_like_pillow = True, mean <= _MAX_MEAN
        if on_first_decoded:
            on_first_decoded.pop()(largest, mean, not self.is_like_pillow)


# ── Libraries ───────────────────────────────────────────────────────────────────────────────────


def _find_simplejpeg() -> JpegLibrary:
    module = importlib.import_module("simplejpeg")

    def decode(data: bytes) -> Any:
        return module.decode_jpeg(data, "RGB")

    return JpegLibrary(decode, (ValueError, RuntimeError))


def _find_turbojpeg() -> JpegLibrary:
    module = importlib.import_module("turbojpeg")
    try:
        turbo, rgb = module.TurboJPEG(), module.TJPF_RGB
    except (RuntimeError, OSError) as error:
        raise ImportError(f"turbojpeg finds no libjpeg-turbo: {error}") from error

    def decode(data: bytes) -> Any:
        return turbo.decode(data, pixel_format=rgb)

    return JpegLibrary(decode, (ValueError, RuntimeError, OSError))


def _find_opencv() -> JpegLibrary:
    cv2 = importlib.import_module("cv2")
    flags = cv2.IMREAD_COLOR | cv2.IMREAD_IGNORE_ORIENTATION  # Pillow does not turn it, either

    def decode(data: bytes) -> Any:
        pixels = cv2.imdecode(np.frombuffer(data, np.uint8), flags)
        return None if pixels is None else cv2.cvtColor(pixels, cv2.COLOR_BGR2RGB)

    return JpegLibrary(decode, (ValueError, cv2.error))


def _find_torchvision() -> JpegLibrary:
    try:
        image = importlib.import_module("torchvision.io")
        decode_jpeg, mode = image.decode_jpeg, image.ImageReadMode.RGB
    except (RuntimeError, OSError, AttributeError) as error:
        raise ImportError(f"torchvision cannot decode here: {error}") from error

    def decode(data: bytes) -> Any:
        picture = decode_jpeg(torch.frombuffer(bytearray(data), dtype=torch.uint8), mode=mode)
        return picture.permute(1, 2, 0).contiguous().numpy()

    return JpegLibrary(decode, (ValueError, RuntimeError))


_LIBRARIES: dict[str, Callable[[], JpegLibrary]] = {
    "simplejpeg": _find_simplejpeg,
    "turbojpeg": _find_turbojpeg,
    "opencv": _find_opencv,
    "torchvision": _find_torchvision,
}
