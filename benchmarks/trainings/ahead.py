"""A training whose host runs ahead of its device: nothing in it waits, everything is computing.

``ahead.py --kind products --steps 2000`` trains; ``ahead.py --kind products --truth tf32`` prints
as JSON what a step takes on the device without and with an edit, by events around blocks of steps
in turns (A B B A …), the device idle at both ends of each block.
"""

import argparse
import contextlib
import json
import statistics
from collections.abc import Callable, Generator

import torch
from torch import nn

BLOCK = 40  # steps
ROUNDS = 6


def products(size: int) -> tuple[nn.Module, torch.Tensor]:
    """Return a stack of square layers and a batch for it."""
    return nn.Sequential(*(nn.Linear(size, size) for _ in range(8))), torch.randn(size, size)


def encoder(size: int) -> tuple[nn.Module, torch.Tensor]:
    """Return an encoder of texts and a batch for it."""
    layer = nn.TransformerEncoderLayer(size, 8, 4 * size, batch_first=True, dropout=0.0)
    return nn.TransformerEncoder(layer, 4), torch.randn(64, 256, size)


def pictures(size: int) -> tuple[nn.Module, torch.Tensor]:
    """Return a small convolutional net and a batch for it."""
    layers = [nn.Conv2d(3 if at == 0 else size, size, 3, padding=1) for at in range(8)]
    blocks = [each for layer in layers for each in (layer, nn.BatchNorm2d(size), nn.ReLU())]
    return nn.Sequential(*blocks, nn.AdaptiveAvgPool2d(1)), torch.randn(128, 3, 64, 64)


KINDS = {"products": (products, 4096), "encoder": (encoder, 1024), "pictures": (pictures, 128)}


@contextlib.contextmanager
def edited(edit: str) -> Generator[None]:
    """Train with an edit: products in TF32, or the forward pass in bfloat16."""
    if edit == "tf32":
        torch.backends.cuda.matmul.allow_tf32 = True
        yield
        torch.backends.cuda.matmul.allow_tf32 = False
    elif edit == "bf16":
        with torch.autocast("cuda", torch.bfloat16):
            yield
    else:
        yield


def block_ms(step: Callable[[], None]) -> float:
    """Return what a step of a block takes on the device, in ms."""
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize()
    begin.record()
    for _ in range(BLOCK):
        step()
    end.record()
    torch.cuda.synchronize()
    return begin.elapsed_time(end) / BLOCK


def truth(edit: str, step: Callable[[], None]) -> dict[str, float]:
    """Return the steps without and with an edit, and the median of the blocks' ratios."""
    for side in ("", edit):
        with edited(side):
            block_ms(step)
    pairs = []
    for number in range(ROUNDS):
        times = {}
        for side in ("", edit) if number % 2 == 0 else (edit, ""):
            with edited(side):
                times[side] = block_ms(step)
        pairs.append((times[""], times[edit]))
    ratios = [before / after for before, after in pairs]
    return {
        "step_ms": statistics.median(before for before, _ in pairs),
        "edited_ms": statistics.median(after for _, after in pairs),
        "speedup": statistics.median(ratios),
        "least": min(ratios),
        "most": max(ratios),
    }


def main() -> None:
    """Train, or measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kind", choices=KINDS, required=True)
    parser.add_argument("--steps", type=int, default=100_000)
    parser.add_argument("--truth", choices=("tf32", "bf16"))
    parser.add_argument("--size", type=int, help="smaller, for a dry run")
    parser.add_argument("--device", default="cuda")
    options = parser.parse_args()
    make, size = KINDS[options.kind]
    model, batch = make(options.size or size)
    model, batch = model.to(options.device), batch.to(options.device)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)

    def step() -> None:
        optimizer.zero_grad()
        model(batch).square().mean().backward()
        optimizer.step()

    if options.truth is not None:
        print(json.dumps(truth(options.truth, step)))
        return
    for _ in range(options.steps):
        step()


if __name__ == "__main__":
    main()
