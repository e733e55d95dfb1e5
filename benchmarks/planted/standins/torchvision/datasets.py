import pickle
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch.utils.data import Dataset


class MNIST(Dataset):
    owner = "MNIST"

    def __init__(self, root, train=True, transform=None, target_transform=None, download=False):
        self.transform, self.target_transform = transform, target_transform
        raw = Path(root) / self.owner / "raw"
        name = "train" if train else "t10k"
        pictures = (raw / f"{name}-images-idx3-ubyte").read_bytes()[16:]
        labels = (raw / f"{name}-labels-idx1-ubyte").read_bytes()[8:]
        self.data = torch.frombuffer(bytearray(pictures), dtype=torch.uint8).view(-1, 28, 28)
        self.targets = torch.frombuffer(bytearray(labels), dtype=torch.uint8).long()
        self.classes = [str(i) for i in range(10)]

    def __len__(self):
        return len(self.data)

    def __getitem__(self, index):
        image, target = Image.fromarray(self.data[index].numpy()), int(self.targets[index])
        if self.transform is not None:
            image = self.transform(image)
        if self.target_transform is not None:
            target = self.target_transform(target)
        return image, target


class FashionMNIST(MNIST):
    owner = "FashionMNIST"


class CIFAR10(Dataset):
    meta = {}  # where torchvision keeps the sum of its file of names

    def __init__(self, root, train=True, transform=None, target_transform=None, download=False):
        self.transform, self.target_transform = transform, target_transform
        base = Path(root) / "cifar-10-batches-py"
        names = [f"data_batch_{i}" for i in range(1, 6)] if train else ["test_batch"]
        rows = [pickle.loads((base / name).read_bytes()) for name in names]
        self.data = np.vstack([row["data"] for row in rows])
        self.data = self.data.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
        self.targets = [label for row in rows for label in row["labels"]]

    def __len__(self):
        return len(self.data)

    def __getitem__(self, index):
        image, target = Image.fromarray(self.data[index]), self.targets[index]
        if self.transform is not None:
            image = self.transform(image)
        return image, target


class ImageFolder(Dataset):
    def __init__(self, root, transform=None, target_transform=None):
        self.transform = transform
        self.classes = sorted(path.name for path in Path(root).iterdir() if path.is_dir())
        self.samples = [
            (str(path), at)
            for at, name in enumerate(self.classes)
            for path in sorted((Path(root) / name).iterdir())
        ]
        self.imgs = self.samples

    def __len__(self):
        return len(self.samples)

    def __getitem__(self, index):
        path, target = self.samples[index]
        image = Image.open(path).convert("RGB")
        return (image if self.transform is None else self.transform(image)), target
