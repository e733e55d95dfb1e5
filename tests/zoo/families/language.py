"""B: a small GPT on a file of tokens, iteration by iteration, without a DataLoader."""
# pyright: basic

import itertools
import math
import os
import shutil
import tempfile
from argparse import Namespace
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, gelu, scaled_dot_product_attention
from torch.utils.checkpoint import checkpoint

from tests.zoo.job import Job, Steps
from tests.zoo.neighbour import neighbour

USUAL = {
    "naive_attention": False,
    "checkpointing": False,
    "accumulate": 1,
    "amp": False,
    "tf32": False,
    "fused": None,
    "foreach": None,
    "zeros": False,  # gradients are filled with zeros
    "graphs": False,  # evaluation leaves autograd on
    "profiled": 0,  # cycles of the training's own profiler; -1: without end
    "log_every": 10,
    "item_every_step": False,
    "save_every": 0,
    "evaluate_every": 0,
    "anomaly": False,
    "ema": False,
    "threads": None,
    "compiled": False,  # layer by layer
    "watched": False,  # the norm of each gradient is written down in each step
    "neighbour": False,  # somebody else computes on the GPU
}
SIZES = {
    "c": {"layers": 2, "heads": 4, "wide": 128, "context": 64, "batch": 8, "vocabulary": 512},
    "g": {"layers": 12, "heads": 12, "wide": 768, "context": 1024, "batch": 8, "vocabulary": 50304},
}
TOKENS = 1_000_000


class Attention(nn.Module):
    """Causal self-attention."""

    def __init__(self, options: Namespace) -> None:
        super().__init__()
        self.heads, self.naive = options.heads, options.naive_attention
        self.qkv = nn.Linear(options.wide, 3 * options.wide, bias=False)
        self.out = nn.Linear(options.wide, options.wide, bias=False)
        mask = torch.tril(torch.ones(options.context, options.context))
        self.register_buffer("mask", mask.view(1, 1, options.context, options.context))

    def forward(self, x: Tensor) -> Tensor:
        batch, time, wide = x.shape
        parts = self.qkv(x).split(wide, dim=2)
        q, k, v = (one.view(batch, time, self.heads, -1).transpose(1, 2) for one in parts)
        if self.naive:
            weights = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
            mask = self.get_buffer("mask")[:, :, :time, :time]
            weights = weights.masked_fill(mask == 0, float("-inf"))
            y = torch.softmax(weights, dim=-1) @ v
        else:
            y = scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).contiguous().view(batch, time, wide))


class Layer(nn.Module):
    """A layer of the transformer."""

    def __init__(self, options: Namespace) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(options.wide)
        self.attention = Attention(options)
        self.norm2 = nn.LayerNorm(options.wide)
        self.up = nn.Linear(options.wide, 4 * options.wide)
        self.down = nn.Linear(4 * options.wide, options.wide)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norm1(x))
        return x + self.down(gelu(self.up(self.norm2(x))))


class GPT(nn.Module):
    """A language model."""

    def __init__(self, options: Namespace) -> None:
        super().__init__()
        self.checkpointing = options.checkpointing
        self.tokens = nn.Embedding(options.vocabulary, options.wide)
        self.positions = nn.Embedding(options.context, options.wide)
        self.layers = nn.ModuleList(Layer(options) for _ in range(options.layers))
        self.norm = nn.LayerNorm(options.wide)
        self.head = nn.Linear(options.wide, options.vocabulary, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, tokens: Tensor, targets: Tensor) -> Tensor:
        x = self.tokens(tokens) + self.positions.weight[: tokens.size(1)]
        for layer in self.layers:
            x = checkpoint(layer, x, use_reentrant=False) if self.checkpointing else layer(x)
        logits = self.head(self.norm(x))
        return cross_entropy(logits.view(-1, logits.size(-1)), targets.reshape(-1))


def token_file(vocabulary: int) -> str:
    """Return the path of a file of made-up tokens."""
    place = os.path.join(tempfile.gettempdir(), "gapless-zoo")
    path = os.path.join(place, f"tokens-{vocabulary}.bin")
    if not os.path.exists(path):
        os.makedirs(place, exist_ok=True)
        tokens = np.random.default_rng(0).integers(0, vocabulary, TOKENS, dtype=np.uint16)
        tokens.tofile(f"{path}.{os.getpid()}")
        os.replace(f"{path}.{os.getpid()}", path)
    return path


