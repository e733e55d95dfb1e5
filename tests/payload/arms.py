"""Trainings that are left at a planned step, each in a process of its own with torch imported once.

``arms.py FOLDER NAME…``: what a training prints goes to FOLDER/NAME; here its exit code is printed.
"""

import atexit
import os
import random
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
import torch._dynamo  # pyright: ignore[reportUnusedImport] - every optimizer does
from torch import Tensor, nn
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

FEATURES, BATCH = 4, 8
WENT_ON = 9


class Numbers(IterableDataset[Tensor]):
    """An iterable that gives every worker all of it."""

    def __iter__(self) -> Iterator[Tensor]:
        return (torch.full((FEATURES,), float(number)) for number in range(64))


def make_loader(count: int = 64, **options: object) -> DataLoader[tuple[Tensor, ...]]:
    data = TensorDataset(torch.arange(count * FEATURES, dtype=torch.float32).reshape(count, -1))
    return DataLoader(data, batch_size=BATCH, shuffle=True, **options)  # pyright: ignore[reportArgumentType]


def make_training() -> tuple[nn.Module, torch.optim.Optimizer]:
    model = nn.Linear(FEATURES, 1)
    return model, torch.optim.SGD(model.parameters(), 1e-6)


def compute_loss(model: nn.Module, batch: Tensor) -> Tensor:
    return model(batch).square().mean()


def train_step(model: nn.Module, optimizer: torch.optim.Optimizer, batch: Tensor) -> None:
    optimizer.zero_grad()
    compute_loss(model, batch).backward()
    optimizer.step()


def batches_of_epochs(
    batches: DataLoader[tuple[Tensor, ...]], n_epochs: int = 8
) -> Iterator[Tensor]:
    for _ in range(n_epochs):
        for (batch,) in batches:
            yield batch


def plain() -> None:
    model, optimizer = make_training()
    atexit.register(print, "atexit")
    print("begun")
    try:
        for batch in batches_of_epochs(make_loader()):
            train_step(model, optimizer, batch)
    except BaseException:  # noqa: BLE001 - is what must not run
        print("except")
    finally:
        print("finally")


def accumulation() -> None:
    model, optimizer = make_training()
    for number, batch in enumerate(batches_of_epochs(make_loader(), 20)):
        compute_loss(model, batch).backward()
        if number % 4 == 3:
            optimizer.step()
            optimizer.zero_grad()


def gan() -> None:
    (critic, critic_optimizer), (maker, maker_optimizer) = make_training(), make_training()
    for number, batch in enumerate(batches_of_epochs(make_loader(), 20)):
        train_step(critic, critic_optimizer, batch)
        if number % 2:
            train_step(maker, maker_optimizer, batch)


def no_optimizer() -> None:
    for _ in batches_of_epochs(make_loader()):
        pass


def workers() -> None:
    model, optimizer = make_training()
    for batch in batches_of_epochs(make_loader(num_workers=2, persistent_workers=True)):
        train_step(model, optimizer, batch)


def repeating() -> None:
    model, optimizer = make_training()
    for _ in range(4):
        for batch in DataLoader(Numbers(), batch_size=BATCH, num_workers=2):
            train_step(model, optimizer, batch)


def scaled() -> None:
    model, optimizer = make_training()
    scaler = torch.amp.GradScaler("cpu")
    for batch in batches_of_epochs(make_loader()):
        optimizer.zero_grad()
        scaler.scale(compute_loss(model, batch)).backward()
        scaler.step(optimizer)
        scaler.update()


def short() -> None:
    model, optimizer = make_training()
    for batch in batches_of_epochs(make_loader(), 1):
        train_step(model, optimizer, batch)
    for _ in range(3):
        optimizer.zero_grad()
    os._exit(3)


def raising() -> None:
    short_model, optimizer = make_training()
    for number, batch in enumerate(batches_of_epochs(make_loader())):
        train_step(short_model, optimizer, batch)
        if number == 7:
            sys.exit("it gave up")


def main(folder: Path, names: list[str]) -> None:
    print("drawn", random.random(), torch.rand(1).item())
    for name in names:
        sys.stdout.flush()
        child = os.fork()
        if child == 0:
            file = os.open(folder / name, os.O_WRONLY | os.O_CREAT)
            os.dup2(file, 1)
            os.dup2(file, 2)
            training: Callable[[], None] = globals()[name]
            training()
            os._exit(WENT_ON)
        print(name, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), child)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
