"""Batches that DALI decodes are nearly Pillow's, and left to Pillow if need be."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch
from PIL import Image
from torch.utils.data import DataLoader

from gapless.parts import jpeg_pixels
from gapless.parts.batching import dali_batches
from gapless.parts.batching.dali_batches import decode_by_dali
from gapless.parts.jpeg_pixels import Axis, JpegPixels
from gapless.parts.uint8_pictures import Uint8Picture
from tests.parts.test_jpeg_files import Folder, first_batch, jpeg

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

OPEN = Image.open
ROWS, COLUMNS = Axis(5, 50, 30, 2, 24), Axis(10, 60, 40, 4, 32, is_mirrored=True)


@pytest.fixture(autouse=True)
def _restored(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(Image, "open", OPEN)
    yield
    jpeg_pixels.batch_decoders.clear()


def pixels_of(data: bytes, method: str = "bilinear") -> JpegPixels:
    tensor = torch.frombuffer(bytearray(data), dtype=torch.uint8)
    return JpegPixels(tensor, [len(data)], [(ROWS, COLUMNS)], method, is_batch=False)


class StandIn:
    """A pipeline whose pictures are brighter than Pillow's, and which broken files stop."""

    max_batch_size = 2

    def __init__(self, offset: int) -> None:
        self.offset, self.fed = offset, dict[str, Any]()

    @classmethod
    def builder(cls, offset: int) -> Callable[[str, int], StandIn]:
        def build(_method: str, _size: int) -> StandIn:
            return cls(offset)

        return build

    def feed_input(self, name: str, values: list[Any]) -> None:
        self.fed[name] = values

    def run(self) -> tuple[Any]:
        self.files = [file.tobytes() for file in self.fed["files"]]
        if any(b"broken" in file for file in self.files):
            raise RuntimeError("it is broken")
        return (self,)

    def as_tensor(self) -> Any:  # noqa: ANN401
        plain = [
            jpeg_pixels.decode_on_host(file, (ROWS, COLUMNS), "bilinear") for file in self.files
        ]
        return brighten(torch.stack(plain), self.offset).numpy()


def brighten(pixels: Any, offset: int) -> Any:  # noqa: ANN401
    return (pixels.int() + offset).clamp(max=255).to(torch.uint8)


@pytest.mark.parametrize(("offset", "is_kept"), [(1, True), (5, False)])
def test_pixels_are_dalis_unless_they_are_too_far_from_pillows(
    monkeypatch: pytest.MonkeyPatch, offset: int, *, is_kept: bool
) -> None:
    reports: list[tuple[int, float, bool]] = []

    def report(largest: int, mean: float, is_too_far: bool) -> None:
        reports.append((largest, mean, is_too_far))

    monkeypatch.setattr(dali_batches, "on_first_dali", [report])
    monkeypatch.setattr(dali_batches, "_build_pipeline", StandIn.builder(offset))
    dali_batches.decode_batches()
    files = [jpeg(0), jpeg(1)]
    plain = torch.stack([pixels_of(file).to("cpu") for file in files])
    for _ in range(2):
        decoded = JpegPixels.stack([pixels_of(file) for file in files])
        assert torch.equal(decoded, brighten(plain, offset if is_kept else 0))
    assert [is_too_far for _, _, is_too_far in reports] == [not is_kept]
    assert reports[0][0] == offset


def test_a_batch_that_dali_cannot_decode_is_left_to_pillow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dali_batches, "_build_pipeline", StandIn.builder(1))
    dali_batches.decode_batches()
    broken = jpeg()[:-2] + b"broken" + jpeg()[-2:]
    decoded = JpegPixels.stack([pixels_of(broken)])
    assert torch.equal(decoded[0], pixels_of(broken).to("cpu"))
    assert torch.equal(
        JpegPixels.stack([pixels_of(jpeg())])[0], brighten(pixels_of(jpeg()).to("cpu"), 1)
    )


def test_pictures_that_are_scaled_in_two_ways_are_no_batch_of_files() -> None:
    table = torch.zeros(768)
    two = [Uint8Picture(pixels_of(jpeg(), way), table) for way in ("bilinear", "bicubic")]
    assert type(torch.stack(two)) is torch.Tensor  # type: ignore[arg-type]


@pytest.mark.slow
def test_batches_of_workers_are_those_of_pillow_by_two_of_255(tmp_path: Path) -> None:
    pytest.importorskip("nvidia.dali")
    expected = first_batch(DataLoader(Folder(tmp_path), 4, num_workers=1))
    batch = first_batch(decode_by_dali(DataLoader(Folder(tmp_path), 4, num_workers=1)))
    assert type(batch) is Uint8Picture
    assert type(batch.pixels) is torch.Tensor
    level = 1 / 255 / 0.225  # as ``Normalize`` makes it
    assert (batch - expected).abs().max() <= 2.1 * level
