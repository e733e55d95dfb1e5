"""Let DALI decode, crop and scale the JPEG files of a batch, in workers. It needs Pillow, too."""

from __future__ import annotations

import functools
import importlib
from typing import Any, Callable

import numpy as np
import torch

from ..jpeg_files import open_later
from ..jpeg_pixels import Axis, JpegPixels, batch_decoders
from ..uint8_pictures import send_uint8

_MAX_MEAN = 2.0  # of 255: a first picture that is further off Pillow's, and Pillow decodes again
_INTERPOLATIONS = {"bilinear": "INTERP_TRIANGULAR", "bicubic": "INTERP_CUBIC"}

# Called once, with how far the first picture is off (the most of 255, and on average) and whether
# that is too far.
on_first_dali: list[Callable[[int, float, bool], None]] = []


def decode_by_dali(loader: Any) -> Any:
    """Let the JPEG files of a ``DataLoader`` be decoded by DALI, a batch at a time; return it.

    ``loader = decode_by_dali(DataLoader(…, num_workers=8))``: in its workers, ``PIL.Image.open``
    gives pictures that are not decoded. What torchvision's transforms crop, resize and flip of
    them is noted, with the random numbers that they draw as ever; the end of the data set's
    pipeline (``ToTensor``, ``Normalize``) is done where the batch is copied to, as by
    ``send_uint8``. When a worker puts a batch together, a pipeline of DALI's operators for the CPU
    does all of it at once.

    A picture of which something else is asked, and a batch that DALI cannot decode, are decoded by
    Pillow. Pixels may differ a little; where those of a worker's first picture differ by more than
    2 of 255 on average, Pillow goes on decoding. Raises ``ImportError`` without DALI.
    """
    find_dali()
    if loader.num_workers and not isinstance(loader.worker_init_fn, InitDali):
        loader.worker_init_fn = InitDali(loader.worker_init_fn)
        send_uint8(loader)
    return loader


def find_dali() -> Any:
    """Return the package. Raises ``ImportError`` if it cannot be used here."""
    return importlib.import_module("nvidia.dali")


class InitDali:
    """A ``worker_init_fn`` after which batches of files are decoded by DALI."""

    def __init__(self, worker_init_fn: Callable[[int], None] | None = None) -> None:
        self.worker_init_fn = worker_init_fn

    def __call__(self, worker: int) -> None:
        """Begin a worker."""
        if self.worker_init_fn is not None:
            self.worker_init_fn(worker)
        decode_batches()


def decode_batches() -> None:
    """Let files be opened to be decoded later, and DALI decode their batches, in this process."""
    open_later()
    batch_decoders[:] = [_BatchDecoder()]


class _BatchDecoder:
    """Pipelines of DALI's, by how pictures are scaled, each for batches up to a size."""

    def __init__(self) -> None:
        self.pipelines: dict[str, Any] = {}
        self.is_compared, self.is_like_pillow = False, True

    def __call__(self, batch: JpegPixels) -> Any:
        """Return the pixels of a batch; what DALI cannot decode, Pillow does."""
        pixels = self._run(batch) if self.is_like_pillow else None
        if pixels is not None and not self.is_compared:
            self._compare(pixels[0], batch)
        return batch.to("cpu") if pixels is None or not self.is_like_pillow else pixels

    def _run(self, batch: JpegPixels) -> Any:
        files = [file.numpy() for file in batch.files()]
        pipeline = self.pipelines.get(batch.method)
        try:
            if pipeline is None or pipeline.max_batch_size < len(files):
                pipeline = _build_pipeline(batch.method, len(files))
                self.pipelines[batch.method] = pipeline
            pipeline.feed_input("files", files)
            for name, values in zip(_PLAN_NAMES, zip(*map(_list_plan, batch.plans))):
                pipeline.feed_input(name, list(values))
            (decoded,) = pipeline.run()
            return torch.from_numpy(np.array(decoded.as_tensor()))
        except RuntimeError:  # a broken file, say: Pillow is to say so
            self.pipelines.pop(batch.method, None)
            return None

    def _compare(self, pixels: Any, batch: JpegPixels) -> None:
        """Compare a picture with Pillow's, once."""
        first = JpegPixels(batch.files()[0], batch.sizes[:1], batch.plans[:1], batch.method)
        difference = (pixels.int() - first.to("cpu")[0].int()).abs()
        largest, mean = int(difference.max()), float(difference.float().mean())
        self.is_compared, self.is_like_pillow = True, mean <= _MAX_MEAN
        if on_first_dali:
            on_first_dali.pop()(largest, mean, not self.is_like_pillow)


_PLAN_NAMES = ("start", "length", "scaled", "first", "size", "mirrored")


def _list_plan(plan: tuple[Axis, Axis]) -> list[Any]:
    """Return what is fed of a picture: of rows and columns each."""
    types = (np.int32, np.int32, np.float32, np.int32, np.int32, np.int32)
    return [np.array(values, kind) for kind, values in zip(types, zip(*plan))]


def _build_pipeline(method: str, size: int) -> Any:
    """Return a pipeline that makes pictures of files and their plans, as Pillow does it."""
    dali = find_dali()
    fn, types = (importlib.import_module(f"nvidia.dali.{name}") for name in ("fn", "types"))

    def define() -> Any:
        feed = functools.partial(fn.external_source, ndim=1)
        plan = {
            name: feed(name=name, dtype=types.FLOAT if name == "scaled" else types.INT32)
            for name in _PLAN_NAMES
        }
        pixels = fn.decoders.image_slice(
            feed(name="files", dtype=types.UINT8),
            start=plan["start"],
            shape=plan["length"],
            axes=[0, 1],
            output_type=types.RGB,
            jpeg_fancy_upsampling=True,
            adjust_orientation=False,
        )
        filtering = getattr(types, _INTERPOLATIONS[method])
        pixels = fn.resize(pixels, size=plan["scaled"], interp_type=filtering, antialias=True)
        pixels = fn.slice(pixels, start=plan["first"], shape=plan["size"], axes=[0, 1])
        mirrored = plan["mirrored"]
        return fn.flip(pixels, vertical=mirrored[0], horizontal=mirrored[1])

    pipeline = dali.pipeline_def(define)(
        batch_size=size, num_threads=1, device_id=None, exec_pipelined=False, exec_async=False
    )
    pipeline.build()
    return pipeline
