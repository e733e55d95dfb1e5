"""Other decoders for the JPEG files of a data set, as far as they are installed here."""

from __future__ import annotations

import base64
import functools
import importlib
import io
import sys
from typing import Any, Callable, NamedTuple

Decode = Callable[[bytes], Any]
_DALI_BATCH = 32  # files
PRESENT = "as now, alone"  # the present decoder, on the same bytes, apart from its data set


class Decoder(NamedTuple):
    """A way to decode a JPEG file from memory, to what the data set has now."""

    name: str
    decode: Decode
    scale: int = 1  # the picture is so many times smaller
    decode_batch: Callable[[list[bytes]], Any] | None = None  # of a library that takes many


def find_decoders(library: str, shrink: int) -> tuple[list[Decoder], dict[str, str]]:
    """Return the present decoder, the others; and why some are not there, by name.

    ``shrink``: the data set makes every picture at least so many times smaller anyway.
    """
    decoders, absent = [Decoder(PRESENT, _present(library))], {}
    for name, find in _FINDERS:
        alternatives, why = _try(find, library, shrink)
        decoders += alternatives
        if why is not None:
            absent[name] = why
    return decoders, absent


def _try(find: Any, library: str, shrink: int) -> tuple[list[Decoder], str | None]:
    """Return the ways of a library that decode a picture here, or why there are none."""
    try:
        alternatives = list(find(library, shrink))
        for alternative in alternatives:
            alternative.decode(_TINY_JPEG)
    except ImportError:
        return [], "not installed"
    except Exception as error:
        sentence = " ".join(str(error).split()).partition(". ")[0]
        return [], f"{type(error).__name__}: {sentence[:100]}"
    return alternatives, None


def to_pixels(image: Any) -> Any:
    """Return a decoded picture as a tensor of height, width and three colours, in bytes."""
    import torch

    if isinstance(image, torch.Tensor):
        return image.cpu().permute(1, 2, 0)
    if hasattr(image, "getbands"):  # Pillow's
        flat = torch.frombuffer(bytearray(image.tobytes()), dtype=torch.uint8)
        return flat.view(image.height, image.width, -1)
    return torch.from_numpy(image)


def shrink(image: Any, seen: Any) -> Any:
    """Return a picture of Pillow's at the size that the data set makes it, by the same filter."""
    return image.resize(seen.after, seen.resample)


def _present(library: str) -> Decode:
    if library == "OpenCV":
        return functools.partial(_decode_opencv, None, 0)
    if library == "torchvision":
        return functools.partial(_decode_torchvision, None)
    return _decode_pillow


def _into(library: str) -> Any:
    """Return what makes the present kind of picture of an array of colours."""
    if library == "torchvision":
        torch = sys.modules["torch"]
        return lambda array: torch.from_numpy(array).permute(2, 0, 1)
    if library == "OpenCV":
        cv2 = importlib.import_module("cv2")
        return lambda array: cv2.cvtColor(array, cv2.COLOR_RGB2BGR)
    return importlib.import_module("PIL.Image").fromarray


def _decode_pillow(data: bytes) -> Any:
    image = importlib.import_module("PIL.Image").open(io.BytesIO(data))
    return image.convert("RGB")


def pillow_decoder() -> Decode:
    """Return Pillow's way. Raises ``ImportError`` where that is not installed."""
    importlib.import_module("PIL.Image")
    return _decode_pillow


