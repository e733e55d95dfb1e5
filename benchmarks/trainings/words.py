"""A small language model in fp32, written as most people write their first one: no precision set,
attention by hand, an optimizer with its defaults, the loss read each step.
"""

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Tokens(Dataset[tuple[torch.Tensor, torch.Tensor]]):
    """Pieces of a long list of tokens."""

    def __init__(self, count: int, length: int, words: int) -> None:
        draw = torch.Generator().manual_seed(0)
        self.tokens = torch.randint(0, words, (count * length + 1,), generator=draw)
        self.length, self.count = length, count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        at = index * self.length
        return self.tokens[at : at + self.length], self.tokens[at + 1 : at + self.length + 1]


class Block(nn.Module):
    """Attention and an MLP."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.before, self.after = nn.LayerNorm(width), nn.LayerNorm(width)
        self.asked, self.told = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        q, k, v = (
            one.view(batch, length, self.heads, -1).transpose(1, 2)
            for one in self.asked(self.before(x)).chunk(3, dim=-1)
        )
        y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.told(y.transpose(1, 2).reshape(batch, length, width))
        return x + self.mlp(self.after(x))


class Model(nn.Module):
    """A decoder."""

    def __init__(self, words: int, width: int, depth: int, length: int) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(length, width)
        self.blocks = nn.ModuleList(Block(width, width // 64) for _ in range(depth))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.words(tokens) + self.places(torch.arange(tokens.shape[1], device=tokens.device))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def main() -> None:
    """Train for a number of steps."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--width", type=int, default=768)
    parser.add_argument("--depth", type=int, default=12)
    parser.add_argument("--length", type=int, default=512)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--words", type=int, default=50257)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--device", default="cuda")
    options = parser.parse_args()

    torch.manual_seed(0)
    data = Tokens(4096, options.length, options.words)
    loader = DataLoader(data, batch_size=options.batch, shuffle=True, num_workers=2)
    model = Model(options.words, options.width, options.depth, options.length).to(options.device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    step = 0
    while step < options.steps:
        for tokens, following in loader:
            logits = model(tokens.to(options.device))
            wanted = following.to(options.device).flatten()
            loss = nn.functional.cross_entropy(logits.flatten(0, 1), wanted)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            step += 1
            if step % 50 == 0:
                print(f"step {step}: loss {loss.item():.3f}", flush=True)
            if step == options.steps:
                break


if __name__ == "__main__":
    main()
