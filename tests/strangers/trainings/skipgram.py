"""Word vectors by skip-gram with negative samples, from a text file that is read as a stream."""

import argparse
import pathlib
import random
import re
import tempfile

import torch
from torch.nn import Embedding, Module
from torch.nn.functional import logsigmoid
from torch.utils.data import DataLoader, IterableDataset

WORD = re.compile(r"[a-z]+(?:'[a-z]+)?")
ENDINGS = re.compile(r"(?:ational|fulness|iveness|ization|ing|ness|ed|ly|s)$")
WINDOW = 4
VOCABULARY = 4000


def write_text(path, lines=3000):
    rng = random.Random(5)
    letters = "abcdefghijklmnopqrstuvwxyz"
    stems = ["".join(rng.choices(letters, k=rng.randint(3, 8))) for _ in range(3000)]
    ends = ["", "", "", "ing", "ed", "ly", "s", "ness", "ization"]
    with open(path, "w") as out:
        for _ in range(lines):
            words = [rng.choice(stems) + rng.choice(ends) for _ in range(20)]
            out.write(" ".join(words).capitalize() + ".\n")


def words_of(line):
    return [ENDINGS.sub("", word) for word in WORD.findall(line.lower())]


class Pairs(IterableDataset):
    """A word and one that stands near it, again and again."""

    def __init__(self, path):
        self.path = path
        self.numbers = {}

    def number(self, word):
        return self.numbers.setdefault(word, len(self.numbers) % VOCABULARY)

    def __iter__(self):
        rng = random.Random(7)
        while True:
            with open(self.path) as lines:
                for line in lines:
                    found = [self.number(word) for word in words_of(line)]
                    for at, middle in enumerate(found):
                        reach = rng.randint(1, WINDOW)
                        for near in range(max(0, at - reach), min(len(found), at + reach + 1)):
                            if near != at:
                                yield torch.tensor(middle), torch.tensor(found[near])


class SkipGram(Module):
    def __init__(self, wide=64):
        super().__init__()
        self.middle = Embedding(VOCABULARY, wide, sparse=True)
        self.near = Embedding(VOCABULARY, wide, sparse=True)

    def forward(self, middle, near):
        other = torch.randint(VOCABULARY, (len(middle), 8))
        m = self.middle(middle)
        good = (m * self.near(near)).sum(1)
        bad = torch.bmm(self.near(other), m[:, :, None]).squeeze(2)
        return -(logsigmoid(good) + logsigmoid(-bad).sum(1)).mean()


parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=700)
parser.add_argument("--batch", type=int, default=1024)
options = parser.parse_args()
torch.manual_seed(2)
torch.set_num_threads(1)
model = SkipGram()
optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
smooth = None
with tempfile.TemporaryDirectory() as folder:
    text = pathlib.Path(folder) / "corpus.txt"
    write_text(text)
    for step, (middle, near) in enumerate(DataLoader(Pairs(text), batch_size=options.batch)):
        optimizer.zero_grad()
        loss = model(middle, near)
        loss.backward()
        optimizer.step()
        smooth = loss.detach() if smooth is None else 0.99 * smooth + 0.01 * loss.detach()
        if step % 200 == 199:
            print(step + 1, round(float(smooth), 3))
        if step + 1 == options.steps:
            break
