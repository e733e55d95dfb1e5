"""Small trainings with one fault each: ``python tests/zoo/small_faults.py FAULT [--healthy]``.

Each is the least that makes a rule speak of a real run on two processors; ``--healthy`` leaves the
fault out and changes nothing else.
"""

import argparse
import copy
import importlib
import itertools
import os
import random
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, Final

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset, Sampler

Batch = tuple[torch.Tensor, torch.Tensor]
Step = Callable[[Batch], torch.Tensor]  # returns the loss

WIDTH: Final = 256
SAMPLES: Final = 4096
BATCH: Final = 32


class Points(Dataset[Batch]):
    """Random numbers in memory; ``wait_s``: what each sample is waited for."""

    def __init__(self, wait_s: float = 0.0) -> None:
        self.inputs = torch.randn(SAMPLES, WIDTH)
        self.labels = torch.randint(0, 10, (SAMPLES,))
        self.wait_s = wait_s

    def __len__(self) -> int:
        return SAMPLES

    def __getitem__(self, index: int) -> Batch:
        if self.wait_s:
            time.sleep(self.wait_s)
        return self.inputs[index], self.labels[index]


class WeightedBatches(Sampler[list[int]]):
    """Batches drawn anew from the weights of a million samples, or all at once."""

    def __init__(self, *, anew: bool) -> None:
        self.weights, self.anew = torch.rand(1_000_000), anew

    def __iter__(self) -> Iterator[list[int]]:
        drawn = [random.randrange(SAMPLES) for _ in range(SAMPLES)]
        for start in range(0, SAMPLES, BATCH):
            if self.anew:
                drawn_now = torch.multinomial(self.weights, BATCH, replacement=True)
                yield [int(number) % SAMPLES for number in drawn_now]
            else:
                yield drawn[start : start + BATCH]


def network(layers: int = 6) -> nn.Sequential:
    """Return a stack of layers that ends in ten classes."""
    inner = [module for _ in range(layers) for module in (nn.Linear(WIDTH, WIDTH), nn.ReLU())]
    return nn.Sequential(*inner, nn.Linear(WIDTH, 10))


class Training:
    """A model, its optimizer and its data; what a fault changes of a step is given."""

    def __init__(self, healthy: bool, device: str) -> None:
        torch.set_num_threads(1)
        self.healthy, self.device = healthy, device
        self.model: nn.Module = network().to(device)
        self.optimizer: torch.optim.Optimizer | None = self.make_optimizer()
        self.dataset = Points()
        self.batches: Sampler[list[int]] = WeightedBatches(anew=False)
        self.after: Callable[[int], None] = lambda _: None
        self.last_step = sys.maxsize

    def make_optimizer(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.model.parameters(), lr=0.01)

    def loss(self, batch: Batch) -> torch.Tensor:
        return functional.cross_entropy(self.model(batch[0]), batch[1])

    def run(self, seconds: float) -> int:
        """Train for so long; return how many steps that were, as many on each rank."""
        number, end_s = 0, time.monotonic() + seconds
        while True:
            for inputs, labels in DataLoader(self.dataset, batch_sampler=self.batches):
                batch = inputs.to(self.device), labels.to(self.device)
                loss = self.loss(batch)
                self.model.zero_grad()
                loss.backward()
                self.update()
                self.after(number)
                number += 1
                if number >= self.last_step or time.monotonic() > end_s:
                    return number

    def update(self) -> None:
        assert self.optimizer is not None
        self.optimizer.step()


def draw_each_batch(training: Training) -> None:
    training.batches = WeightedBatches(anew=not training.healthy)


def wait_for_samples(training: Training) -> None:
    training.dataset = Points(0.0 if training.healthy else 0.0005)


def call_on_pieces(training: Training) -> None:
    def loss(batch: Batch) -> torch.Tensor:
        scores = torch.cat([training.model(piece) for piece in torch.split(batch[0], 2)])
        return functional.cross_entropy(scores, batch[1])

    if not training.healthy:
        training.loss = loss  # type: ignore[method-assign]


