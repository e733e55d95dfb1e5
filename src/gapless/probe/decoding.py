"""How fast one processor decodes pictures, by the libraries that are there."""

from __future__ import annotations

import io
import random
import time
from importlib import util
from typing import TYPE_CHECKING, Any

from .figures import EACH, Measurement, absent, figure, rounds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from .figures import Figure, Room

_WIDTH, _HEIGHT = 500, 375  # pixels: the size that most of ImageNet's pictures have
_QUALITY = 92
_PICTURES = 4  # drawn
_FILES = 16  # read, at most
_MOST_BYTES = 4 << 20  # of a file
_BLOCKS = (4, 20, 100, 500)  # pixels across, coarse to fine


def pillow(room: Room) -> Iterator[Figure]:
    """Processor time of one thread for ``Image.open(…).convert("RGB")`` of JPEGs in memory.

    Decodes in a second of processor time, of the JPEG files that were given (up to 16), else of
    four pictures of 500 × 375 drawn from noise of several sizes (``note``).
    """
    if util.find_spec("PIL") is None:
        yield absent("decode.pillow", "Pillow is not installed")
        return
    from PIL import Image

    pictures = _read(room.files) or _drawn()

    def decode(data: bytes) -> object:
        return Image.open(io.BytesIO(data)).convert("RGB")

    yield _rate("decode.pillow", decode, pictures, room)


def torchvision(room: Room) -> Iterator[Figure]:
    """Processor time of one thread for ``torchvision.io.decode_jpeg`` of the same JPEGs."""
    if util.find_spec("torchvision") is None:
        yield absent("decode.torchvision", "torchvision is not installed")
        return
    if not _read(room.files) and util.find_spec("PIL") is None:
        yield absent(
            "decode.torchvision", "no JPEG file was given, nor is Pillow there to make one"
        )
        return
    import torch
    from torchvision.io import ImageReadMode, decode_jpeg  # pyright: ignore[reportMissingImports]

    pictures = _read(room.files) or _drawn()
    before = torch.get_num_threads()
    torch.set_num_threads(1)

    def decode(data: bytes) -> object:
        return decode_jpeg(torch.frombuffer(bytearray(data), dtype=torch.uint8), ImageReadMode.RGB)

    yield _rate("decode.torchvision", decode, pictures, room)
    torch.set_num_threads(before)


def _rate(
    name: str, decode: Callable[[bytes], object], pictures: Sequence[bytes], room: Room
) -> Figure:
    def once() -> float:
        began = time.thread_time_ns()
        for data in pictures:
            decode(data)
        return (time.thread_time_ns() - began) / len(pictures)

    series = rounds({0: once}, room.until)[0]
    mean = sum(map(len, pictures)) / len(pictures)
    note = f"{len(pictures)} JPEGs of {mean / 1024:.0f} KiB each"
    values = [1e9 / ns for ns in series.values if ns > 0]
    return figure(name, values, series.spent_s, None, note)


def _read(files: Sequence[str]) -> list[bytes]:
    """Give the JPEGs among the files that were given."""
    found: list[bytes] = []
    for path in files:
        if path.lower().endswith((".jpg", ".jpeg")) and len(found) < _FILES:
            with open(path, "rb") as file:  # noqa: PTH123
                found.append(file.read(_MOST_BYTES))
    return found


def _drawn() -> list[bytes]:
    """Draw pictures with something at every scale, as photographs have."""
    from PIL import Image

    draw = random.Random(1)  # noqa: S311 - the same pictures each time
    pictures: list[bytes] = []
    for _ in range(_PICTURES):
        picture: Any = None
        for across in _BLOCKS:
            size = (across, across * _HEIGHT // _WIDTH)
            data = draw.getrandbits(size[0] * size[1] * 24).to_bytes(size[0] * size[1] * 3, "big")
            layer = Image.frombytes("RGB", size, data).resize((_WIDTH, _HEIGHT), 3)  # bicubic
            picture = layer if picture is None else Image.blend(picture, layer, 0.2)
        kept = io.BytesIO()
        picture.save(kept, "JPEG", quality=_QUALITY)
        pictures.append(kept.getvalue())
    return pictures


MEASUREMENTS = (
    Measurement("decode", pillow, {"decode.pillow": EACH}, 0.4, torch=False),
    Measurement("decode", torchvision, {"decode.torchvision": EACH}, 0.4),
)
