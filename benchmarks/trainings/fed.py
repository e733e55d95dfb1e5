"""Small trainings, each of which one drop-in is for: by ``--kind``.

``mounted``: files of a mount that takes some milliseconds to open one. ``padded``: texts that are
padded to the longest of their batch. ``bytes``: pictures that become floats before they are copied.
``handmade``: the same, made by the data set's own code. ``jpegs``: files that torchvision's
transforms crop and flip. ``cold``: files that are out of memory whenever an epoch begins.
"""

import argparse
import builtins
import os
import time
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

OPEN_S = 0.004  # as a network file system takes
FAR = Path("far")
open_near = builtins.open


def open_far(file: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - as the built-in
    if FAR.resolve() in Path(str(file)).resolve().parents:
        time.sleep(OPEN_S)
    return open_near(file, *args, **kwargs)


class Mounted(Dataset[Tensor]):
    def __init__(self) -> None:
        FAR.mkdir(exist_ok=True)
        self.files = [FAR / f"{number}.bin" for number in range(1024)]
        for number, file in enumerate(self.files):
            file.write_bytes(bytes([number % 256]) * 20_000)

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int) -> Tensor:
        with open(self.files[index], "rb") as file:  # noqa: PTH123 - it is slow
            return torch.frombuffer(bytearray(file.read(256)), dtype=torch.uint8) / 255


class Cold(Dataset[Tensor]):
    def __init__(self) -> None:
        Path("cold").mkdir(exist_ok=True)
        self.files = [Path("cold") / f"{number}.bin" for number in range(1024)]
        for number, file in enumerate(self.files):
            file.write_bytes(bytes([number % 256]) * 100_000)
        os.sync()

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int) -> Tensor:
        return torch.frombuffer(bytearray(self.files[index].read_bytes()), dtype=torch.uint8)[:256]

    def drop(self) -> None:
        for path in self.files:
            with path.open("rb") as file:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


class Padded(Dataset[Tensor]):
    def __init__(self) -> None:
        self.texts = ["word " * (4 + number * 37 % 97) for number in range(2048)]

    def __len__(self) -> int:
        return len(self.texts)

    def __getitem__(self, index: int) -> Tensor:
        return torch.tensor([len(word) for word in self.texts[index].split()]).float()


class Bytes(Dataset[Tensor]):
    def __init__(self) -> None:
        self.pictures = torch.randint(0, 256, (512, 3, 224, 224), dtype=torch.uint8)

    def __len__(self) -> int:
        return 4 * len(self.pictures)

    def __getitem__(self, index: int) -> Tensor:
        return self.pictures[index % len(self.pictures)]


class Handmade(Bytes):
    def __getitem__(self, index: int) -> Tensor:
        return (super().__getitem__(index).float() / 255 - 0.5) / 0.25


def open_jpegs() -> Dataset[Any]:
    from torchvision import datasets, transforms

    from benchmarks.trainings.pictures import make_pictures

    make_pictures(Path("jpegs"), 1000)
    steps = [
        transforms.RandomResizedCrop(224),
        transforms.RandomHorizontalFlip(),
        transforms.ToTensor(),
        transforms.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
    ]
    return datasets.ImageFolder("jpegs", transforms.Compose(steps))


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.states, self.head = nn.GRU(1, 96, batch_first=True), nn.Linear(96, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.states(x[:, :, None])[0].mean(1))


class Convolutional(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Conv2d(3, 16, 5, 4), nn.ReLU(), nn.AdaptiveAvgPool2d(1))
        self.head = nn.Linear(16, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.layers(x).flatten(1))


def pad(samples: list[Tensor]) -> Tensor:
    return nn.utils.rnn.pad_sequence(samples, batch_first=True)


def main() -> None:
    """Train for some epochs."""
    parser = argparse.ArgumentParser(description=__doc__)
    kinds = ("mounted", "cold", "padded", "bytes", "handmade", "jpegs")
    parser.add_argument("--kind", choices=kinds, required=True)
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--device", default="cpu")
    options = parser.parse_args()
    builtins.open = open_far
    torch.set_num_threads(1)
    torch.manual_seed(0)
    if options.kind == "mounted":
        loader = DataLoader(Mounted(), 16, shuffle=True, num_workers=2)
        model: nn.Module = nn.Sequential(nn.Linear(256, 64), nn.ReLU(), nn.Linear(64, 1))
    elif options.kind == "padded":
        loader = DataLoader(Padded(), 16, shuffle=True, num_workers=2, collate_fn=pad)
        model = Recurrent()
    elif options.kind == "jpegs":
        loader = DataLoader(open_jpegs(), 16, shuffle=True, num_workers=2)
        model = Convolutional()
    elif options.kind == "cold":
        loader = DataLoader(Cold(), 16, shuffle=True, num_workers=2)
        model = nn.Sequential(nn.Linear(256, 64), nn.ReLU(), nn.Linear(64, 1))
    else:
        pictures = Handmade() if options.kind == "handmade" else Bytes()
        loader = DataLoader(pictures, 64, shuffle=True, num_workers=4)
        model = Convolutional()
    model.to(options.device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for _ in range(options.epochs):
        if isinstance(loader.dataset, Cold):
            loader.dataset.drop()
        for batch in loader:
            x = batch[0] if options.kind == "jpegs" else batch
            x = x.float() / 255 - 0.5 if x.dtype == torch.uint8 else x
            wanted = torch.randn(len(x), 1).to(options.device)
            loss = nn.functional.mse_loss(model(x.to(options.device)), wanted)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


if __name__ == "__main__":
    main()