def compute_beside(training: Training) -> None:
    def spin() -> None:
        total = 0
        while True:
            for value in range(1000):
                total += value * value % 7

    if not training.healthy:
        threading.Thread(target=spin, daemon=True).start()


def compute_unused_head(training: Training) -> None:
    class Heads(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body, self.classes = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 10)
            self.other = nn.Linear(WIDTH, 2048)

        def forward(self, inputs: torch.Tensor) -> torch.Tensor:
            hidden = self.body(inputs).relu()
            if not training.healthy:
                self.scores = self.other(hidden)
            return self.classes(hidden)

    training.model = Heads()
    if training.healthy:
        del training.model.other
    training.optimizer = training.make_optimizer()


def append_history(training: Training) -> None:
    history = [torch.zeros(0, WIDTH)]

    def append(batch: Batch) -> torch.Tensor:
        if not training.healthy:
            history[0] = torch.cat([history[0], batch[0]])
        return Training.loss(training, batch)

    training.loss = append  # type: ignore[method-assign]


def make_large_tensors(training: Training) -> None:
    """Make tensors that are larger than any block that glibc keeps, or write into kept ones."""
    kept = torch.empty(10_000_000)

    def add_noise(_: int) -> None:
        noise = kept if training.healthy else torch.empty(10_000_000)
        noise.fill_(0.5)

    training.after = add_noise


def decompose_each_step(training: Training) -> None:
    def loss(batch: Batch) -> torch.Tensor:
        value = Training.loss(training, batch)
        if training.healthy:
            return value
        weight = next(training.model.parameters())
        _, singular_values, _ = torch.svd(weight)
        return value + 0.001 * singular_values.max()

    training.loss = loss  # type: ignore[method-assign]


def forward_twice(training: Training) -> None:
    """Compute the scores for a loss that is not used."""

    def loss(batch: Batch) -> torch.Tensor:
        if not training.healthy:
            noisy = batch[0] + 0.1 * torch.randn_like(batch[0])
            training.scores = training.model(noisy)  # type: ignore[attr-defined]
        return Training.loss(training, batch)

    training.loss = loss  # type: ignore[method-assign]


