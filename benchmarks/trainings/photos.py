"""Sort small photographs into five kinds, as a newcomer might; it makes them first."""

import argparse
import random
from pathlib import Path

import torch
from PIL import Image
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Photos(Dataset[tuple[torch.Tensor, int]]):
    def __init__(self, root: str) -> None:
        self.files = sorted(Path(root).glob("*/*.jpg"))
        self.kinds = sorted({f.parent.name for f in self.files})

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, i: int) -> tuple[torch.Tensor, int]:
        picture = Image.open(self.files[i]).convert("RGB").resize((64, 64))
        x = torch.frombuffer(bytearray(picture.tobytes()), dtype=torch.uint8)
        x = x.view(64, 64, 3).permute(2, 0, 1).float() / 255
        if random.random() < 0.5:
            x = x.flip(2)
        return x, self.kinds.index(self.files[i].parent.name)


def make_photos(root: str, n: int = 400) -> None:
    for i in range(n):
        f = Path(root) / f"kind{i % 5}" / f"{i}.jpg"
        f.parent.mkdir(parents=True, exist_ok=True)
        small = torch.randint(0, 255, (12, 16, 3), dtype=torch.uint8).numpy()
        Image.fromarray(small).resize((640, 480), Image.Resampling.BICUBIC).save(f, quality=90)


def main() -> None:
    p = argparse.ArgumentParser()
    p.add_argument("--data", default="photos")
    p.add_argument("--epochs", type=int, default=6)
    a = p.parse_args()
    if not Path(a.data).exists():
        make_photos(a.data)
    torch.manual_seed(0)
    loader = DataLoader(Photos(a.data), batch_size=16, shuffle=True)
    net = nn.Sequential(
        nn.Conv2d(3, 16, 3, 2, 1),
        nn.ReLU(),
        nn.Conv2d(16, 32, 3, 2, 1),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(4),
        nn.Flatten(),
        nn.Linear(512, 5),
    )
    opt = torch.optim.Adam(net.parameters(), lr=1e-3)
    for epoch in range(a.epochs):
        total = 0.0
        for x, y in loader:
            opt.zero_grad()
            loss = nn.functional.cross_entropy(net(x), y)
            loss.backward()
            opt.step()
            total += loss.item()
        print(f"epoch {epoch}: loss {total / len(loader):.3f}")


main()
