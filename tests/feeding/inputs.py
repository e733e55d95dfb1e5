"""Small trainings whose input is odd in one way each; the first argument says in which."""

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, IterableDataset

FEATURES, COUNT, BATCH = 12, 96, 8
FOLDER = Path("files")


class Files(Dataset[tuple[torch.Tensor, int]]):
    """A file for each sample; what is odd happens in one of them."""

    def __init__(self, oddity: str) -> None:
        self.oddity = oddity

    def __len__(self) -> int:
        return COUNT

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        if self.oddity == "raises" and index % 16 == 3:
            raise ValueError(f"sample {index} is broken")
        if self.oddity == "always-raises":
            raise OSError("nothing is where it was")
        if self.oddity == "dies" and index > COUNT // 2:
            os.kill(os.getpid(), signal.SIGSEGV)
        if self.oddity == "prints":
            print("a sample", index)
        with (FOLDER / f"{index}.bin").open("rb") as file:
            data = bytearray(file.read())
        return torch.frombuffer(data, dtype=torch.uint8).float()[:FEATURES], index % 2


class Many(Files):
    """One that takes many indices at a time."""

    def __getitems__(self, indices: list[int]) -> list[tuple[torch.Tensor, int]]:
        return [self[index] for index in indices]


class Odd(Dataset[object]):
    """Samples of types of their own."""

    def __len__(self) -> int:
        return COUNT

    def __getitem__(self, index: int) -> object:
        return {"name": f"number {index}", "what": None, "x": torch.ones(FEATURES), "set": {index}}


class Stream(IterableDataset[tuple[torch.Tensor, int]]):
    """An iterable without a length."""

    def __iter__(self) -> Iterator[tuple[torch.Tensor, int]]:
        for index in range(COUNT):
            yield torch.ones(FEATURES) * index, index % 2


def collate_odd(samples: list[dict[str, object]]) -> tuple[torch.Tensor, torch.Tensor]:
    xs = [sample["x"] for sample in samples if isinstance(sample["x"], torch.Tensor)]
    return torch.stack(xs), torch.zeros(len(samples), dtype=torch.long)


def make_loader(oddity: str) -> "DataLoader[object]":
    workers = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    if oddity == "stream":
        return DataLoader(Stream(), batch_size=BATCH, num_workers=workers)  # pyright: ignore[reportReturnType]
    if oddity == "odd":
        return DataLoader(Odd(), BATCH, collate_fn=collate_odd, num_workers=workers)
    dataset = Many(oddity) if oddity == "many" else Files(oddity)
    return DataLoader(dataset, BATCH, shuffle=oddity != "in-order", num_workers=workers)  # pyright: ignore[reportReturnType]


def train_without_loader(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    for _ in range(1000):
        optimizer.zero_grad()
        model(torch.ones(BATCH, FEATURES)).sum().backward()
        optimizer.step()


def main() -> None:
    oddity = sys.argv[1]
    FOLDER.mkdir(exist_ok=True)
    for index in range(COUNT):
        path = FOLDER / f"{index}.bin"
        if not path.exists():
            path.write_bytes(bytes([index]) * 4096)
    model = nn.Linear(FEATURES, 2)
    optimizer = torch.optim.SGD(model.parameters(), 1e-3)
    if oddity == "no-loader":
        train_without_loader(model, optimizer)
        return
    loader = make_loader(oddity)
    if oddity == "unused":
        return
    for epoch in range(100):
        for x, y in loader:  # pyright: ignore[reportGeneralTypeIssues, reportUnknownVariableType]
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()  # pyright: ignore[reportUnknownArgumentType]
            optimizer.step()
        Path("checkpoint.pt").write_text(f"epoch {epoch}", encoding="utf-8")


if __name__ == "__main__":
    main()
