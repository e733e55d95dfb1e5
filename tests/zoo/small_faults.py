"""Small trainings with one fault each: ``python tests/zoo/small_faults.py FAULT [--healthy]``.

Each is the least that makes a rule speak of a real run on two processors; ``--healthy`` leaves the
fault out and changes nothing else.
"""

import argparse
import random
import threading
import time
from collections.abc import Callable, Iterator
from typing import Final

import torch
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

    def make_optimizer(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.model.parameters(), lr=0.01)

    def loss(self, batch: Batch) -> torch.Tensor:
        return functional.cross_entropy(self.model(batch[0]), batch[1])

    def run(self, seconds: float) -> int:
        """Train for so long; return how many steps that were."""
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
                if time.monotonic() > end_s:
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


FAULTS: Final[dict[str, Callable[[Training], None]]] = {
    "G114": draw_each_batch,
    "G117": wait_for_samples,
    "G218": call_on_pieces,
    "G220": compute_beside,
    "G514": compute_unused_head,
    "G515": append_history,
    "G516": decompose_each_step,
    "G517": forward_twice,
    "G519": multiply_one_hot,
    "G705": work_now_and_then,
}


def main() -> None:
    """Train with a fault, or without it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("fault", choices=sorted(FAULTS))
    parser.add_argument("--healthy", action="store_true")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--seconds", type=float, default=5.0)
    options = parser.parse_args()
    training = Training(options.healthy, options.device)
    FAULTS[options.fault](training)
    print(training.run(options.seconds), "steps")


if __name__ == "__main__":
    main()
