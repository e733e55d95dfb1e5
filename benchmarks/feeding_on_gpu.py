"""What drop-ins for the input are worth: a training on JPEG files, fed in six ways in turns.

``PYTHONPATH=src python -m benchmarks.feeding_on_gpu --out FILE`` makes 3,000 files, checks what
each way makes of the same pictures, and trains ResNet-50 (bf16, channels last) with each way in
turns: pictures a second, processor time a picture. Needs a GPU, torchvision with
nvJPEG, eight processors and four minutes. ``--cpu`` is a dry run with a small network; where
torchvision is missing, add ``benchmarks/planted/standins`` to ``PYTHONPATH`` for it.
"""

import argparse
import importlib
import os
import resource
import statistics
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from msgspec import Struct
from PIL import Image
from torch import nn
from torch.utils.data import DataLoader, RandomSampler

from benchmarks.machine import machine, write_result
from gapless.parts import recycle_batches, send_uint8
from gapless.parts.jpeg_files import decode_on_device

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
WARM_S: Final = 1.5  # of each turn, after the first batch: queues fill, allocators grow
CLASSES: Final = 20
EPOCH: Final = 10_000_000  # pictures: no turn sees its end, where workers would start again


class Way(Struct, frozen=True):
    """How batches are made: workers, and what is done to the loader."""

    name: str
    workers: int
    drop_ins: tuple[Callable[[Any], Any], ...] = ()


WAYS: Final = (
    Way("pil-8", 8),
    Way("recycled-8", 8, (recycle_batches,)),
    Way("uint8-8", 8, (send_uint8,)),
    Way("uint8-recycled-8", 8, (send_uint8, recycle_batches)),
    Way("nvjpeg-4", 4, (decode_on_device, recycle_batches)),
    Way("nvjpeg-2", 2, (decode_on_device, recycle_batches)),
)
PARITY_WAYS: Final = (WAYS[0], WAYS[1], WAYS[3], WAYS[5])


def make_picture(path: Path) -> None:
    """Write one JPEG file of shapes and grain, about 100 kB."""
    draw = np.random.default_rng(int(path.stem))
    coarse = Image.fromarray(draw.integers(0, 255, (30, 40, 3), dtype=np.uint8))
    smooth = np.asarray(coarse.resize((500, 375), Image.Resampling.BICUBIC))
    grain = draw.integers(-12, 12, smooth.shape)
    Image.fromarray((smooth + grain).clip(0, 255).astype(np.uint8)).save(path, quality=92)


def make_pictures(folder: Path, count: int) -> None:
    """Write the folder that ImageFolder expects."""
    paths = [
        folder / f"class{number % CLASSES:02d}" / f"{number:05d}.jpg" for number in range(count)
    ]
    for path in paths[:CLASSES]:
        path.parent.mkdir(parents=True, exist_ok=True)
    with ProcessPoolExecutor() as pool:
        list(pool.map(make_picture, paths, chunksize=25))


