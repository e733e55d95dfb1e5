"""The reference story: ResNet-50 on a folder of JPEG files, written as most people write it.

Nothing here knows of a profiler. The files are made at the first start.
"""

import argparse
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import nn
from torch.utils.data import DataLoader
from torchvision import datasets, models, transforms


def make_picture(path: Path) -> None:
    """Write one JPEG file of shapes and grain, about 100 kB."""
    draw = np.random.default_rng(abs(hash(path.name)) % 2**32)
    coarse = draw.integers(0, 255, (30, 40, 3), dtype=np.uint8)
    smooth = np.asarray(Image.fromarray(coarse).resize((500, 375), Image.Resampling.BICUBIC))
    grain = draw.integers(-12, 12, smooth.shape)
    Image.fromarray((smooth + grain).clip(0, 255).astype(np.uint8)).save(path, quality=92)


def make_pictures(folder: Path, count: int, classes: int = 50) -> None:
    """Write the folder that ImageFolder expects, once."""
    paths = []
    for number in range(count):
        place = folder / f"class{number % classes:02d}"
        place.mkdir(parents=True, exist_ok=True)
        paths.append(place / f"{number:05d}.jpg")
    with ProcessPoolExecutor() as pool:
        list(pool.map(make_picture, [path for path in paths if not path.exists()], chunksize=50))


def main() -> None:
    """Train for a number of steps."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=Path("pictures"))
    parser.add_argument("--pictures", type=int, default=4000)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--steps", type=int, default=120)
    parser.add_argument("--device", default="cuda")
    options = parser.parse_args()

    make_pictures(options.data, options.pictures)
    torch.manual_seed(0)
    augment = transforms.Compose(
        [
            transforms.RandomResizedCrop(224),
            transforms.RandomHorizontalFlip(),
            transforms.ToTensor(),
            transforms.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
        ]
    )
    pictures = datasets.ImageFolder(str(options.data), augment)
    loader = DataLoader(
        pictures, batch_size=options.batch, shuffle=True, num_workers=options.workers
    )
    model = models.resnet50(num_classes=len(pictures.classes)).to(options.device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)
    step, begun = 0, time.perf_counter()
    while step < options.steps:
        for inputs, classes in loader:
            outputs = model(inputs.to(options.device))
            loss = nn.functional.cross_entropy(outputs, classes.to(options.device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            step += 1
            if step % 20 == 0:
                rate = step * options.batch / (time.perf_counter() - begun)
                print(f"step {step}: loss {loss.item():.3f}, {rate:.0f} samples/s", flush=True)
            if step == options.steps:
                break


if __name__ == "__main__":
    main()
