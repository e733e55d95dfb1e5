"""A: a residual network on a folder of JPEG files, epoch by epoch."""
# pyright: basic, reportMissingImports=false, reportCallIssue=false

import itertools
import time
from argparse import Namespace
from collections.abc import Iterable, Iterator

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, relu
from torch.utils.data import DataLoader, Dataset, default_collate

from tests.zoo.families import jpeg
from tests.zoo.job import Job, Steps

Batches = Iterator[tuple[Tensor, Tensor]]
USUAL = {
    "workers": 0,
    "prefetch": None,
    "pin": False,
    "persistent": False,
    "threads": None,  # of the training itself
    "worker_threads": None,
    "in_memory": False,  # pictures are decoded once, before
    "decodes": 1,  # how often each is decoded
    "spin_ms": 0.0,  # a slow augmentation
    "blurred": 0.0,  # radius, in the full size
    "storage_ms": 0.0,  # until storage answers
    "tail_ms": 0.0,  # what one in a hundred takes longer
    "slow_collate": False,
    "length": None,  # samples of an epoch; None: very many
    "non_blocking": False,
    "amp": False,
    "channels_last": False,
    "benchmark": False,
    "on_host": False,  # pictures become numbers before they are copied
    "left_on_cpu": False,  # the model is not moved
    "resident": False,  # pictures lie in pinned memory as numbers, and no loader is used
    "ahead": False,  # such batches are copied while the one before is trained on
}
SIZES = {
    "c": {"side": 32, "stored": 96, "count": 256, "batch": 16, "wide": 8, "depth": (1, 1, 1)},
    "g": {
        "side": 224,
        "stored": 320,
        "count": 1024,
        "batch": 64,
        "wide": 64,
        "depth": (3, 4, 6, 3),
    },
}


class Block(nn.Module):
    """A bottleneck with a way around it."""

    def __init__(self, into: int, wide: int, stride: int) -> None:
        super().__init__()
        out = 4 * wide
        self.conv1 = nn.Conv2d(into, wide, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(wide)
        self.conv2 = nn.Conv2d(wide, wide, 3, stride, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(wide)
        self.conv3 = nn.Conv2d(wide, out, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(out)
        self.around = None
        if stride != 1 or into != out:
            self.around = nn.Sequential(
                nn.Conv2d(into, out, 1, stride, bias=False), nn.BatchNorm2d(out)
            )

    def forward(self, x: Tensor) -> Tensor:
        y = relu(self.bn1(self.conv1(x)))
        y = relu(self.bn2(self.conv2(y)))
        y = self.bn3(self.conv3(y))
        return relu(y + (x if self.around is None else self.around(x)))


class ResNet(nn.Module):
    """A residual network for pictures."""

    def __init__(self, wide: int, depth: tuple[int, ...], classes: int = 100) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, wide, 7, 2, 3, bias=False),
            nn.BatchNorm2d(wide),
            nn.ReLU(),
            nn.MaxPool2d(2),
        )
        blocks: list[nn.Module] = []
        into = wide
        for stage, number in enumerate(depth):
            for at in range(number):
                out = wide * 2**stage
                blocks.append(Block(into, out, 2 if at == 0 and stage else 1))
                into = 4 * out
        self.blocks = nn.Sequential(*blocks)
        self.head = nn.Linear(into, classes)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.blocks(self.stem(x)).mean((2, 3)))


class Pictures(Dataset[tuple[Tensor, int]]):
    """JPEG files, decoded when they are asked for; or pictures in memory."""

    def __init__(self, options: Namespace) -> None:
        self.options = options
        self.paths = jpeg.folder(options.count, options.stored)
        self.decoded: list[Tensor] | None = None
        if options.in_memory:
            self.decoded = [jpeg.read(path, options.side, 0) for path in self.paths]

    def __len__(self) -> int:
        return self.options.length or 5000 * self.options.batch

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        number = index % self.options.count
        if self.decoded is not None:
            return self.decoded[number], number % 100
        picture = jpeg.read(
            self.paths[number], self.options.side, self.options.storage_ms, self.options.blurred
        )
        for _ in range(self.options.decodes - 1):
            picture = jpeg.read(self.paths[number], self.options.side, 0)
        return self.augment(picture, index), number % 100

    def augment(self, picture: Tensor, index: int) -> Tensor:
        until = time.perf_counter() + self.options.spin_ms / 1000
        if self.options.tail_ms and index % 100 == 0:
            until += self.options.tail_ms / 1000
        while time.perf_counter() < until:
            pass
        return picture.flip(1) if index % 2 else picture


