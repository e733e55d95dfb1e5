"""Train a small classifier on JPEG files, as many scripts do: one process, default DataLoader.

It has a well-known fault. `gapless demo` runs it unchanged and says what it is.
"""

import argparse
from pathlib import Path

import torch
from PIL import Image
from torch import nn
from torch.utils.data import DataLoader, Dataset

SIDE, CLASSES = 64, 10


class Pictures(Dataset):
    """Decode, crop and flip one file a sample."""

    def __init__(self, folder: Path) -> None:
        self.files = sorted(folder.glob("*.jpg"))

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        path = self.files[index]
        with Image.open(path) as image:
            picture = image.convert("RGB").resize((SIDE, SIDE))
        if torch.rand(()) < 0.5:
            picture = picture.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
        pixels = torch.frombuffer(bytearray(picture.tobytes()), dtype=torch.uint8)
        return pixels.view(SIDE, SIDE, 3).permute(2, 0, 1) / 255, int(path.stem) % CLASSES


def make_pictures(folder: Path, count: int) -> None:
    """Write JPEG files of smooth noise, once."""
    folder.mkdir(parents=True, exist_ok=True)
    noise = torch.Generator().manual_seed(0)
    for number in range(count):
        path = folder / f"{number:04d}.jpg"
        if not path.exists():
            coarse = torch.rand(1, 3, 24, 32, generator=noise)
            fine = torch.rand(1, 3, 480, 640, generator=noise)
            smooth = nn.functional.interpolate(coarse, size=(480, 640), mode="bicubic")
            pixels = (smooth * 200 + fine * 40).clamp(0, 255).byte()[0].permute(1, 2, 0)
            Image.fromarray(pixels.contiguous().numpy()).save(path, quality=90)


def main() -> None:
    """Train for some epochs."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, default=Path("pictures"))
    parser.add_argument("--pictures", type=int, default=256)
    parser.add_argument("--epochs", type=int, default=4)
    options = parser.parse_args()

    torch.manual_seed(0)
    make_pictures(options.data, options.pictures)
    loader = DataLoader(Pictures(options.data), batch_size=16, shuffle=True)
    model = nn.Sequential(
        nn.Conv2d(3, 16, 3, stride=2, padding=1),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.Conv2d(16, 32, 3, stride=2, padding=1),
        nn.BatchNorm2d(32),
        nn.ReLU(),
        nn.Conv2d(32, 64, 3, stride=2, padding=1),
        nn.BatchNorm2d(64),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(64, CLASSES),
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    for epoch in range(options.epochs):
        total = 0.0
        for pictures, classes in loader:
            loss = nn.functional.cross_entropy(model(pictures), classes)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
        print(f"epoch {epoch}: loss {total / len(loader):.3f}", flush=True)


if __name__ == "__main__":
    main()
