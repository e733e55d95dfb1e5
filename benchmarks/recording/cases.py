"""The small trainings that ``record_traces`` records: generated data, one fault or feature each."""

import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.profiler import record_function
from torch.utils.data import DataLoader

from benchmarks.recording.models import (
    Pictures,
    Transformer,
    batches_of,
    convnet,
    learn,
    perceptron,
    tokens_for,
)

Step = Callable[[int], None]


@dataclass(frozen=True)
class Case:
    """One training to record, and what is true of it by construction."""

    name: str
    about: str
    make: Callable[[torch.device], Step]
    scheduled: bool = True  # with a profiler schedule, hence ProfilerStep# ranges
    stacks: bool = False  # with_stack and profile_memory
    ranks: int = 1
    needs_cuda: bool = False


def eager_launch_bound(device: torch.device) -> Step:
    """Run tiny operators one by one; every second step reads the loss back."""
    model = perceptron(64, 12).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9, foreach=False)
    inputs = torch.randn(32, 64, device=device)
    labels = torch.randint(0, 64, (32,), device=device)

    def step(index: int) -> None:
        loss = learn(model, optimizer, inputs, labels)
        if index % 2:
            loss.item()

    return step


def compiled_with(mode: str | None) -> Callable[[torch.device], Step]:
    """Make a case of ``torch.compile`` in the given mode."""

    def make(device: torch.device) -> Step:
        width, tokens, labels = tokens_for(device)
        model = Transformer(width, 2).to(device)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
        # A CPU without a C++ compiler can still run the traced graph: enough for a dry run.
        fast = (
            torch.compile(model, mode=mode)
            if device.type == "cuda"
            else torch.compile(model, backend="aot_eager")
        )

        def step(_: int) -> None:
            torch.compiler.cudagraph_mark_step_begin()
            learn(fast, optimizer, tokens, labels)

        return step

    return make


def cuda_graph_replay(device: torch.device) -> Step:
    """Replay one graph of forward, backward and optimizer; each step first copies a batch in."""
    width, tokens, labels = tokens_for(device)
    model = Transformer(width, 2).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    batches = [torch.randn(tokens.shape).pin_memory() for _ in range(4)]
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            learn(model, optimizer, tokens, labels)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        learn(model, optimizer, tokens, labels)

    def step(index: int) -> None:
        tokens.copy_(batches[index % 4], non_blocking=True)
        graph.replay()

    return step


def side_stream_copies(device: torch.device) -> Step:
    """Copy the next pinned batch on its own stream; labels and masks are pageable and block."""
    model = convnet().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    shape = (64, 3, 128, 128) if device.type == "cuda" else (2, 3, 16, 16)
    images = [
        torch.randn(shape).pin_memory() if device.type == "cuda" else torch.randn(shape)
        for _ in range(3)
    ]
    labels, mask = torch.randint(0, 64, shape[:1]), torch.ones(shape)
    ahead = torch.cuda.Stream() if device.type == "cuda" else None
    pending: list[Tensor] = []

    def fetch(index: int) -> None:
        if ahead is None:
            pending.append(images[index % 3].to(device))
            return
        with torch.cuda.stream(ahead):
            pending.append(images[index % 3].to(device, non_blocking=True))

    def step(index: int) -> None:
        if not pending:
            fetch(index)
        batch = pending.pop()
        if ahead is not None:
            torch.cuda.current_stream().wait_stream(ahead)
            batch.record_stream(torch.cuda.current_stream())
        fetch(index + 1)
        loss = learn(model, optimizer, batch * mask.to(device), labels.to(device))
        if index % 4 == 3:  # noqa: PLR2004 - every fourth step
            loss.cpu()

    return step


def amp_bf16(device: torch.device) -> Step:
    """Train a transformer large enough to fill the device, under bfloat16 autocast."""
    width, tokens, labels = tokens_for(device, large=True)
    model = Transformer(width, 3).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=device.type == "cuda")

    def step(_: int) -> None:
        with torch.autocast(device.type, torch.bfloat16):
            loss = nn.functional.cross_entropy(model(tokens), labels)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return step


def amp_fp16_scaler(device: torch.device) -> Step:
    """Train in float16 with a gradient scaler (one read-back a step) and clipping by norm."""
    width, tokens, labels = tokens_for(device)
    model = Transformer(width, 2).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    scaler = torch.amp.GradScaler(device.type)
    kind = torch.float16 if device.type == "cuda" else torch.bfloat16

    def step(_: int) -> None:
        with torch.autocast(device.type, kind):
            loss = nn.functional.cross_entropy(model(tokens), labels)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad(set_to_none=True)

    return step