class Training:
    """A training that is fed in one way after another."""

    def __init__(self, folder: Path, batch: int, *, cpu: bool) -> None:
        self.folder, self.batch, self.is_cpu = folder, batch, cpu
        self.device = torch.device("cpu" if cpu else "cuda")
        torch.manual_seed(0)
        self.model: Any = _make_model(cpu=cpu)
        self.model.to(self.device, memory_format=torch.channels_last)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01, momentum=0.9)

    def make_loader(self, way: Way, *, shuffle: bool = True) -> Any:  # noqa: ANN401
        """Return the loader of a way, over a data set of its own."""
        library: Any = importlib.import_module("torchvision.transforms")
        datasets: Any = importlib.import_module("torchvision.datasets")
        crop = library.CenterCrop(224) if self.is_cpu else library.RandomResizedCrop(224)
        steps = [crop, library.RandomHorizontalFlip(), library.ToTensor()]
        pipeline = library.Compose([*steps, library.Normalize(MEAN, STD)])
        pictures = datasets.ImageFolder(str(self.folder), pipeline)
        sampler = RandomSampler(pictures, replacement=True, num_samples=EPOCH) if shuffle else None
        loader: Any = DataLoader(
            pictures,
            self.batch,
            sampler=sampler,
            num_workers=way.workers,
            pin_memory=not self.is_cpu,
            drop_last=True,
        )
        for drop_in in way.drop_ins:
            loader = drop_in(loader)
        return loader

    def step(self, pictures: Any, labels: Any) -> None:  # noqa: ANN401
        """Train on one batch."""
        pictures = pictures.to(self.device, non_blocking=True)
        pictures = pictures.contiguous(memory_format=torch.channels_last)
        with torch.autocast(self.device.type, torch.bfloat16):
            output = self.model(pictures)
            loss = nn.functional.cross_entropy(output, labels.to(self.device, non_blocking=True))
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)

    def synchronize(self) -> None:
        """Wait for the device."""
        if not self.is_cpu:
            torch.cuda.synchronize()

    def measure(self, way: Way, seconds: float) -> dict[str, float]:
        """Return pictures a second, and processor time a picture, of some seconds of a way."""
        loader = self.make_loader(way)
        before_s, n_pictures, n_timed, start = _processor_s(), 0, 0, None
        begun = time.perf_counter()
        for pictures, labels in loader:
            self.step(pictures, labels)
            n_pictures += self.batch
            now = time.perf_counter()
            if start is None and now - begun > WARM_S:
                self.synchronize()
                start = time.perf_counter()
            elif start is not None:
                n_timed += self.batch
                if now - start > seconds:
                    break
        self.synchronize()
        wall_s = time.perf_counter() - (start or begun)
        del loader
        processor_ms = 1e3 * (_processor_s() - before_s) / n_pictures
        return {"pictures_per_s": n_timed / wall_s, "processor_ms": processor_ms}

    def ceiling(self, seconds: float) -> float:
        """Return pictures a second of one batch that is on the device already."""
        size = (self.batch, 3, 224, 224)
        pictures, labels = torch.zeros(size), torch.zeros(self.batch, dtype=torch.long)
        pictures, labels = pictures.to(self.device), labels.to(self.device)
        for _ in range(1 if self.is_cpu else 20):
            self.step(pictures, labels)
        self.synchronize()
        start, n_steps = time.perf_counter(), 0
        while time.perf_counter() - start < seconds:
            self.step(pictures, labels)
            n_steps += 1
            if n_steps % 8 == 0:
                self.synchronize()
        self.synchronize()
        return n_steps * self.batch / (time.perf_counter() - start)

    def first_batch(self, way: Way) -> Any:  # noqa: ANN401
        """Return the floats of the first batch of a way, with two workers and the same seeds."""
        loader = self.make_loader(Way(way.name, 2, way.drop_ins), shuffle=False)
        torch.manual_seed(1)
        iterator = iter(loader)
        pictures, _ = next(iterator)
        del iterator
        return pictures.to(self.device).clone()

    def check_parity(self) -> dict[str, Any]:
        """Return how far each way's pictures are from those of plain torch and Pillow."""
        expected = self.first_batch(WAYS[0])
        std = torch.tensor(STD, device=self.device).view(-1, 1, 1)
        result: dict[str, Any] = {}
        for way in PARITY_WAYS:
            levels = ((self.first_batch(way) - expected) * std * 255).abs()
            result[way.name] = {
                "most_of_255": levels.max().item(),
                "mean_of_255": levels.mean().item(),
                "above_2_of_255": (levels > 2.5).float().mean().item(),  # noqa: PLR2004
            }
        return result


def _make_model(*, cpu: bool) -> nn.Module:
    if cpu:
        pool = (nn.AdaptiveAvgPool2d(1), nn.Flatten())
        return nn.Sequential(nn.Conv2d(3, 4, 7, 8), *pool, nn.Linear(4, CLASSES))
    models: Any = importlib.import_module("torchvision.models")
    return models.resnet50(num_classes=CLASSES)


def _processor_s() -> float:
    """Return the processor time of this process and of its workers that ended."""
    return sum(
        usage.ru_utime + usage.ru_stime
        for usage in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    )


def main() -> None:
    """Check pictures, then measure the ways in turns, there and back."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--cpu", action="store_true")
    parser.add_argument("--pictures", type=int, default=3000)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--seconds", type=float, default=5.0, help="of each turn")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    result: dict[str, Any] = {"machine": machine(), "processors": len(os.sched_getaffinity(0))}
    with tempfile.TemporaryDirectory(prefix="gapless-feeding-") as folder:
        make_pictures(Path(folder), options.pictures)
        training = Training(Path(folder), options.batch, cpu=options.cpu)
        result["parity"] = training.check_parity()
        result["resident"] = training.ceiling(options.seconds)
        turns: dict[str, list[dict[str, float]]] = {way.name: [] for way in WAYS}
        for number in range(options.rounds):
            for way in WAYS if number % 2 == 0 else WAYS[::-1]:
                turns[way.name].append(training.measure(way, options.seconds))
                print(way.name, turns[way.name][-1], flush=True)
    rates = {name: [turn["pictures_per_s"] for turn in way] for name, way in turns.items()}
    base = statistics.median(rates["pil-8"])
    result["turns"] = turns
    result["against_pil_8"] = {
        name: statistics.median(values) / base for name, values in rates.items()
    }
    print(write_result(result, options.out))


if __name__ == "__main__":
    main()
