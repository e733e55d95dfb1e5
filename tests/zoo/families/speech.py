"""F: an encoder of speech, whose recordings differ in length."""
# pyright: basic

import random
import time
from argparse import Namespace
from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset, Sampler

from tests.zoo.job import Job, Steps

USUAL = {
    "pad_to_most": False,  # every batch is as long as the longest recording of all
    "buckets": False,  # recordings of like length go together
    "workers": 0,
    "prefetch": None,
    "pin": False,
    "fetch_ms": 0.0,  # what storage takes for one
    "tail_ms": 0.0,  # what storage takes longer for one in fifty
    "empty_cache": False,
    "benchmark": False,
    "amp": False,
    "python_features": False,  # frames are normalised one by one
    "threads": None,
    "room": None,  # memory of the device, in what the longest batch needs; None: all of it
}
SIZES = {
    "c": {"most": 200, "median": 60, "wide": 64, "layers": 2, "batch": 8, "count": 512},
    "g": {"most": 3000, "median": 500, "wide": 512, "layers": 6, "batch": 16, "count": 512},
}
BANDS = 80


class Recordings(Dataset[tuple[Tensor, int]]):
    """Spectrograms of lengths that are drawn from a lognormal distribution."""

    def __init__(self, options: Namespace) -> None:
        self.options = options
        drawn = random.Random(0)
        self.lengths = [
            min(options.most, max(16, int(drawn.lognormvariate(0, 0.6) * options.median)))
            for _ in range(options.count)
        ]
        self.noise = torch.randn(options.most, BANDS)

    def __len__(self) -> int:
        return len(self.lengths)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        slow = self.options.tail_ms if index % 50 == 0 else 0.0
        if self.options.fetch_ms or slow:
            time.sleep((self.options.fetch_ms + slow) / 1000)
        frames = self.noise[: self.lengths[index]]
        if self.options.python_features:
            frames = torch.stack([(frame - frame.mean()) / frame.std() for frame in frames])
        return frames, index % 32


class InBatches(Sampler[list[int]]):
    """Batches without end, of any recordings or of such that are about as long."""

    def __init__(self, data: Recordings) -> None:
        self.data, self.options = data, data.options

    def __len__(self) -> int:
        return 1_000_000

    def __iter__(self) -> Iterator[list[int]]:
        size, drawn = self.options.batch, random.Random(1)
        order = list(range(len(self.data)))
        while True:
            drawn.shuffle(order)
            if self.options.buckets:
                order.sort(key=self.data.lengths.__getitem__)
            batches = [order[at : at + size] for at in range(0, len(order) - size + 1, size)]
            drawn.shuffle(batches)
            yield from batches


class Pad:
    """Put recordings into one tensor."""

    def __init__(self, length: int | None) -> None:
        self.length = length

    def __call__(self, samples: list[tuple[Tensor, int]]) -> tuple[Tensor, Tensor, Tensor]:
        lengths = torch.tensor([len(frames) for frames, _ in samples])
        padded = pad_sequence([frames for frames, _ in samples], batch_first=True)
        if self.length is not None:
            padded = nn.functional.pad(padded, (0, 0, 0, self.length - padded.size(1)))
        return padded, lengths, torch.tensor([label for _, label in samples])


class Encoder(nn.Module):
    """Convolutions that shorten, a transformer, the mean of its outputs."""

    def __init__(self, wide: int, layers: int) -> None:
        super().__init__()
        self.shorten = nn.Sequential(
            nn.Conv1d(BANDS, wide, 3, 2, 1), nn.GELU(), nn.Conv1d(wide, wide, 3, 2, 1), nn.GELU()
        )
        layer = nn.TransformerEncoderLayer(wide, wide // 64 or 1, 4 * wide, 0.0, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.head = nn.Linear(wide, 32)

    def forward(self, frames: Tensor, lengths: Tensor) -> Tensor:
        x = self.shorten(frames.transpose(1, 2)).transpose(1, 2)
        short = (lengths + 3) // 4
        padding = torch.arange(x.size(1), device=x.device)[None] >= short[:, None]
        x = self.layers(x, src_key_padding_mask=padding)
        x = x.masked_fill(padding[..., None], 0).sum(1) / short[:, None]
        return self.head(x)


def make(options: Namespace, device: torch.device) -> Job:
    torch.manual_seed(0)
    model = Encoder(options.wide, options.layers).to(device)
    data = Recordings(options)
    loader = {
        "batch_sampler": InBatches(data),
        "collate_fn": Pad(options.most if options.pad_to_most else None),
        "num_workers": options.workers,
        "pin_memory": options.pin,
    }
    if options.prefetch is not None:
        loader["prefetch_factor"] = options.prefetch
    period = options.count // options.batch  # so many batches hold all recordings once
    return Job(model, data, device, options, train, loader, period)


def leave_room(job: Job) -> None:
    """Let the device be as small as makes the longest batch fit barely."""
    frames = torch.randn(job.options.batch, job.options.most, BANDS, device=job.device)
    lengths = torch.full((len(frames),), job.options.most, device=job.device)
    torch.cuda.reset_peak_memory_stats()
    with torch.autocast(job.device.type, torch.bfloat16, enabled=job.options.amp):
        job.model(frames, lengths).float().sum().backward()
    job.model.zero_grad()
    whole = torch.cuda.get_device_properties(job.device).total_memory
    room = job.options.room * torch.cuda.max_memory_allocated() / whole
    torch.cuda.empty_cache()
    torch.cuda.set_per_process_memory_fraction(min(1.0, room))


def train(job: Job) -> Steps:
    options, model, device = job.options, job.model, job.device
    if options.threads is not None:
        torch.set_num_threads(options.threads)
    torch.backends.cudnn.benchmark = options.benchmark
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
    if device.type == "cuda":
        torch.cuda.set_per_process_memory_fraction(1.0)
    if options.room is not None and device.type == "cuda":
        leave_room(job)
    loader = DataLoader(job.data, **job.loader)
    for batch in loader:
        frames, lengths, labels = (one.to(device) for one in batch)
        with torch.autocast(device.type, torch.bfloat16, enabled=options.amp):
            loss = cross_entropy(model(frames, lengths).float(), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if options.empty_cache and device.type == "cuda":
            torch.cuda.empty_cache()
        yield