def multiply_one_hot(training: Training) -> None:
    class Words(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Parameter(0.01 * torch.randn(4000, WIDTH))
            self.classes = nn.Linear(WIDTH, 10)

        def forward(self, inputs: torch.Tensor) -> torch.Tensor:
            words = (inputs[:, 0].abs() * 1000).long().clamp(max=3999)
            if training.healthy:
                return self.classes(functional.embedding(words, self.table))
            return self.classes(functional.one_hot(words, 4000).float() @ self.table)

    training.model = Words()
    training.optimizer = training.make_optimizer()


def work_now_and_then(training: Training) -> None:
    def work(number: int) -> None:
        if not training.healthy and number % 20 == 0:
            total = 0
            for value in range(1_000_000):
                total += value % 7

    training.after = work


def copy_state(training: Training) -> None:
    """Keep the state of each step, as if it were the best."""

    def keep(_: int) -> None:
        if not training.healthy:
            training.best = copy.deepcopy(training.model.state_dict())  # type: ignore[attr-defined]

    training.after = keep


def update_by_hand(training: Training) -> None:
    if training.healthy:
        return
    training.optimizer = None
    velocities = [torch.zeros_like(parameter) for parameter in training.model.parameters()]

    def update() -> None:
        with torch.no_grad():
            for parameter, velocity in zip(training.model.parameters(), velocities, strict=True):
                velocity.mul_(0.9).add_(parameter.grad)  # pyright: ignore[reportArgumentType]
                parameter.add_(velocity, alpha=-0.01)

    training.update = update  # type: ignore[method-assign]


def forward_again_for_a_log(training: Training) -> None:
    def loss(batch: Batch) -> torch.Tensor:
        value = Training.loss(training, batch)
        if not training.healthy:
            with torch.no_grad():
                training.scores = training.model(batch[0])  # type: ignore[attr-defined]
        return value

    training.loss = loss  # type: ignore[method-assign]


def count_in_bins(training: Training) -> None:
    """Make histograms of all parameters, for a log, in each step."""
    tensors = [parameter.detach() for parameter in training.model.parameters()] * 2

    def count(_: int) -> None:
        if not training.healthy:
            training.bins = [torch.histc(tensor, 100) for tensor in tensors]  # type: ignore[attr-defined]

    training.after = count


def multiply_on_few_cores(training: Training) -> None:
    """Multiply large matrices with the one thread that ``Training`` sets, or with one a core.

    Cores that other processes use meanwhile are not there for it: the rule is silent of such a run.
    """
    if training.healthy:
        torch.set_num_threads(os.cpu_count() or 1)
    layers = nn.Linear(WIDTH, 4096), nn.ReLU(), nn.Linear(4096, 10)
    training.model = nn.Sequential(*layers)
    training.optimizer = training.make_optimizer()


def multiply_in_emulated_half(training: Training) -> None:
    """Use bf16 on processors that ``ONEDNN_MAX_CPU_ISA`` makes older than they are."""

    def loss(batch: Batch) -> torch.Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            return Training.loss(training, batch)

    if not training.healthy:
        training.loss = loss  # type: ignore[method-assign]


class Convolutions(nn.Module):
    """A sample as a picture of one channel, seen by convolutions."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(1, channels, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(channels, channels, 3, padding=1),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(channels * WIDTH, 10),
        )

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return self.layers(inputs.reshape(-1, 1, 16, 16))


def convolve_without_library(training: Training) -> None:
    train_convolutions(training)
    if not training.healthy:
        torch.backends.mkldnn.set_flags(_enabled=False)


def train_convolutions(training: Training, channels: int = 32) -> None:
    training.model = Convolutions(channels).to(training.device)
    training.optimizer = training.make_optimizer()


def reduce_one_by_one(training: Training) -> None:
    """Exchange gradients over two ranks, or let DistributedDataParallel do that."""
    dist.init_process_group("gloo")
    training.last_step = 200  # ranks that stop by their clocks would wait for one another
    if training.healthy:
        training.model = nn.parallel.DistributedDataParallel(training.model)

    def update() -> None:
        if not training.healthy:
            for parameter in training.model.parameters():
                dist.all_reduce(parameter.grad)
        Training.update(training)

    training.update = update  # type: ignore[method-assign]


def train_wide(training: Training, width: int, classes: int) -> None:
    """Train a layer of half precision over ``classes``."""
    layers = nn.Linear(WIDTH, width), nn.ReLU(), nn.Linear(width, classes)
    training.model = nn.Sequential(*layers).to(training.device, torch.bfloat16)
    training.optimizer = training.make_optimizer()

    def loss(batch: Batch) -> torch.Tensor:
        inputs = batch[0].to(torch.bfloat16).repeat(64, 1)
        return functional.cross_entropy(training.model(inputs), batch[1].repeat(64))

    training.loss = loss  # type: ignore[method-assign]


def multiply_odd_sides(training: Training) -> None:
    train_wide(training, 1024, 8192 if training.healthy else 8191)


def try_no_kernels(training: Training) -> None:
    train_convolutions(training, 256)
    torch.backends.cudnn.benchmark = training.healthy

    def loss(batch: Batch) -> torch.Tensor:
        return Training.loss(training, (batch[0].repeat(16, 1), batch[1].repeat(16)))

    training.loss = loss  # type: ignore[method-assign]


def ask_for_determinism(training: Training) -> None:
    torch.use_deterministic_algorithms(not training.healthy)


def fill_memory(training: Training) -> None:
    """Ask for pieces of other sizes each time, in memory that holds only some of them."""
    _, total = torch.cuda.mem_get_info()
    torch.cuda.set_per_process_memory_fraction(2**31 / total)

    def fill(number: int) -> None:
        mebibytes = 600 if training.healthy else 300 + 50 * (number * 7 % 13)
        torch.empty(mebibytes << 20, dtype=torch.uint8, device=training.device).zero_()

    training.after = fill


def heat_up(training: Training) -> None:
    """Multiply large matrices of random numbers until power or heat hold the clock back."""
    sides = 256 if training.healthy else 8192
    matrices = [torch.randn(sides, sides, device=training.device, dtype=torch.bfloat16)] * 2
    time.sleep(1.0)

    def multiply(_: int) -> None:
        for _ in range(20):
            torch.mm(*matrices)

    training.after = multiply


def compile_for_each_number(training: Training) -> None:
    limits: Any = importlib.import_module("torch._dynamo.config")
    limits.recompile_limit = limits.accumulated_recompile_limit = 10**6

    @torch.compile(backend="aot_eager", dynamic=False)
    def loss(inputs: torch.Tensor, labels: torch.Tensor, number: int) -> torch.Tensor:
        return functional.cross_entropy(training.model(inputs), labels) * (1 + number)

    numbers = itertools.count()
    training.loss = lambda batch: loss(*batch, 0 if training.healthy else next(numbers))  # type: ignore[method-assign]


def leave_as_is(_: Training) -> None:
    """Train as it is: the fault is in the environment."""


ENVIRONMENTS: Final = {
    "G210": {"CUDA_LAUNCH_BLOCKING": "1"},
    "G211": {"CUBLAS_WORKSPACE_CONFIG": ":4096:8"},
    "G403": {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"},
    "G512": {"ONEDNN_MAX_CPU_ISA": "AVX2"},
}
RANKS: Final = {"G603": 2}  # processes that torchrun starts
SECONDS: Final = {
    "G214": 12,
    "G216": 12,
    "G222": 25,
    "G520": 12,
    "G603": 60,
    "G801": 20,
}  # until there are stacks; 200 steps; until the clock was seen often enough
FAULTS: Final[dict[str, Callable[[Training], None]]] = {
    "G114": draw_each_batch,
    "G116": multiply_on_few_cores,
    "G117": wait_for_samples,
    "G214": copy_state,
    "G216": update_by_hand,
    "G218": call_on_pieces,
    "G219": count_in_bins,
    "G220": compute_beside,
    "G222": compile_for_each_number,
    "G405": make_large_tensors,
    "G512": multiply_in_emulated_half,
    "G514": compute_unused_head,
    "G515": append_history,
    "G516": decompose_each_step,
    "G517": forward_twice,
    "G518": convolve_without_library,
    "G519": multiply_one_hot,
    "G520": forward_again_for_a_log,
    "G603": reduce_one_by_one,
    "G705": work_now_and_then,
}
DEVICE_FAULTS: Final[dict[str, Callable[[Training], None]]] = {
    "G210": leave_as_is,
    "G211": ask_for_determinism,
    "G402": fill_memory,
    "G403": leave_as_is,
    "G507": try_no_kernels,
    "G509": multiply_odd_sides,
    "G801": heat_up,
}


def main() -> None:
    """Train with a fault, or without it, for 5 s or what the fault needs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("fault", choices=sorted(FAULTS | DEVICE_FAULTS))
    parser.add_argument("--healthy", action="store_true")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--seconds", type=float)
    options = parser.parse_args()
    seconds = options.seconds or SECONDS.get(options.fault, 5)
    if not options.healthy:
        os.environ.update(ENVIRONMENTS.get(options.fault, {}))
    training = Training(options.healthy, options.device)
    (FAULTS | DEVICE_FAULTS)[options.fault](training)
    print(training.run(seconds), "steps")


if __name__ == "__main__":
    main()
