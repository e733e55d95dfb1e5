"""Find rectangles in pictures: a grid of anchors, each with a score and a correction."""

import argparse
import math

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

SIDE, CELLS, SIZES = 64, 8, (10.0, 18.0, 30.0)


class Rectangles(Dataset):
    def __init__(self, count=256):
        gen = torch.Generator().manual_seed(9)
        self.pictures = torch.rand(count, 3, SIDE, SIDE, generator=gen) * 0.2
        self.boxes = []
        for picture in self.pictures:
            n = int(torch.randint(3, 8, (1,), generator=gen))
            corner = torch.rand(n, 2, generator=gen) * (SIDE - 20)
            size = 6 + torch.rand(n, 2, generator=gen) * 14
            boxes = torch.cat([corner, corner + size], 1)
            for x0, y0, x1, y1 in boxes.int().tolist():
                picture[:, y0:y1, x0:x1] += 0.5
            self.boxes.append(boxes)

    def __len__(self):
        return len(self.boxes)

    def __getitem__(self, i):
        return self.pictures[i], {"boxes": self.boxes[i], "id": i}


def anchors():
    made = []
    for y in range(CELLS):
        for x in range(CELLS):
            cx, cy = (x + 0.5) * SIDE / CELLS, (y + 0.5) * SIDE / CELLS
            made += [[cx - s / 2, cy - s / 2, cx + s / 2, cy + s / 2] for s in SIZES]
    return torch.tensor(made)


def overlap(a, b):
    low = torch.maximum(a[:, None, :2], b[None, :, :2])
    high = torch.minimum(a[:, None, 2:], b[None, :, 2:])
    shared = (high - low).clamp(min=0).prod(2)
    area_a = (a[:, 2:] - a[:, :2]).prod(1)
    area_b = (b[:, 2:] - b[:, :2]).prod(1)
    return shared / (area_a[:, None] + area_b[None] - shared)


class Detector(nn.Module):
    def __init__(self):
        super().__init__()
        layers, into = [], 3
        for out in (16, 32, 48):
            layers += [nn.Conv2d(into, out, 3, 2, 1), nn.GroupNorm(8, out), nn.ReLU()]
            into = out
        self.body = nn.Sequential(*layers)
        self.head = nn.Conv2d(into, len(SIZES) * 5, 1)
        self.register_buffer("anchors", anchors())

    def forward(self, pictures):
        found = self.head(self.body(pictures))
        found = found.permute(0, 2, 3, 1).reshape(len(pictures), -1, 5)
        return found[..., 0], found[..., 1:]

    def loss(self, pictures, targets):
        scores, moves = self(pictures)
        total = 0.0
        for score, move, target in zip(scores, moves, targets):
            wanted, where = self.match(target["boxes"])
            total = total + nn.functional.binary_cross_entropy_with_logits(score, wanted)
            hit = wanted > 0
            if hit.any():
                total = total + nn.functional.smooth_l1_loss(move[hit], where[hit])
        return total / len(targets)

    def match(self, boxes):
        """Give each anchor a label, and what would move it onto its box."""
        wanted = torch.zeros(len(self.anchors))
        where = torch.zeros(len(self.anchors), 4)
        ious = overlap(boxes, self.anchors)
        for number in range(len(boxes)):
            best = ious[number].max().item()
            for anchor in range(len(self.anchors)):
                iou = ious[number, anchor].item()
                if iou > 0.5 or (iou == best and iou > 0):
                    wanted[anchor] = 1.0
                    where[anchor] = (boxes[number] - self.anchors[anchor]) / SIDE
        return wanted, where


def collate(batch):
    pictures, targets = zip(*batch)
    return torch.stack(pictures), list(targets)


def train_one_epoch(model, optimizer, loader):
    model.train()
    for pictures, targets in loader:
        loss = model.loss(pictures, targets)
        if not math.isfinite(loss.item()):
            raise SystemExit("the loss is not finite")
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def main(args):
    torch.manual_seed(4)
    model = Detector()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, nesterov=True)
    loader = DataLoader(Rectangles(), batch_size=8, shuffle=True, collate_fn=collate)
    for _ in range(args.epochs):
        train_one_epoch(model, optimizer, loader)
    print("done")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", default=8, type=int)
    main(parser.parse_args())
