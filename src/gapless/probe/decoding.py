"""How fast one processor decodes pictures, by the libraries that are there."""

from __future__ import annotations

import io
import random
import time
from importlib import util
from typing import TYPE_CHECKING, Any

from .figures import PER_SECOND, Measurement, make_absent, make_figure, run_rounds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from .figures import ProbeConditions, ProbeFigure

_WIDTH, _HEIGHT = 500, 375  # pixels: the size that most of ImageNet's pictures have
_QUALITY = 92
_PICTURES = 4  # drawn
_MAX_FILES = 16  # read, at most
_MAX_FILE_BYTES = 4 << 20  # of a file
_BLOCKS = (4, 20, 100, 500)  # pixels across, coarse to fine


def measure_pillow(conditions: ProbeConditions) -> Iterator[ProbeFigure]:
    """Processor time of one thread for ``Image.open(…).convert("RGB")`` of JPEGs in memory.

    Decodes in a second of processor time, of the JPEG files that were given (up to 16), else of
    four pictures of 500 × 375 drawn from noise of several sizes (``note``).
    """
    if util.find_spec("PIL") is None:
        yield make_absent("decode.pillow", "Pillow is not installed")
        return
    from PIL import Image

    pictures = _read_jpegs(conditions.files) or _draw_jpegs()

    def decode(data: bytes) -> object:
        return Image.open(io.BytesIO(data)).convert("RGB")

    yield _measure_rate("decode.pillow", decode, pictures, conditions)


def measure_torchvision(conditions: ProbeConditions) -> Iterator[ProbeFigure]:
    """Processor time of one thread for ``torchvision.io.decode_jpeg`` of the same JPEGs."""
    if util.find_spec("torchvision") is None:
        yield make_absent("decode.torchvision", "torchvision is not installed")
        return
    if not _read_jpegs(conditions.files) and util.find_spec("PIL") is None:
        yield make_absent(
            "decode.torchvision", "no JPEG file was given, nor is Pillow there to make one"
        )
        return
    import torch
    from torchvision.io import ImageReadMode, decode_jpeg  # pyright: ignore[reportMissingImports]

    pictures = _read_jpegs(conditions.files) or _draw_jpegs()
    before = torch.get_num_threads()
    torch.set_num_threads(1)

    def decode(data: bytes) -> object:
        return decode_jpeg(torch.frombuffer(bytearray(data), dtype=torch.uint8), ImageReadMode.RGB)

    yield _measure_rate("decode.torchvision", decode, pictures, conditions)
    torch.set_num_threads(before)


def _measure_rate(
    name: str,
    decode: Callable[[bytes], object],
    pictures: Sequence[bytes],
    conditions: ProbeConditions,
) -> ProbeFigure:
    def time_pictures() -> float:
        began = time.thread_time_ns()
        for data in pictures:
            decode(data)
        return (time.thread_time_ns() - began) / len(pictures)

    series = run_rounds({0: time_pictures}, conditions.until)[0]
    mean = sum(map(len, pictures)) / len(pictures)
    note = f"{len(pictures)} JPEGs of {mean / 1024:.0f} KiB each"
    values = [1e9 / ns for ns in series.values if ns > 0]
    return make_figure(name, values, series.spent_s, None, note)


def _read_jpegs(files: Sequence[str]) -> list[bytes]:
    """Return the JPEGs among the files that were given."""
    pictures: list[bytes] = []
    for path in files:
        if path.lower().endswith((".jpg", ".jpeg")) and len(pictures) < _MAX_FILES:
            with open(path, "rb") as file:  # noqa: PTH123
                pictures.append(file.read(_MAX_FILE_BYTES))
    return pictures


def _draw_jpegs() -> list[bytes]:
    """Draw pictures with something at every scale, as photographs have."""
    from PIL import Image

    generator = random.Random(1)  # noqa: S311 - the same pictures each time
    pictures: list[bytes] = []
    for _ in range(_PICTURES):
        picture: Any = None
        for across in _BLOCKS:
            size = (across, across * _HEIGHT // _WIDTH)
            data = generator.getrandbits(size[0] * size[1] * 24).to_bytes(
                size[0] * size[1] * 3, "big"
            )
            layer = Image.frombytes("RGB", size, data).resize((_WIDTH, _HEIGHT), 3)  # bicubic
            picture = layer if picture is None else Image.blend(picture, layer, 0.2)
        buffer = io.BytesIO()
        picture.save(buffer, "JPEG", quality=_QUALITY)
        pictures.append(buffer.getvalue())
    return pictures


MEASUREMENTS = (
    Measurement("decode", measure_pillow, {"decode.pillow": PER_SECOND}, 0.4, torch=False),
    Measurement("decode", measure_torchvision, {"decode.torchvision": PER_SECOND}, 0.4),
)
