"""Tag each word of a sentence with an encoder; sentences are of all lengths."""

import argparse
import random

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

WORDS, TAGS, LONGEST, PAD, NO_TAG = 3000, 17, 128, 0, -100


class Sentences(Dataset):
    def __init__(self, count=4096):
        rng = random.Random(23)
        self.rows = []
        for _ in range(count):
            long = min(LONGEST, 5 + int(rng.expovariate(1 / 9)))
            words = [rng.randrange(1, WORDS) for _ in range(long)]
            tags = [(a + b) % TAGS for a, b in zip(words, words[1:] + words[:1])]
            self.rows.append((torch.tensor(words), torch.tensor(tags)))

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        return self.rows[index]


def collate(rows):
    longest = LONGEST
    words = torch.full((len(rows), longest), PAD)
    tags = torch.full((len(rows), longest), NO_TAG)
    for place, (word, tag) in enumerate(rows):
        words[place, : len(word)] = word
        tags[place, : len(tag)] = tag
    return words, tags


class Tagger(nn.Module):
    def __init__(self, wide=96, heads=4, layers=2):
        super().__init__()
        self.word = nn.Embedding(WORDS, wide, padding_idx=PAD)
        self.place = nn.Parameter(0.02 * torch.randn(LONGEST, wide))
        layer = nn.TransformerEncoderLayer(
            wide, heads, 2 * wide, dropout=0.0, batch_first=True, norm_first=True
        )
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.tag = nn.Linear(wide, TAGS)

    def forward(self, words):
        x = self.word(words) + self.place[: words.shape[1]]
        return self.tag(self.encoder(x, src_key_padding_mask=words == PAD))


def epochs(loader):
    while True:
        yield from loader


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=300)
    args = parser.parse_args()

    torch.manual_seed(23)
    model = Tagger()
    loader = DataLoader(Sentences(), 16, shuffle=True, collate_fn=collate, drop_last=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    warm = torch.optim.lr_scheduler.LinearLR(optimizer, 0.1, total_iters=50)
    criterion = nn.CrossEntropyLoss(ignore_index=NO_TAG)

    for step, (words, tags) in enumerate(epochs(loader), 1):
        loss = criterion(model(words).flatten(0, 1), tags.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        warm.step()
        if step % 50 == 0:
            print(f"step {step}: {loss.item():.5f}")
        if step == args.steps:
            break


if __name__ == "__main__":
    main()
