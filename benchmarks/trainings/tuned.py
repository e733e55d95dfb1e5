"""A large MLP on made-up numbers, written well; ``--read 20`` reads twenty losses in each step.

Nothing waits for data, products are in bfloat16, the optimizer is fused: there is nothing to gain.
The losses that are read back look like a fault, and cost next to nothing in so long a step.
"""

import argparse

import torch
from torch import nn


def main() -> None:
    """Train for a number of steps."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--width", type=int, default=8192)
    parser.add_argument("--depth", type=int, default=6)
    parser.add_argument("--batch", type=int, default=16_384)
    parser.add_argument("--read", type=int, default=0)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--threads", type=int)
    parser.add_argument("--device", default="cuda")
    options = parser.parse_args()

    torch.manual_seed(0)
    if options.threads is not None:
        torch.set_num_threads(options.threads)
    on_gpu = options.device.startswith("cuda")
    layers = [
        nn.Sequential(nn.Linear(options.width, options.width, bias=False), nn.ReLU())
        for _ in range(options.depth)
    ]
    model = nn.Sequential(*layers).to(options.device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, fused=True)
    inputs = torch.randn(options.batch, options.width, device=options.device)
    for step in range(1, options.steps + 1):
        with torch.autocast(options.device, torch.bfloat16, enabled=on_gpu):
            outputs = model(inputs)
        losses = (outputs.float() - inputs).square().mean(1)
        losses.mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        worst = [losses[at].item() for at in range(options.read)]
        if step % 50 == 0:
            print(f"step {step}: {max(worst, default=0.0):.3f}", flush=True)


if __name__ == "__main__":
    main()