def checkpointing_with(saving: str) -> Callable[[torch.device], Step]:
    """Make a case that recomputes activations, "reentrant" or "plain"."""

    def make(device: torch.device) -> Step:
        width, tokens, labels = tokens_for(device)
        model = Transformer(width, 2, saving=saving).to(device)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
        tokens.requires_grad_()  # the reentrant form needs an input that asks for a gradient

        def step(_: int) -> None:
            learn(model, optimizer, tokens, labels)

        return step

    return make


def loader_with(workers: int) -> Callable[[torch.device], Step]:
    """Make a case that is bound by its DataLoader, of so many workers."""

    def make(device: torch.device) -> Step:
        cuda = device.type == "cuda"
        pictures = Pictures(128 if cuda else 16)
        batches = batches_of(
            DataLoader(pictures, batch_size=32 if cuda else 4, num_workers=workers, pin_memory=cuda)
        )
        model = convnet().to(device)
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)

        def step(_: int) -> None:
            images, labels = next(batches)
            learn(
                model,
                optimizer,
                images.to(device, non_blocking=True),
                labels.to(device, non_blocking=True),
            )

        return step

    return make


def accumulation_ranges(device: torch.device) -> Step:
    """Accumulate four micro-batches a step in ranges of the user's own, without profiler steps."""
    model = perceptron(128, 3).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
    inputs = torch.randn(4, 64, 128, device=device)
    labels = torch.randint(0, 64, (4, 64), device=device)

    def step(_: int) -> None:
        with record_function("train step"):
            for micro_batch, part_labels in zip(inputs, labels, strict=True):
                with record_function("micro batch"):
                    (nn.functional.cross_entropy(model(micro_batch), part_labels) / 4).backward()
            with record_function("update"):
                optimizer.step()
                optimizer.zero_grad(set_to_none=True)

    return step


def two_ranks(device: torch.device) -> Step:
    """Train over two processes; rank 1 is late in some steps, on the host or on the device."""
    width = 1024 if device.type == "cuda" else 32
    model = DistributedDataParallel(perceptron(width, 6).to(device), bucket_cap_mb=8)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
    inputs = torch.randn(256, width, device=device)
    labels = torch.randint(0, 64, (256,), device=device)

    def late(index: int) -> None:
        if dist.get_rank() == 1 and index % 4 == 1:
            time.sleep(0.01)
        if dist.get_rank() == 1 and index % 4 == 2 and device.type == "cuda":  # noqa: PLR2004 - the step after
            torch.cuda._sleep(20_000_000)  # noqa: SLF001 - about 10 ms of clock cycles, the only device-side delay

    def step(index: int) -> None:
        late(index)
        loss = learn(model, optimizer, inputs, labels)
        if index % 4 == 3:  # noqa: PLR2004 - every fourth step logs
            mean = loss.detach().clone()
            dist.all_reduce(mean)
            mean.item()

    return step


CASES = (
    Case("eager_launch_bound", "tiny operators; .item() in every second step", eager_launch_bound),
    Case("compiled", "torch.compile, default mode", compiled_with(None)),
    Case(
        "reduce_overhead",
        "torch.compile, reduce-overhead (CUDA graphs)",
        compiled_with("reduce-overhead"),
        needs_cuda=True,
    ),
    Case(
        "cuda_graph_replay",
        "torch.cuda.graph of the whole step, replayed",
        cuda_graph_replay,
        needs_cuda=True,
    ),
    Case(
        "side_stream_copies",
        "pinned prefetch on a stream; pageable blocking copies; .cpu() every fourth step",
        side_stream_copies,
    ),
    Case("amp_bf16", "bfloat16 autocast, fused AdamW, device-bound", amp_bf16),
    Case("amp_fp16_scaler", "float16 autocast, GradScaler, clip_grad_norm_", amp_fp16_scaler),
    Case("checkpointing", "activation checkpointing, not reentrant", checkpointing_with("plain")),
    Case(
        "checkpointing_reentrant",
        "activation checkpointing, reentrant (nested backward)",
        checkpointing_with("reentrant"),
    ),
    Case("loader_workers", "DataLoader, two workers, pinned; bound by the loader", loader_with(2)),
    Case(
        "stacks_memory",
        "with_stack and profile_memory; DataLoader without workers",
        loader_with(0),
        stacks=True,
    ),
    Case(
        "accumulation_ranges",
        "gradient accumulation in record_function ranges, no schedule",
        accumulation_ranges,
        scheduled=False,
    ),
    Case(
        "two_ranks",
        "DDP over two ranks; rank 1 late on the host (index % 4 == 1) and device (== 2)",
        two_ranks,
        ranks=2,
    ),
)
