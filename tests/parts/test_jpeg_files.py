"""JPEG files that are decoded later: as Pillow does it on the host, and nearly so on a device."""

from __future__ import annotations

import io
import pickle
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from PIL import Image, ImageOps
from PIL.JpegImagePlugin import JpegImageFile
from torch.utils.data import DataLoader, Dataset

from gapless.parts import jpeg_files, jpeg_pixels, recycle_batches
from gapless.parts.jpeg_files import LaterPicture, decode_on_device
from gapless.parts.uint8_pictures import Uint8Picture
from tests.parts.test_uint8_pictures import Compose, Normalize, ToTensor

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

BILINEAR, BICUBIC = Image.Resampling.BILINEAR, Image.Resampling.BICUBIC
MIRROR, TURN = Image.Transpose.FLIP_LEFT_RIGHT, Image.Transpose.ROTATE_90
UPSIDE_DOWN = Image.Transpose.FLIP_TOP_BOTTOM


def jpeg(seed: int = 0, size: tuple[int, int] = (90, 60), mode: str = "RGB") -> bytes:
    coarse = np.random.default_rng(seed).integers(0, 256, (6, 9, 3), dtype=np.uint8)
    file = io.BytesIO()
    Image.fromarray(coarse).resize(size, BICUBIC).convert(mode).save(file, "JPEG", quality=92)
    return file.getvalue()


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> Callable[[bytes], Any]:
    """Open files to be decoded later, in this process."""
    monkeypatch.setattr(Image, "open", Image.open)
    jpeg_files.open_later()
    return lambda data: Image.open(io.BytesIO(data))


def plain(data: bytes) -> Any:  # noqa: ANN401
    return JpegImageFile(io.BytesIO(data)).copy()


def cut_and_scale(picture: Any) -> Any:  # noqa: ANN401
    return picture.convert("RGB").crop((10, 5, 70, 55)).resize((32, 24), BILINEAR)


PIPELINES: dict[str, Callable[[Any], Any]] = {
    "crop, resize": cut_and_scale,
    "mirrored": lambda picture: cut_and_scale(picture.convert("RGB")).transpose(MIRROR),
    "mirrored first": lambda picture: cut_and_scale(picture.transpose(MIRROR)),
    "upside down": lambda picture: cut_and_scale(picture.transpose(UPSIDE_DOWN)).crop(
        (3, 4, 20, 24)
    ),
    "resize, crop": lambda picture: picture.resize((45, 30), BICUBIC).crop((4, 4, 36, 28)),
    "larger": lambda picture: picture.crop((20, 20, 40, 30)).resize((80, 60)),
    "resize, mirror, crop": lambda picture: (
        picture.resize((45, 30), BILINEAR).transpose(MIRROR).crop((1, 2, 31, 22))
    ),
    "as it is": lambda picture: picture.resize((90, 60), BILINEAR).convert("RGB"),
}


@pytest.mark.parametrize("name", PIPELINES)
def test_pictures_are_those_of_pillow_and_nearly_so_when_a_device_scales_them(
    name: str, later: Callable[[bytes], Any]
) -> None:
    data = jpeg()
    with Image.open(io.BytesIO(data)) as opened:
        assert isinstance(opened, LaterPicture)
    picture = PIPELINES[name](later(data))
    assert isinstance(picture, LaterPicture)
    expected = np.asarray(PIPELINES[name](plain(data)))
    pixels = picture.pixels_later()
    assert pixels is not None
    assert pixels.shape == expected.shape
    np.testing.assert_array_equal(pixels.to("cpu").numpy(), expected)
    decoded = [torch.from_numpy(np.array(plain(data))).permute(2, 0, 1)]
    scaled = jpeg_pixels.scale_pictures(decoded, pixels.plans, pixels.method)[0]
    assert int((scaled.int() - torch.from_numpy(expected.astype(np.int32))).abs().max()) <= 1
    np.testing.assert_array_equal(np.asarray(picture), expected)
    assert picture.pixels_later() is None, "it is decoded now"


OTHERS: dict[str, Callable[[Any], Any]] = {
    "turned": lambda picture: picture.transpose(TURN),
    "grey": lambda picture: picture.convert("L"),
    "beyond its edge": lambda picture: picture.crop((-5, 0, 40, 40)),
    "twice": lambda picture: picture.resize((50, 40), BILINEAR).resize((20, 20), BILINEAR),
    "two ways": lambda picture: picture.resize((50, 60), BILINEAR).resize((50, 20), BICUBIC),
    "nearest": lambda picture: picture.resize((20, 20), Image.Resampling.NEAREST),
    "of a box": lambda picture: picture.resize((20, 20), BILINEAR, (3, 3, 40, 40)),
    "solarized": ImageOps.solarize,
    "pickled": lambda picture: pickle.loads(pickle.dumps(picture)),  # noqa: S301
    "copied": lambda picture: picture.copy(),
}


@pytest.mark.parametrize("name", OTHERS)
def test_whatever_else_is_asked_is_done_by_pillow(name: str, later: Callable[[bytes], Any]) -> None:
    data = jpeg()
    expected = OTHERS[name](plain(data))
    picture = OTHERS[name](later(data))
    assert picture.size == expected.size
    np.testing.assert_array_equal(np.asarray(picture), np.asarray(expected))
    thumbnail = later(data)
    thumbnail.thumbnail((30, 30))
    assert max(thumbnail.size) == 30


