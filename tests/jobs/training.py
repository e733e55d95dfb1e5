"""A model that ranks train together, with whatever makes one of them late, or all of them wait.

Each fault is a function of its own, as it would be in a script; the rank that has it is the last
one. Nothing here knows of gapless.
"""
# pyright: basic

import contextlib
import copy
import functools
import gc
import io
import os
import tempfile
import time
import zlib
from argparse import Namespace
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, distributed, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.nn import functional as collectives
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, DistributedSampler

from tests.jobs import models, uneven
from tests.zoo.job import Job, Steps

USUAL: dict[str, Any] = {
    "wide": 512,
    "layers": 2,
    "batch": 96,
    "model": None,  # a name of ``models``; None: layers one after the other
    "scored": False,  # the late rank scores each of its batches
    "clipped": False,  # the norm of gradients is asked for by hand, and bounded
    "count": 1536,
    "packed": 1,  # times that the late rank's samples have been packed
    "wait_ms": 0.0,  # of a batch, for the late rank's storage
    "notes": 0,  # words that the late rank goes through in Python in each step
    "litter": 0,  # objects among which the late rank collects garbage in each step
    "longer": 1,  # times as many rows in the late rank's batches
    "length": 0,  # time steps of a sample
    "longest": 0,  # the same, of the late rank's
    "last_share": 0.0,  # of all rows, to the expert of the last rank
    "at_once": False,  # rows are read by the batch, not one by one
    "by_hand": False,
    "bucket_mb": 25.0,
    "bucket_view": False,
    "backend": None,  # of the process group that exchanges gradients; None: the device's own
    "stages": 0,  # parts of a batch that go through the layers of one rank, then of the other
    "replicated": False,  # one process copies the model to all GPUs (DataParallel)
    "sharded": False,  # parameters lie on all ranks in parts (fully_shard)
    "half": False,  # numbers are bfloat16
    "resident": False,  # rows are on the device: nothing is loaded
    "find_unused": False,
    "accumulate": 1,
    "no_sync": False,
    "synced_norm": False,
    "gathers": False,  # the loss of all ranks, as objects, in each step
    "save_every": 0,
    # What follows is of the network, for whoever starts the ranks (``hosts.py``).
    "hosts": 1,  # that the ranks are on
    "link_mbit": 0,  # of the last host's link; 0: as fast as it goes
    "link_delay_ms": 0.0,  # of that link, each way
    "only_sent": False,  # what that host receives comes as fast as it goes
    "all_slow": False,  # the links of all hosts are like that
}


class Rows(Dataset[tuple[Tensor, int]]):
    """Rows of numbers in memory; the late rank's are packed, or far away."""

    def __init__(self, options: Namespace, *, is_late: bool) -> None:
        self.options, self.is_late = options, is_late
        self.rows = torch.randn(options.count, options.wide)
        self.file = zlib.compress(self.rows[0].repeat(16).numpy().tobytes(), 1)

    def __len__(self) -> int:
        return self.options.count

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        if self.is_late and self.options.packed > 1:
            self.unpack()
        if self.is_late and self.options.wait_ms:
            self.fetch()
        return self.rows[index], index % 16

    def unpack(self) -> None:
        """Unpack a sample as often as it was packed."""
        for _ in range(self.options.packed - 1):
            zlib.decompress(self.file)

    def fetch(self) -> None:
        """Wait for a sample, as for a slow disk."""
        time.sleep(self.options.wait_ms / self.options.batch / 1000)


class RowsAtOnce(Rows):
    """The same rows, those of a batch asked for at once."""

    def __getitems__(self, indices: list[int]) -> tuple[Tensor, Tensor]:
        return self.rows[indices], torch.tensor(indices) % 16


def keep_batch(batch: Any) -> Any:
    return batch


class SyncedNorm(nn.Module):
    """A norm whose statistics are those of all ranks' batches."""

    def forward(self, rows: Tensor) -> Tensor:
        sums = torch.stack([rows.mean(0), (rows * rows).mean(0)])
        mean, square = collectives.all_reduce(sums) / distributed.get_world_size()
        return (rows - mean) * (square - mean * mean + 1e-5).rsqrt()


def network(options: Namespace) -> nn.Module:
    if options.model:
        return models.MODELS[options.model](options.wide, options.layers)
    body: list[nn.Module] = []
    for _ in range(options.layers):
        body += [nn.Linear(options.wide, options.wide), nn.ReLU()]
        if options.synced_norm:
            body.append(SyncedNorm())
    if options.last_share:
        body.append(uneven.Experts(options.wide, options.last_share))
    layers = nn.Sequential(*body, nn.Linear(options.wide, 16))
    uneven.keep_experts(layers)
    length = options.longest if is_late() else options.length
    return uneven.Sequences(layers, length) if length else layers


