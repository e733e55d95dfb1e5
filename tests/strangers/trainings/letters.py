"""The next letter of a text, by a recurrent network whose memory goes on from batch to batch."""

import argparse
import pathlib
import random
import tempfile

import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset


def babble(count, seed):
    rng = random.Random(seed)
    parts = ["ka", "lo", "mi", "ren", "tu", "sha", "vel", "o", "an", "is"]
    words = ["".join(rng.choices(parts, k=rng.randint(1, 4))) for _ in range(400)]
    return " ".join(rng.choices(words, k=count))


class Streams(IterableDataset):
    """The text in many columns that are read side by side, ``time`` letters at once."""

    def __init__(self, text, columns, time):
        letters = sorted(set(text))
        number = {letter: at for at, letter in enumerate(letters)}
        codes = torch.tensor([number[letter] for letter in text])
        long = len(codes) // columns
        self.codes = codes[: long * columns].view(columns, long).T.contiguous()
        self.kinds, self.time = len(letters), time

    def __iter__(self):
        while True:
            for start in range(0, len(self.codes) - self.time - 1, self.time):
                part = self.codes[start : start + self.time + 1]
                yield part[:-1], part[1:]


class Reader(nn.Module):
    def __init__(self, kinds, wide=192):
        super().__init__()
        self.letter = nn.Embedding(kinds, 48)
        self.memory = nn.GRU(48, wide)
        self.out = nn.Linear(wide, kinds)

    def forward(self, letters, state):
        x, state = self.memory(self.letter(letters), state)
        return self.out(x), state


class Saver:
    """The best model so far, looked at now and then."""

    def __init__(self, folder, every=100):
        self.path, self.every = pathlib.Path(folder) / "best.pt", every
        self.total, self.best = torch.zeros(()), float("inf")

    def __call__(self, step, model, loss):
        self.total += loss
        if step % self.every == 0:
            mean = self.total.item() / self.every
            print(f"{step:6d} {mean:.5f}")
            if mean < self.best:
                self.best = mean
                torch.save(model.state_dict(), self.path)
            self.total.zero_()


def train(steps, folder):
    torch.manual_seed(32)
    data = Streams(babble(60_000, 32), columns=32, time=48)
    model = Reader(data.kinds)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3, fused=True)
    saver, state = Saver(folder), None
    for step, (now, following) in enumerate(DataLoader(data, batch_size=None), 1):
        logits, state = model(now, state)
        state = state.detach()
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), following.flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()
        saver(step, model, loss.detach())
        if step == steps:
            return


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=400)
    with tempfile.TemporaryDirectory() as place:
        train(parser.parse_args().steps, place)