def collate_by_hand(samples: list[tuple[Tensor, int]]) -> tuple[Tensor, Tensor]:
    """Put the samples of a batch together, number by number."""
    pictures = [torch.tensor(picture.flatten().tolist()) for picture, _ in samples]
    shape = samples[0][0].shape
    batch = torch.stack(pictures).view(len(samples), *shape).to(torch.uint8)
    return batch, torch.tensor([label for _, label in samples])


def set_worker_threads(_worker: int) -> None:
    """Let each worker compute with as many threads as the options say."""
    torch.set_num_threads(8)


def make(options: Namespace, device: torch.device) -> Job:
    torch.manual_seed(0)
    device = torch.device("cpu") if options.left_on_cpu else device
    model = ResNet(options.wide, tuple(options.depth)).to(device)
    if options.channels_last:
        model = model.to(memory_format=torch.channels_last)
    loader = {
        "batch_size": options.batch,
        "shuffle": True,
        "drop_last": True,
        "num_workers": options.workers,
        "pin_memory": options.pin,
        "persistent_workers": options.persistent,
        "collate_fn": collate_by_hand if options.slow_collate else default_collate,
    }
    loader = {} if options.resident else loader
    if options.prefetch is not None:
        loader["prefetch_factor"] = options.prefetch
    if options.worker_threads is not None:
        loader["worker_init_fn"] = set_worker_threads
    period = (options.length or options.batch) // options.batch
    return Job(model, Pictures(options), device, options, train, loader, period)


def prepared(pictures: Tensor) -> Tensor:
    """Return pictures as numbers from 0 to 1, channels first."""
    return pictures.permute(0, 3, 1, 2).float().div_(255)


def slices(job: Job) -> Batches:
    """Return batches out of pinned memory, again and again."""
    decoded = job.data.decoded
    numbers = torch.stack([prepared(one[None])[0] for one in decoded])
    labels = torch.arange(len(numbers)) % 100
    if job.device.type == "cuda":  # without a device nothing can be pinned
        numbers, labels = numbers.pin_memory(), labels.pin_memory()
    for at in itertools.cycle(range(0, len(numbers), job.options.batch)):
        part = slice(at, at + job.options.batch)
        yield numbers[part], labels[part]


def copied_ahead(batches: Batches, device: torch.device) -> Batches:
    """Copy each batch on a stream of its own, while the one before is trained on."""
    lane, last = torch.cuda.Stream(device), None
    for batch in batches:
        with torch.cuda.stream(lane):
            moved = [one.to(device, non_blocking=True) for one in batch]
        if last is not None:
            yield last
        torch.cuda.current_stream().wait_stream(lane)
        for one in moved:
            one.record_stream(torch.cuda.current_stream())
        last = (moved[0], moved[1])


def train(job: Job) -> Steps:
    options, device, model = job.options, job.device, job.model
    if options.threads is not None:
        torch.set_num_threads(options.threads)
    torch.backends.cudnn.benchmark = options.benchmark
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9, weight_decay=1e-4)
    batches: Iterable[tuple[Tensor, Tensor]]
    batches = slices(job) if options.resident else DataLoader(job.data, **job.loader)
    if options.ahead and device.type == "cuda":
        batches = copied_ahead(iter(batches), device)
    model.train()
    while True:
        for batch, labels in batches:
            pictures = prepared(batch) if options.on_host else batch
            images = pictures.to(device, non_blocking=options.non_blocking)
            targets = labels.to(device, non_blocking=options.non_blocking)
            images = images if options.on_host or options.resident else prepared(images)
            if not options.channels_last:
                images = images.contiguous()
            optimizer.zero_grad()
            with torch.autocast(device.type, torch.bfloat16, enabled=options.amp):
                loss = cross_entropy(model(images), targets)
            loss.backward()
            optimizer.step()
            yield
