"""Tell shapes apart by points on their surface."""

import argparse

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Shapes(Dataset):
    """Spheres, boxes, cylinders and cones, of 256 points each."""

    def __init__(self, count=512, points=256, seed=0):
        rng = np.random.default_rng(seed)
        self.labels = rng.integers(4, size=count)
        self.points = np.empty((count, points, 3))
        for n, label in enumerate(self.labels):
            p = rng.normal(size=(points, 3))
            if label == 0:
                p /= np.linalg.norm(p, axis=1, keepdims=True)
            elif label == 1:
                p /= np.abs(p).max(axis=1, keepdims=True)
            else:
                p[:, :2] /= np.linalg.norm(p[:, :2], axis=1, keepdims=True)
                p[:, 2] = rng.uniform(-1, 1, points)
                if label == 3:
                    p[:, :2] *= (1 - p[:, 2:]) / 2
            self.points[n] = p + rng.normal(scale=0.02, size=p.shape)

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, n):
        angle = np.pi * 2 * (n % 16) / 16
        turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
        points = self.points[n].copy()
        points[:, :2] = points[:, :2] @ turn
        return torch.from_numpy(points), int(self.labels[n])


def shared(*sizes):
    layers = []
    for into, out in zip(sizes, sizes[1:]):
        layers += [nn.Conv1d(into, out, 1), nn.BatchNorm1d(out), nn.ReLU()]
    return nn.Sequential(*layers)


class PointNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.near = shared(3, 48, 48)
        self.far = shared(48, 64, 192)
        self.decide = nn.Sequential(nn.Linear(192, 64), nn.ReLU(), nn.Dropout(0.3), nn.Linear(64, 4))

    def forward(self, points):
        x = self.far(self.near(points.transpose(1, 2)))
        return self.decide(x.amax(2))


def run(epochs):
    torch.manual_seed(0)
    net = PointNet().double()  # the points are doubles
    loader = DataLoader(Shapes(), batch_size=16, shuffle=True, drop_last=True)
    optimizer = torch.optim.Adam(net.parameters())
    criterion = nn.CrossEntropyLoss(label_smoothing=0.1)
    for epoch in range(epochs):
        right = torch.zeros((), dtype=torch.long)
        for points, labels in loader:
            optimizer.zero_grad()
            logits = net(points)
            criterion(logits, labels).backward()
            optimizer.step()
            right += (logits.argmax(1) == labels).sum()
        print(f"{epoch + 1:3d}  {right.item() / len(loader.dataset):.1%}")


if __name__ == "__main__":
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--epochs", type=int, default=20)
    run(arguments.parse_args().epochs)
