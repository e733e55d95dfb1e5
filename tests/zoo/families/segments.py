"""E: a U-Net that segments pictures, channels first."""
# pyright: basic, reportMissingImports=false, reportCallIssue=false

from argparse import Namespace
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits
from torch.utils.data import DataLoader, TensorDataset

from tests.zoo.job import Job, Steps

USUAL = {
    "workers": 0,
    "pin": False,
    "non_blocking": False,
    "amp": False,
    "channels_last": False,
    "benchmark": False,
    "double_loss": False,  # in float64
    "foreach": None,
    "fused": None,
    "threads": None,
    "dice_by_picture": False,  # a Python loop over the pictures of a batch
    "hard_only": False,  # the loss of pixels that are guessed badly
}
SIZES = {
    "c": {"side": 64, "wide": 8, "deep": 3, "batch": 4, "count": 64},
    "g": {"side": 512, "wide": 32, "deep": 4, "batch": 16, "count": 128},
}


def double(into: int, out: int) -> nn.Sequential:
    """Return two convolutions in a row."""
    return nn.Sequential(
        nn.Conv2d(into, out, 3, padding=1),
        nn.BatchNorm2d(out),
        nn.ReLU(inplace=True),
        nn.Conv2d(out, out, 3, padding=1),
        nn.BatchNorm2d(out),
        nn.ReLU(inplace=True),
    )


class UNet(nn.Module):
    """Down, and up again with what was seen on the way down."""

    def __init__(self, wide: int, deep: int) -> None:
        super().__init__()
        widths = [wide * 2**at for at in range(deep)]
        self.down = nn.ModuleList(
            double(before, after) for before, after in zip([3, *widths[:-1]], widths, strict=True)
        )
        back = list(reversed(widths))
        self.up = nn.ModuleList(
            nn.ConvTranspose2d(before, after, 2, 2) for before, after in pairwise(back)
        )
        self.join = nn.ModuleList(double(2 * after, after) for after in back[1:])
        self.out = nn.Conv2d(wide, 1, 1)
        self.pool = nn.MaxPool2d(2)

    def forward(self, x: Tensor) -> Tensor:
        seen: list[Tensor] = []
        for at, layer in enumerate(self.down):
            x = layer(x if at == 0 else self.pool(x))
            seen.append(x)
        seen.pop()
        for up, join in zip(self.up, self.join, strict=True):
            x = join(torch.cat((up(x), seen.pop()), dim=1))
        return self.out(x)


def make(options: Namespace, device: torch.device) -> Job:
    torch.manual_seed(0)
    model = UNet(options.wide, options.deep).to(device)
    if options.channels_last:
        model = model.to(memory_format=torch.channels_last)
    pictures = torch.randint(256, (options.count, 3, options.side, options.side), dtype=torch.uint8)
    masks = torch.rand(options.count, 1, options.side, options.side) > 0.5
    loader = {
        "batch_size": options.batch,
        "sampler": torch.utils.data.RandomSampler(
            range(options.count), replacement=True, num_samples=1_000_000
        ),
        "num_workers": options.workers,
        "pin_memory": options.pin,
    }
    return Job(model, TensorDataset(pictures, masks), device, options, train, loader)


def dice(logits: Tensor, masks: Tensor) -> Tensor:
    """Return how little the guess overlaps with the mask."""
    guess = torch.sigmoid(logits)
    both = (guess * masks).sum((1, 2, 3))
    return (1 - (2 * both + 1) / (guess.sum((1, 2, 3)) + masks.sum((1, 2, 3)) + 1)).mean()


def hardest(logits: Tensor, masks: Tensor) -> Tensor:
    """Return the loss of the pixels that are guessed badly."""
    each = binary_cross_entropy_with_logits(logits, masks, reduction="none")
    return each[each > each.detach().mean()].mean()


def train(job: Job) -> Steps:
    options, model, device = job.options, job.model, job.device
    if options.threads is not None:
        torch.set_num_threads(options.threads)
    torch.backends.cudnn.benchmark = options.benchmark
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=1e-4, foreach=options.foreach, fused=options.fused
    )
    loader = DataLoader(job.data, **job.loader)
    layout = torch.channels_last if options.channels_last else torch.contiguous_format
    while True:
        for pictures, masks in loader:
            x = pictures.to(device, non_blocking=options.non_blocking)
            x = (x.float() / 255).to(memory_format=layout)
            y = masks.to(device, non_blocking=options.non_blocking).float()
            optimizer.zero_grad(set_to_none=True)
            with torch.autocast(device.type, torch.bfloat16, enabled=options.amp):
                logits = model(x)
            logits = logits.double() if options.double_loss else logits.float()
            pixels = hardest if options.hard_only else binary_cross_entropy_with_logits
            loss = pixels(logits, y.to(logits.dtype))
            if options.dice_by_picture:
                for at in range(len(y)):
                    loss = loss + dice(logits[at : at + 1], y[at : at + 1]) / len(y)
            else:
                loss = loss + dice(logits, y)
            loss.backward()
            optimizer.step()
            yield
