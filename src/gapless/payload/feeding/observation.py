"""What making samples reads, decodes and shrinks: seen once, before anything is timed."""

from __future__ import annotations

import os
import sys
from typing import Any, Callable, NamedTuple

from ..hooks import files as written_files
from ..loading import reads
from ..loading.stopwatch import Stopwatch

_MAX_ENCODED_BYTES = 64 << 20  # of all pictures that are kept
_JPEG = b"\xff\xd8"
_DECODERS = (  # module, holder, name, library: their first argument holds the picture
    ("cv2", "", "imdecode", "OpenCV"),
    ("cv2", "", "imread", "OpenCV"),
    ("torchvision.io", "", "decode_jpeg", "torchvision"),
    ("torchvision.io", "", "decode_image", "torchvision"),
    ("torchvision.io", "", "read_image", "torchvision"),
    ("torchvision.io.image", "", "decode_jpeg", "torchvision"),
    ("torchvision.io.image", "", "decode_image", "torchvision"),
    ("torchvision.io.image", "", "read_image", "torchvision"),
    ("simplejpeg", "", "decode_jpeg", "simplejpeg"),
    ("PIL.Image", "", "open", "Pillow"),
)


class Shrink(NamedTuple):
    """A picture of Pillow's that was made another size: both sizes, and by which filter."""

    before: tuple[float, float]
    after: tuple[int, int]
    resample: Any


class Observation:
    """The files, the JPEG pictures and the shrinking of some samples; a context manager."""

    def __init__(self, room: int = _MAX_ENCODED_BYTES) -> None:
        self.files: list[str] = []
        self.encoded: list[bytes] = []
        self.library: str | None = None  # that decodes them
        self.shrinks: list[Shrink] = []
        self._room = room
        self._undos: list[Callable[[], None]] = []
        self._depth = 0
        self._note_open: Any = None

    def __enter__(self) -> Observation:  # noqa: PYI034 - Self came with Python 3.11
        for module, _, name, library in _DECODERS:
            owner = sys.modules.get(module)
            if owner is not None and callable(getattr(owner, name, None)):
                self._replace(owner, name, self._wrap_decoder(getattr(owner, name), library))
        image = getattr(sys.modules.get("PIL.Image"), "Image", None)
        if image is not None:
            self._replace(image, "resize", self._wrap_resize(image.resize))
        self._note_open, reads.note_open = reads.note_open, self._note_file
        watch = Stopwatch()
        reads.begin(watch)
        watch.start(0, 0)
        return self

    def __exit__(self, *_: object) -> None:
        reads.finish()
        reads.note_open = self._note_open
        while self._undos:
            self._undos.pop()()

    def _replace(self, owner: Any, name: str, replacement: Any) -> None:
        original = vars(owner)[name]
        setattr(owner, name, replacement)
        self._undos.append(lambda: setattr(owner, name, original))

    def _note_file(self, path: Any, mode: Any) -> None:
        written_files.note_open(path, mode)
        is_read = not isinstance(mode, str) or not set("wax+").intersection(mode)
        if is_read and isinstance(path, (str, bytes, os.PathLike)):
            name = os.path.abspath(os.fsdecode(path))
            if os.path.isfile(name):
                self.files.append(name)

    def _wrap_decoder(self, original: Any, library: str) -> Any:
        def decode(*args: Any, **kwargs: Any) -> Any:
            if self._depth == 0:
                self._keep(args[0] if args else next(iter(kwargs.values()), None), library)
            self._depth += 1
            try:
                return original(*args, **kwargs)
            finally:
                self._depth -= 1

        return decode

    def _keep(self, source: Any, library: str) -> None:
        try:
            data = _read_encoded(source)
        except Exception:  # a source of some kind of its own: its pictures are not kept
            return
        if data[:2] == _JPEG and len(data) <= self._room:
            self._room -= len(data)
            self.encoded.append(data)
            self.library = library

    def _wrap_resize(self, original: Any) -> Any:
        def resize(image: Any, size: Any, *args: Any, **kwargs: Any) -> Any:
            resized = original(image, size, *args, **kwargs)
            box = args[1] if len(args) > 1 else kwargs.get("box")
            before = image.size if box is None else (box[2] - box[0], box[3] - box[1])
            resample = args[0] if args else kwargs.get("resample")
            self.shrinks.append(Shrink(before, resized.size, resample))
            return resized

        return resize

    def shrink_factor(self) -> int:
        """Return by what power of two pictures may be decoded smaller, and still be shrunk."""
        if not self.shrinks:
            return 1
        rarest = min(
            min(shrink.before[0] / shrink.after[0], shrink.before[1] / shrink.after[1])
            for shrink in self.shrinks
        )
        return max(factor for factor in (1, 2, 4, 8) if factor <= max(1.0, rarest))


def _read_encoded(source: Any) -> bytes:
    """Return the bytes of what a decoder is given: a path, a file, an array, a tensor."""
    if isinstance(source, (str, os.PathLike)):
        with reads.NATIVE(source, "rb") as file:
            return file.read()
    if hasattr(source, "read"):
        position = source.tell()
        data = source.read()
        source.seek(position)
        return data
    if hasattr(source, "numpy"):
        source = source.numpy()
    return bytes(source) if isinstance(source, (bytes, bytearray)) else source.tobytes()