def make_job(options: Namespace, device: torch.device) -> Job:
    """Return the training of this rank; the process group is made where there is none."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    if not distributed.is_initialized():
        start_group("nccl" if device.type == "cuda" else "gloo")
    data = (RowsAtOnce if options.at_once else Rows)(options, is_late=is_late())
    if device.type == "cuda":
        device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
        torch.cuda.set_device(device)
        if options.resident:
            data.rows = data.rows.to(device)
    dtype = torch.bfloat16 if options.half else torch.float32
    data.rows = data.rows.to(dtype)
    period = max(1, options.save_every)
    return Job(network(options).to(device, dtype), data, device, options, train, {}, period)


def start_group(backend: str) -> None:
    """Meet the other ranks; without torchrun there are none."""
    if "RANK" in os.environ:
        distributed.init_process_group(backend)
    else:
        meeting = f"file://{tempfile.mkdtemp()}/meeting"
        distributed.init_process_group(backend, meeting, rank=0, world_size=1)


def train(job: Job) -> Steps:
    options = job.options
    if options.stages:
        yield from train_in_stages(job)
    model = job.model if options.by_hand else wrap_model(job)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    litter = [[number] for number in range(options.litter if is_late() else 0)]
    count = 0
    for inputs, labels in batches(job):
        count += 1
        is_last = count % options.accumulate == 0
        is_quiet = options.no_sync and not is_last
        is_wrapped = isinstance(model, DistributedDataParallel)
        with model.no_sync() if is_wrapped and is_quiet else contextlib.nullcontext():
            loss = cross_entropy(model(inputs.to(job.device)), labels.to(job.device))
            loss.backward()
        if not is_last:
            continue
        work_late(options, litter, inputs)
        exchange_by_hand(job)
        optimizer.step()
        optimizer.zero_grad()
        if options.gathers:
            gather_losses(loss)
        if options.save_every and count // options.accumulate % options.save_every == 0:
            save_model(job.model)
        yield


def train_in_stages(job: Job) -> Steps:
    """Let each rank's layers feed those of the next one, part by part."""
    options, rank = job.options, distributed.get_rank()
    layers: Any = job.model
    optimizer = torch.optim.SGD(job.model.parameters(), lr=1e-3)
    rows = job.data.rows[: options.batch].chunk(options.stages)
    labels = torch.arange(len(rows[0]), device=job.device) % 16
    while True:
        outputs = []
        for part in rows:
            rows_in = part if rank == 0 else receive(part, rank - 1).requires_grad_()
            output = layers(rows_in) if is_late() else layers[:-1](rows_in)
            if is_late():
                cross_entropy(output, labels).backward()
                work_late(options, [], output)
            else:
                distributed.send(output.detach(), rank + 1)
            outputs.append((rows_in, output))
        for rows_in, output in outputs:
            if not is_late():
                output.backward(receive(output, rank + 1))
            if rank:
                distributed.send(rows_in.grad, rank - 1)
        optimizer.step()
        optimizer.zero_grad()
        yield


def receive(like: Tensor, source: int) -> Tensor:
    rows = torch.empty_like(like)
    distributed.recv(rows, source)
    return rows


def is_late() -> bool:
    return distributed.get_rank() == distributed.get_world_size() - 1


def batches(job: Job) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield batches, epoch after epoch; those of the late rank may be longer."""
    size = job.options.batch * (job.options.longer if is_late() else 1)
    if job.options.resident:
        labels = torch.arange(size, device=job.device) % 16
        while True:
            for start in range(0, job.options.count - size + 1, size):
                yield job.data.rows[start : start + size], labels
    sampler: DistributedSampler[tuple[Tensor, int]] = DistributedSampler(job.data)
    collate = keep_batch if job.options.at_once else None
    while True:
        yield from DataLoader(job.data, size, sampler=sampler, drop_last=True, collate_fn=collate)


def work_late(options: Namespace, litter: list[list[int]], inputs: Tensor) -> None:
    """Do what only the late rank does."""
    if options.notes and is_late():
        take_notes(options.notes)
    if options.scored and is_late():
        models.score_batch(inputs)
    if litter:
        collect_litter()


def exchange_by_hand(job: Job) -> None:
    """Exchange what no wrapper does."""
    if job.options.by_hand:
        average_gradients(job.model)
    if job.options.clipped:
        models.clip_gradients(job.model)


def wrap_model(job: Job) -> nn.Module:
    options = job.options
    if options.replicated:
        return nn.DataParallel(job.model)
    if options.sharded:
        return shard_model(copy.deepcopy(job.model))
    return DistributedDataParallel(
        job.model,
        device_ids=[job.device.index] if job.device.type == "cuda" else None,
        process_group=exchange_group(options.backend),
        bucket_cap_mb=options.bucket_mb,
        find_unused_parameters=options.find_unused,
        gradient_as_bucket_view=options.bucket_view,
    )


def shard_model(model: Any) -> nn.Module:
    mesh = init_device_mesh(model[0].weight.device.type, (distributed.get_world_size(),))
    for layer in (*filter(has_numbers, model), model):
        fully_shard(layer, mesh=mesh)
    return model


def has_numbers(layer: nn.Module) -> bool:
    return isinstance(layer, nn.Linear)


@functools.cache
def exchange_group(backend: str | None) -> Any:
    return None if backend is None else distributed.new_group(backend=backend)


def average_gradients(model: nn.Module) -> None:
    for parameter in model.parameters():
        if parameter.grad is not None:
            distributed.all_reduce(parameter.grad)
            parameter.grad /= distributed.get_world_size()


def take_notes(count: int) -> int:
    words: dict[str, int] = {}
    for number in range(count):
        word = str(number % 97)
        words[word] = words.get(word, 0) + number
    return len(words)


def collect_litter() -> None:
    gc.collect()


def gather_losses(loss: Tensor) -> float:
    losses: list[float] = [0.0] * distributed.get_world_size()
    distributed.all_gather_object(losses, float(loss))
    distributed.barrier()
    return sum(losses)


def save_model(model: nn.Module) -> None:
    """Let the first rank write, the others wait for it."""
    if distributed.get_rank() == 0:
        for _ in range(4):  # model, average, two of the optimizer
            torch.save(model.state_dict(), io.BytesIO())
        time.sleep(0.03)  # until it is on the disk
    distributed.barrier()
