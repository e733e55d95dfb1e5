"""The reference story: a network on a folder of JPEG files; batches are made in the training."""

import tempfile
from io import BytesIO
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import nn
from torch.utils.data import DataLoader, Dataset

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def make_pictures(folder: Path, count: int) -> list[Path]:
    """Write JPEG files of grain and shapes."""
    paths = [folder / f"{number:04d}.jpg" for number in range(count)]
    for number, path in enumerate(paths):
        draw = np.random.default_rng(number)
        coarse = draw.integers(0, 255, (30, 40, 3), dtype=np.uint8)
        Image.fromarray(coarse).resize((500, 375)).save(path, quality=92)
    return paths


class Pictures(Dataset[tuple[torch.Tensor, int]]):
    """Pictures of a folder, decoded, cropped and mirrored when they are asked for."""

    def __init__(self, paths: list[Path]) -> None:
        self.paths = paths

    def __len__(self) -> int:
        return 10 * len(self.paths)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        data = self.paths[index % len(self.paths)].read_bytes()
        picture = Image.open(BytesIO(data)).convert("RGB").resize((112, 112))
        pixels = torch.from_numpy(np.asarray(picture).copy()).permute(2, 0, 1).float() / 255
        return pixels, index % 10


def main() -> None:
    """Train for two epochs."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    layers: list[nn.Module] = []
    for before, after in ((3, 16), (16, 32), (32, 32)):
        layers += [nn.Conv2d(before, after, 3, stride=2), nn.BatchNorm2d(after), nn.ReLU()]
    model = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10))
    model.to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3, foreach=False)
    with tempfile.TemporaryDirectory() as folder:
        pictures = Pictures(make_pictures(Path(folder), 64))
        for _ in range(2):
            for inputs, classes in DataLoader(pictures, batch_size=16):
                loss = nn.functional.cross_entropy(model(inputs.to(DEVICE)), classes.to(DEVICE))
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()


if __name__ == "__main__":
    main()
