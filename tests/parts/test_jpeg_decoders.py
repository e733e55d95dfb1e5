"""JPEG files decoded by other libraries are pictures of Pillow's, and left to it if need be."""

from __future__ import annotations

import io
import pickle
import sys
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from PIL import Image
from PIL.JpegImagePlugin import JpegImageFile
from torch.utils.data import DataLoader

from gapless.parts import jpeg_decoders
from gapless.parts.jpeg_decoders import LibraryJpegFile, decode_with
from tests.parts.test_jpeg_files import Folder, first_batch, jpeg, plain

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

OPEN = Image.open
OFF = 3  # of 255, by which the stand-ins' pixels are brighter


def decode_brighter(data: bytes, offset: int = OFF) -> Any:  # noqa: ANN401
    if b"broken" in data:
        raise ValueError("it is broken")
    pixels = np.asarray(JpegImageFile(io.BytesIO(data))).astype(np.int16)
    return (pixels + offset).clip(0, 255).astype(np.uint8)


@pytest.fixture(autouse=True)
def simplejpeg(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """Stand in for the library, and for Pillow's function, in this process."""

    def decode_jpeg(data: bytes, colorspace: str) -> Any:  # noqa: ANN401
        assert colorspace == "RGB"
        return decode_brighter(data, library.offset)

    library = SimpleNamespace(decode_jpeg=decode_jpeg, offset=1)
    monkeypatch.setitem(sys.modules, "simplejpeg", library)  # type: ignore[arg-type]
    monkeypatch.setattr(Image, "open", OPEN)
    monkeypatch.setattr(jpeg_decoders, "on_first_decoded", [])
    return library


@pytest.fixture
def opened() -> Callable[[bytes], Any]:
    jpeg_decoders.open_with("simplejpeg")
    jpeg_decoders.open_with("simplejpeg")
    return lambda data: Image.open(io.BytesIO(data))


def offset_of(picture: Any, data: bytes) -> int:  # noqa: ANN401
    difference = np.asarray(picture).astype(int) - np.asarray(plain(data))
    return int(np.abs(difference).max())


def test_pixels_are_the_librarys_and_all_else_is_pillows(opened: Callable[[bytes], Any]) -> None:
    data = jpeg()
    picture = opened(data)
    assert isinstance(picture, JpegImageFile)
    assert (picture.format, picture.size, picture.mode) == ("JPEG", (90, 60), "RGB")
    assert offset_of(picture, data) == 1
    assert picture.getpixel((3, 4)) == tuple(np.asarray(picture)[4, 3])
    assert offset_of(opened(data).convert("RGB").copy(), data) == 1
    assert offset_of(pickle.loads(pickle.dumps(opened(data))), data) == 1  # noqa: S301
    assert opened(data).resize((9, 6)).size == (9, 6)


def test_what_the_user_asks_of_pillows_decoder_is_left_to_it(
    opened: Callable[[bytes], Any],
) -> None:
    data, drafted = jpeg(), opened(jpeg())
    expected = JpegImageFile(io.BytesIO(data))
    for picture in (drafted, expected):
        picture.draft("RGB", (45, 30))
    assert drafted.size == (45, 30)
    np.testing.assert_array_equal(np.asarray(drafted), np.asarray(expected))


def test_other_files_and_those_that_it_cannot_decode_are_left_to_pillow(
    opened: Callable[[bytes], Any],
) -> None:
    for mode in ("L", "CMYK"):
        assert type(opened(jpeg(mode=mode))) is JpegImageFile
    file = io.BytesIO()
    Image.fromarray(np.zeros((4, 4), np.uint16)).save(file, "PNG")
    assert not isinstance(opened(file.getvalue()), LibraryJpegFile)
    with pytest.raises(OSError, match="truncated"):
        opened(jpeg()[:-100]).load()
    data = jpeg()
    commented = data[:2] + b"\xff\xfe\x00\x08broken" + data[2:]
    assert offset_of(opened(commented), data) == 0


def test_files_are_closed_as_pillow_closes_them(
    tmp_path: Path, opened: Callable[[bytes], Any]
) -> None:
    assert opened(jpeg()).load() is not None
    path = tmp_path / "a.jpg"
    path.write_bytes(jpeg())
    picture = Image.open(path)
    assert isinstance(picture, LibraryJpegFile)
    file = picture.fp
    assert file is not None
    picture.load()
    assert file.closed
    with path.open("rb") as held:
        Image.open(held).load()
        assert not held.closed


def test_a_first_picture_that_is_too_far_off_leaves_all_to_pillow(
    simplejpeg: SimpleNamespace,
) -> None:
    reports: list[tuple[int, float, bool]] = []
    jpeg_decoders.on_first_decoded.append(lambda *values: reports.append(values))  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
    simplejpeg.offset = OFF
    jpeg_decoders.open_with("simplejpeg")
    data = jpeg()
    assert [offset_of(Image.open(io.BytesIO(data)), data) for _ in range(2)] == [0, 0]
    ((most, mean, is_too_far),) = reports
    assert (most, is_too_far) == (OFF, True)
    assert 2 < mean <= OFF


def test_workers_alone_decode_so(tmp_path: Path) -> None:
    expected = first_batch(DataLoader(Folder(tmp_path), 4, num_workers=1))
    loader = DataLoader(Folder(tmp_path), 4, num_workers=1)
    assert decode_with(decode_with(loader)) is loader
    difference = first_batch(loader) - expected
    assert 0 < float(difference.abs().max()) < 0.05
    assert Image.open is OPEN


def test_libraries_decode_what_they_are_given_as_rgb(monkeypatch: pytest.MonkeyPatch) -> None:
    data, read_modes = jpeg(), SimpleNamespace(RGB="RGB")
    pixels = decode_brighter(data)
    torchvision, turbojpeg, cv2 = (ModuleType(name) for name in ("io", "turbojpeg", "cv2"))

    def decode_channels(file: torch.Tensor, mode: str) -> torch.Tensor:
        assert mode == "RGB"
        return torch.from_numpy(decode_brighter(file.numpy().tobytes())).permute(2, 0, 1)

    def decode_flagged(file: Any, flags: int) -> Any:  # noqa: ANN401
        assert flags == 1 | 128
        return decode_brighter(file.tobytes())[:, :, ::-1]

    def decode_spaced(file: bytes, pixel_format: int) -> Any:  # noqa: ANN401
        return decode_brighter(file, pixel_format)

    turbo = SimpleNamespace(decode=decode_spaced)
    vars(torchvision).update(decode_jpeg=decode_channels, ImageReadMode=read_modes)
    vars(turbojpeg).update(TurboJPEG=lambda: turbo, TJPF_RGB=OFF)
    vars(cv2).update(
        imdecode=decode_flagged,
        cvtColor=lambda array, _code: array[:, :, ::-1],  # pyright: ignore[reportUnknownLambdaType]
        IMREAD_COLOR=1,
        IMREAD_IGNORE_ORIENTATION=128,
        COLOR_BGR2RGB=4,
        error=RuntimeError,
    )
    for name, module in (("torchvision.io", torchvision), ("turbojpeg", turbojpeg), ("cv2", cv2)):
        monkeypatch.setitem(sys.modules, name, module)
    for name in ("torchvision", "turbojpeg", "opencv"):
        np.testing.assert_array_equal(jpeg_decoders.find_library(name).decode(data), pixels)


def test_a_library_that_is_not_there_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "simplejpeg", None)  # type: ignore[arg-type]
    with pytest.raises(ImportError):
        decode_with(DataLoader([1], num_workers=1))  # type: ignore[arg-type]
    with pytest.raises(ImportError, match="none of simplejpeg"):
        decode_with(DataLoader([1], num_workers=1), "libjpeg")  # type: ignore[arg-type]
