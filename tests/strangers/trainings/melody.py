"""Continue a tune: a small decoder over notes, in functions and dictionaries of weights."""

import argparse
import math

import torch
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

NOTES, LENGTH, WIDE, HEADS, LAYERS = 128, 192, 128, 4, 4


def tunes(count, gen):
    steps = torch.tensor([-4, -2, -1, 0, 1, 2, 3, 5])
    moves = steps[torch.randint(len(steps), (count, LENGTH + 1), generator=gen)]
    return (60 + moves.cumsum(1)) % NOTES


def weights(gen):
    def matrix(into, out):
        return (torch.randn(into, out, generator=gen) / math.sqrt(into)).requires_grad_()

    layers = [
        {
            "qkv": matrix(WIDE, 3 * WIDE),
            "mix": matrix(WIDE, WIDE),
            "up": matrix(WIDE, 4 * WIDE),
            "down": matrix(4 * WIDE, WIDE),
            "norm1": torch.ones(WIDE, requires_grad=True),
            "norm2": torch.ones(WIDE, requires_grad=True),
        }
        for _ in range(LAYERS)
    ]
    return {
        "note": (0.02 * torch.randn(NOTES, WIDE, generator=gen)).requires_grad_(),
        "place": (0.02 * torch.randn(LENGTH, WIDE, generator=gen)).requires_grad_(),
        "layers": layers,
    }


def leaves(tree):
    if isinstance(tree, torch.Tensor):
        return [tree]
    parts = tree.values() if isinstance(tree, dict) else tree
    return [leaf for part in parts for leaf in leaves(part)]


def attend(x, layer):
    b, t, _ = x.shape
    q, k, v = (x @ layer["qkv"]).view(b, t, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
    y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    return y.transpose(1, 2).reshape(b, t, WIDE) @ layer["mix"]


def block(x, layer):
    x = x + attend(F.rms_norm(x, (WIDE,), layer["norm1"]), layer)
    return x + F.gelu(F.rms_norm(x, (WIDE,), layer["norm2"]) @ layer["up"]) @ layer["down"]


def loss_of(tree, notes):
    x = F.embedding(notes[:, :-1], tree["note"]) + tree["place"]
    for layer in tree["layers"]:
        x = checkpoint(block, x, layer, use_reentrant=False)
    return F.cross_entropy((x @ tree["note"].T).flatten(0, 1), notes[:, 1:].flatten())


def run(steps):
    gen = torch.Generator().manual_seed(26)
    tree, songs = weights(gen), tunes(2000, gen)
    optimizer = torch.optim.Adam(leaves(tree), lr=5e-4, betas=(0.9, 0.98), fused=True)
    for step in range(1, steps + 1):
        notes = songs[torch.randint(len(songs), (4,), generator=gen)]
        loss = loss_of(tree, notes)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 25 == 0:
            print(step, f"{loss.item():.5f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=150)
    run(parser.parse_args().steps)