def get_batch(job: Job) -> tuple[Tensor, Tensor]:
    """Return a batch from places drawn at random."""
    options = job.options
    data = np.memmap(job.data, dtype=np.uint16, mode="r")
    places = torch.randint(len(data) - options.context - 1, (options.batch,)).tolist()
    rows = [data[at : at + options.context + 1].astype(np.int64) for at in places]
    rows = torch.stack([torch.from_numpy(row) for row in rows])
    if job.device.type == "cuda":
        rows = rows.pin_memory().to(job.device, non_blocking=True)
    return rows[:, :-1], rows[:, 1:]


def estimate_loss(job: Job) -> float:
    """Return the mean loss of some batches."""
    job.model.eval()
    with torch.set_grad_enabled(job.options.graphs):
        losses = [job.model(*get_batch(job)) for _ in range(8)]
    job.model.train()
    return torch.stack(losses).detach().mean().item()


@contextmanager
def own_profiler(cycles: int) -> Iterator[Callable[[], object]]:
    """Profile eight steps each time, so many times or again and again; give what ends a step."""
    if not cycles:
        yield lambda: None
        return
    plan = torch.profiler.schedule(wait=0, warmup=0, active=8, repeat=max(0, cycles))
    with torch.profiler.profile(schedule=plan, record_shapes=True) as profiler:
        yield profiler.step


def compiled(module: nn.Module) -> bool:
    """Return whether a module was compiled in place."""
    return vars(module).get("_compiled_call_impl") is not None


def compile_layers(model: nn.Module) -> None:
    """Compile each layer, once: all have the same code."""
    for layer in model.modules():
        if isinstance(layer, Layer) and not compiled(layer):
            layer.compile()


def make(options: Namespace, device: torch.device) -> Job:
    torch.manual_seed(0)
    model = GPT(options).to(device)
    period = math.lcm(options.log_every or 1, options.save_every or 1, options.evaluate_every or 1)
    data = token_file(options.vocabulary)
    return Job(model, data, device, options, train, {}, period)


class Notes:
    """Where a training writes down how it goes, and keeps its checkpoints."""

    def __init__(self) -> None:
        self.folder = tempfile.mkdtemp(prefix="gapless-zoo-")
        self.log = open(os.path.join(self.folder, "log.txt"), "w", encoding="utf-8")  # noqa: SIM115

    def end(self) -> None:
        self.log.close()
        shutil.rmtree(self.folder)


def after_step(job: Job, notes: Notes, number: int, loss: Tensor, state: Any) -> None:
    """Log, save, evaluate, when it is time to."""
    options = job.options
    if options.item_every_step or number % options.log_every == 0:
        notes.log.write(f"iter {number}: loss {loss.item():.4f}\n")
    if options.save_every and number % options.save_every == 0:
        whole = {"model": job.model.state_dict(), "optimizer": state()}
        torch.save(whole, os.path.join(notes.folder, "ckpt.pt"))
    if options.evaluate_every and number % options.evaluate_every == 0:
        notes.log.write(f"iter {number}: validation {estimate_loss(job):.4f}\n")


def one_step(
    job: Job, optimizer: torch.optim.AdamW, average: list[Tensor], notes: Notes, number: int
) -> None:
    """Train on a batch, or on several, and do what is due after it."""
    options, model = job.options, job.model
    loss = torch.zeros(())
    for _ in range(options.accumulate):
        tokens, targets = get_batch(job)
        with torch.autocast(job.device.type, torch.bfloat16, enabled=options.amp):
            loss = model(tokens, targets) / options.accumulate
        loss.backward()
    if options.watched:
        for name, weight in model.named_parameters():
            if weight.grad is not None:
                notes.log.write(f"{name} {weight.grad.norm().item():.3g}\n")
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad(set_to_none=not options.zeros)
    for slow, weight in zip(average, model.parameters(), strict=False):
        slow.mul_(0.999).add_(weight.detach(), alpha=0.001)
    after_step(job, notes, number, loss, optimizer.state_dict)


def train(job: Job) -> Steps:
    options, model = job.options, job.model
    if options.threads is not None:
        torch.set_num_threads(options.threads)
    torch.set_float32_matmul_precision("high" if options.tf32 else "highest")
    if options.compiled:
        compile_layers(model)
    torch.autograd.set_detect_anomaly(options.anomaly)
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=1e-4, fused=options.fused, foreach=options.foreach
    )
    average = [weight.detach().clone() for weight in model.parameters()] if options.ema else []
    notes = Notes()
    try:
        with neighbour(is_wanted=options.neighbour), own_profiler(options.profiled) as end_step:
            for number in itertools.count(1):
                one_step(job, optimizer, average, notes, number)
                end_step()
                yield
    finally:
        torch.autograd.set_detect_anomaly(False)
        notes.end()
