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


def loader(count: int = 64, **more: object) -> DataLoader[tuple[Tensor, ...]]:
    data = TensorDataset(torch.arange(count * FEATURES, dtype=torch.float32).reshape(count, -1))
    return DataLoader(data, batch_size=BATCH, shuffle=True, **more)  # pyright: ignore[reportArgumentType]


def made() -> tuple[nn.Module, torch.optim.Optimizer]:
    model = nn.Linear(FEATURES, 1)
    return model, torch.optim.SGD(model.parameters(), 1e-6)


def loss_of(model: nn.Module, batch: Tensor) -> Tensor:
    return model(batch).square().mean()


def step(model: nn.Module, optimizer: torch.optim.Optimizer, batch: Tensor) -> None:
    optimizer.zero_grad()
    loss_of(model, batch).backward()
    optimizer.step()


def epochs(batches: DataLoader[tuple[Tensor, ...]], many: int = 8) -> Iterator[Tensor]:
    for _ in range(many):
        for (batch,) in batches:
            yield batch


def plain() -> None:
    model, optimizer = made()
    atexit.register(print, "atexit")
    print("begun")
    try:
        for batch in epochs(loader()):
            step(model, optimizer, batch)
    except BaseException:  # noqa: BLE001 - is what must not run
        print("except")
    finally:
        print("finally")


def accumulation() -> None:
    model, optimizer = made()
    for number, batch in enumerate(epochs(loader(), 20)):
        loss_of(model, batch).backward()
        if number % 4 == 3:
            optimizer.step()
            optimizer.zero_grad()


def gan() -> None:
    (one, often), (other, seldom) = made(), made()
    for number, batch in enumerate(epochs(loader(), 20)):
        step(one, often, batch)
        if number % 2:
            step(other, seldom, batch)


def no_optimizer() -> None:
    for _ in epochs(loader()):
        pass


def workers() -> None:
    model, optimizer = made()
    for batch in epochs(loader(num_workers=2, persistent_workers=True)):
        step(model, optimizer, batch)


def repeating() -> None:
    model, optimizer = made()
    for _ in range(4):
        for batch in DataLoader(Numbers(), batch_size=BATCH, num_workers=2):
            step(model, optimizer, batch)


def scaled() -> None:
    model, optimizer = made()
    scaler = torch.amp.GradScaler("cpu")
    for batch in epochs(loader()):
        optimizer.zero_grad()
        scaler.scale(loss_of(model, batch)).backward()
        scaler.step(optimizer)
        scaler.update()


def short() -> None:
    model, optimizer = made()
    for batch in epochs(loader(), 1):
        step(model, optimizer, batch)
    for _ in range(3):
        optimizer.zero_grad()
    os._exit(3)


def raising() -> None:
    short_model, optimizer = made()
    for number, batch in enumerate(epochs(loader())):
        step(short_model, optimizer, batch)
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
