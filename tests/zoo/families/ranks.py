"""H: two processes that train one model together, each on half of the data."""
# pyright: basic

import contextlib
import os
import time
from argparse import Namespace

import torch
from torch import Tensor, distributed, nn
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

from tests.zoo.job import Job, Steps

USUAL = {
    "bucket_mb": 25.0,
    "find_unused": False,
    "accumulate": 1,
    "no_sync": False,
    "slow_rank_ms": 0.0,
    "barrier": False,  # all ranks meet after each step, once more
    "threads": 1,
}
SIZES = {
    "c": {"wide": 256, "layers": 6, "batch": 32, "count": 1024},
    "g": {"wide": 4096, "layers": 12, "batch": 1024, "count": 8192},
}


def network(wide: int, layers: int) -> nn.Sequential:
    """Return a network of so many layers."""
    body: list[nn.Module] = []
    for _ in range(layers):
        body += [nn.Linear(wide, wide), nn.LayerNorm(wide), nn.GELU()]
    return nn.Sequential(*body, nn.Linear(wide, 16))


def make(options: Namespace, device: torch.device) -> Job:
    torch.manual_seed(0)
    if not distributed.is_initialized():
        distributed.init_process_group("nccl" if device.type == "cuda" else "gloo")
    if device.type == "cuda":
        device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
        torch.cuda.set_device(device)
    inputs = torch.randn(options.count, options.wide)
    data = TensorDataset(inputs, torch.arange(options.count) % 16)
    model = network(options.wide, options.layers).to(device)
    loader = {"batch_size": options.batch, "drop_last": True, "num_workers": 0}
    return Job(model, data, device, options, train, loader)


def train(job: Job) -> Steps:
    options, device = job.options, job.device
    if options.threads is not None:
        torch.set_num_threads(options.threads)
    model = DistributedDataParallel(
        job.model,
        device_ids=[device.index] if device.type == "cuda" else None,
        bucket_cap_mb=options.bucket_mb,
        find_unused_parameters=options.find_unused,
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    sampler: DistributedSampler[tuple[Tensor, ...]] = DistributedSampler(job.data)
    loader = DataLoader(job.data, sampler=sampler, **job.loader)
    number = epoch = 0
    while True:
        sampler.set_epoch(epoch)
        epoch += 1
        for inputs, labels in loader:
            number += 1
            last = number % options.accumulate == 0
            quiet = options.no_sync and not last
            with model.no_sync() if quiet else contextlib.nullcontext():
                loss = cross_entropy(model(inputs.to(device)), labels.to(device))
                (loss / options.accumulate).backward()
            if options.slow_rank_ms and distributed.get_rank() == 1:
                time.sleep(options.slow_rank_ms / 1000)
            if not last:
                continue
            optimizer.step()
            optimizer.zero_grad()
            if options.barrier:
                distributed.barrier()
            yield