def _find_pillow(library: str, shrink: int) -> Any:
    Image = importlib.import_module("PIL.Image")  # noqa: N806 - Pillow's name
    if library != "Pillow":
        into = _array_of(library)
        yield Decoder("Pillow", lambda data: into(_decode_pillow(data)))

    def decode_draft(data: bytes) -> Any:
        image = Image.open(io.BytesIO(data))
        width, height = image.size
        image.draft("RGB", (-(-width // shrink), -(-height // shrink)))
        return image.convert("RGB")

    if library == "Pillow" and shrink > 1:
        yield Decoder(f"Pillow, draft 1/{shrink}", decode_draft, shrink)


def _array_of(library: str) -> Any:
    numpy = importlib.import_module("numpy")
    into = _into(library)
    return lambda image: into(numpy.asarray(image))


def _find_simplejpeg(library: str, shrink: int) -> Any:
    simplejpeg = importlib.import_module("simplejpeg")
    into = _into(library)
    yield Decoder("simplejpeg", lambda data: into(simplejpeg.decode_jpeg(data, "RGB")))
    fast = {"fastdct": True, "fastupsample": True}
    yield Decoder(
        "simplejpeg, fast DCT", lambda data: into(simplejpeg.decode_jpeg(data, "RGB", **fast))
    )
    if shrink > 1:

        def decode_smaller(data: bytes) -> Any:
            height, width, *_ = simplejpeg.decode_jpeg_header(data)
            array = simplejpeg.decode_jpeg(
                data, "RGB", min_height=height // shrink, min_width=width // shrink
            )
            return into(array)

        yield Decoder(f"simplejpeg 1/{shrink}", decode_smaller, shrink)


def _find_turbojpeg(library: str, shrink: int) -> Any:
    module = importlib.import_module("turbojpeg")
    turbo, into, rgb = module.TurboJPEG(), _into(library), module.TJPF_RGB
    yield Decoder("PyTurboJPEG", lambda data: into(turbo.decode(data, pixel_format=rgb)))
    if shrink > 1:
        factor = (1, shrink)
        yield Decoder(
            f"PyTurboJPEG 1/{shrink}",
            lambda data: into(turbo.decode(data, pixel_format=rgb, scaling_factor=factor)),
            shrink,
        )


def _find_opencv(library: str, shrink: int) -> Any:
    cv2 = importlib.import_module("cv2")
    if library != "OpenCV":
        into = _into(library)
        flag = cv2.IMREAD_COLOR | cv2.IMREAD_IGNORE_ORIENTATION  # as Pillow and torchvision do
        yield Decoder("OpenCV", functools.partial(_decode_opencv, into, flag))
    if shrink > 1:
        flag = getattr(cv2, f"IMREAD_REDUCED_COLOR_{shrink}")
        if library != "OpenCV":
            flag |= cv2.IMREAD_IGNORE_ORIENTATION
        into = None if library == "OpenCV" else _into(library)
        yield Decoder(f"OpenCV 1/{shrink}", functools.partial(_decode_opencv, into, flag), shrink)


def _decode_opencv(into: Any, flag: Any, data: bytes) -> Any:
    """Decode to the present kind of picture; without ``into`` as it is, in OpenCV's own order."""
    cv2 = importlib.import_module("cv2")
    numpy = importlib.import_module("numpy")
    array = cv2.imdecode(numpy.frombuffer(data, numpy.uint8), flag or cv2.IMREAD_COLOR)
    return array if into is None else into(cv2.cvtColor(array, cv2.COLOR_BGR2RGB))


def _find_torchvision(library: str, _shrink: int) -> Any:
    importlib.import_module("torchvision.io")
    if library == "torchvision":
        return

    into = _into(library)

    def to_present(picture: Any) -> Any:
        return into(picture.permute(1, 2, 0).contiguous().numpy())

    yield Decoder("torchvision.io", functools.partial(_decode_torchvision, to_present))


def _decode_torchvision(into: Any, data: bytes) -> Any:
    torch = sys.modules["torch"]
    decoding = importlib.import_module("torchvision.io")
    raw = torch.frombuffer(bytearray(data), dtype=torch.uint8)
    picture = decoding.decode_jpeg(raw, mode=decoding.ImageReadMode.RGB)
    return picture if into is None else into(picture)


def _find_dali(library: str, _shrink: int) -> Any:
    dali, numpy = importlib.import_module("nvidia.dali"), importlib.import_module("numpy")
    into, fn = _into(library), importlib.import_module("nvidia.dali.fn")

    def define() -> Any:
        files = fn.external_source(name="files")
        return fn.decoders.image(files, jpeg_fancy_upsampling=True, adjust_orientation=False)

    pipeline = dali.pipeline_def(define)(
        batch_size=_DALI_BATCH,
        num_threads=1,
        device_id=None,
        exec_pipelined=False,
        exec_async=False,
    )

    def decode(files: list[bytes]) -> list[Any]:
        pictures: list[Any] = []
        for start in range(0, len(files), _DALI_BATCH):
            batch_files = files[start : start + _DALI_BATCH]
            pipeline.feed_input(
                "files", [numpy.frombuffer(file, numpy.uint8) for file in batch_files]
            )
            (decoded,) = pipeline.run()
            pictures += [into(numpy.array(picture)) for picture in decoded]
        return pictures

    yield Decoder("DALI", lambda data: decode([data])[0], decode_batch=decode)


_FINDERS: tuple[tuple[str, Any], ...] = (
    ("Pillow", _find_pillow),
    ("simplejpeg", _find_simplejpeg),
    ("PyTurboJPEG", _find_turbojpeg),
    ("OpenCV", _find_opencv),
    ("torchvision.io", _find_torchvision),
    ("DALI", _find_dali),
)

# A picture of 8 by 8 pixels: a decoder that cannot decode it cannot be used here.
_TINY_JPEG = base64.b85decode(
    "|JeWF01!$>Nk#wx0RR9200961|JwjV08lqPMm#c5MnOheRZw4e$bxuoZg};txsk~K|NsC0|NsC0|NsC0"
    "|NsC0|NsC0|NsC0|NsC0|NsC0|NsC0|Nq+nLjhG<T6k%A>w<#o|NsC0|NsC0|NsC0|NsC0|NsC0|NsC0"
    "|NsC0|NsC0|NsC0|NsC0|NsC0|NsC0|NsC0|NsBM01*fP2mlBJ0U`hb5di}c0sq7R6#xMN0000000000"
    "0000000002|HJ?k5CH%H0000000000000000095Q02KiN0RR910000000000000011OLPT6cGUc00000"
    "000000000000030+5ij#0RRFK0}%i}0Duz@|Je"
)