def test_other_files_are_opened_as_ever(later: Callable[[bytes], Any]) -> None:
    assert type(later(jpeg(mode="L"))).__name__ == "JpegImageFile"
    assert type(later(jpeg()[:-100])).__name__ == "JpegImageFile", "it is cut off"
    file = io.BytesIO()
    Image.new("RGB", (4, 4)).save(file, "PNG")
    assert type(later(file.getvalue())).__name__ == "PngImageFile"


class Folder(Dataset[Any]):
    def __init__(self, folder: Path) -> None:
        self.paths = [folder / f"{number}.jpg" for number in range(4)]
        for number, path in enumerate(self.paths):
            path.write_bytes(jpeg(number, (60 + number * 10, 50)))
        self.transform = Compose([self.crop_at_random, ToTensor(), Normalize()])

    @staticmethod
    def crop_at_random(picture: Any) -> Any:  # noqa: ANN401
        left = int(torch.randint(0, 20, ()))
        picture = picture.crop((left, 3, left + 32, 47)).resize((24, 24), BILINEAR)
        return picture.transpose(MIRROR) if torch.rand(()) < 0.5 else picture

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> Any:  # noqa: ANN401
        with self.paths[index].open("rb") as file:
            return self.transform(Image.open(file).convert("RGB")), index


def first_batch(loader: DataLoader[Any]) -> Any:  # noqa: ANN401
    torch.manual_seed(3)
    (pictures, _), *_ = list(loader)
    return pictures


@pytest.mark.parametrize("recycles", [False, True])
def test_workers_send_files_which_are_the_same_pictures_on_the_host(
    tmp_path: Path, *, recycles: bool
) -> None:
    expected = first_batch(DataLoader(Folder(tmp_path), 4, num_workers=1))
    loader = decode_on_device(decode_on_device(DataLoader(Folder(tmp_path), 4, num_workers=1)))
    batch = first_batch(recycle_batches(loader) if recycles else loader)
    assert type(batch) is Uint8Picture
    assert isinstance(batch.pixels, jpeg_pixels.JpegPixels)
    assert batch.shape == expected.shape
    assert sum(batch.pixels.sizes) == sum(path.stat().st_size for path in tmp_path.iterdir())
    assert torch.equal(batch + 0, expected)


def test_how_far_pixels_are_from_pillows_is_said_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def decode_brighter(files: list[Any], _device: Any) -> list[Any]:  # noqa: ANN401
        pictures = [Image.open(io.BytesIO(file.numpy().tobytes())) for file in files]
        arrays = [np.array(picture).clip(0, 250) + 2 for picture in pictures]
        return [torch.from_numpy(array).permute(2, 0, 1) for array in arrays]

    reports: list[tuple[int, float]] = []
    monkeypatch.setattr(jpeg_pixels, "decode_files", decode_brighter)

    def report(most: int, mean: float) -> None:
        reports.append((most, mean))

    monkeypatch.setattr(jpeg_pixels, "on_first_batch", [report])
    axis = jpeg_pixels.Axis(0, 60, 60, 0, 60)
    data, plan = jpeg(), (axis, jpeg_pixels.Axis(0, 90, 90, 0, 90))
    tensor = torch.frombuffer(bytearray(data), dtype=torch.uint8)
    one = jpeg_pixels.JpegPixels(tensor, [len(data)], [plan], "bilinear", is_batch=False)
    batch = jpeg_pixels.JpegPixels.stack([one, one])
    for _ in range(2):
        pixels, _ = batch._decode_on_device(torch.device("cpu"))  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
        assert pixels.shape == (2, 60, 90, 3)
    ((most, mean),) = reports
    assert 2 <= most <= 5
    assert 0 < mean <= 2


@pytest.mark.parametrize(("side", "is_reduced"), [(10, True), (40, False)])
def test_files_are_decoded_at_a_fraction_where_they_become_smaller_anyway(
    monkeypatch: pytest.MonkeyPatch, side: int, *, is_reduced: bool
) -> None:
    def resize(picture: Any) -> Any:  # noqa: ANN401
        return picture.crop((5, 5, 65, 55)).resize((side, side), BILINEAR).transpose(MIRROR)

    def report(most: int, mean: float) -> None:
        reports.append((most, mean))

    reports: list[tuple[int, float]] = []
    monkeypatch.setattr(Image, "open", Image.open)
    monkeypatch.setattr(jpeg_pixels, "on_first_reduced", [report])
    jpeg_files.open_later(reduces=True)
    data = jpeg()
    for _ in range(2):
        picture = resize(Image.open(io.BytesIO(data)))
        assert picture.pixels_later() is None, "it is decoded here"
        difference = np.asarray(picture).astype(int) - np.asarray(resize(plain(data)))
        assert np.abs(difference).mean() < 4
        assert is_reduced == (np.abs(difference).max() > 0)
        assert [most for most, _ in reports] == [np.abs(difference).max()] * is_reduced
