"""Translate made-up sentences with an attentive decoder, one word after the other."""

import argparse
import random

import torch
import torch.nn as nn

PAD, BOS = 0, 1


class Encoder(nn.Module):
    def __init__(self, words, wide):
        super().__init__()
        self.embed = nn.Embedding(words, wide, padding_idx=PAD)
        self.rnn = nn.GRU(wide, wide, batch_first=True, bidirectional=True)
        self.merge = nn.Linear(2 * wide, wide)

    def forward(self, source):
        states, _ = self.rnn(self.embed(source))
        return torch.tanh(self.merge(states))


class Decoder(nn.Module):
    def __init__(self, words, wide):
        super().__init__()
        self.embed = nn.Embedding(words, wide, padding_idx=PAD)
        self.cell = nn.GRUCell(2 * wide, wide)
        self.query = nn.Linear(wide, wide, bias=False)
        self.out = nn.Linear(2 * wide, words)

    def forward(self, memory, target, teach):
        hidden = memory.mean(1)
        word = torch.full_like(target[:, 0], BOS)
        logits = []
        for position in range(target.size(1)):
            weights = torch.softmax(torch.einsum("btd,bd->bt", memory, self.query(hidden)), 1)
            context = torch.einsum("bt,btd->bd", weights, memory)
            hidden = self.cell(torch.cat((self.embed(word), context), 1), hidden)
            said = self.out(torch.cat((hidden, context), 1))
            logits.append(said)
            word = target[:, position] if teach[position] else said.detach().argmax(1)
        return torch.stack(logits, 1)


def sentences(count, words, rng):
    pairs = []
    for _ in range(count):
        n = rng.randint(8, 14)
        source = [rng.randrange(2, words) for _ in range(n)]
        pairs.append((source, [(w * 7 + 3) % (words - 2) + 2 for w in reversed(source)]))
    return pairs


def batches(pairs, size, rng):
    """Give padded batches of sentences of about the same length, without end."""
    pairs = sorted(pairs, key=lambda pair: len(pair[0]))
    groups = [pairs[at : at + size] for at in range(0, len(pairs) - size + 1, size)]
    ready = []
    for group in groups:
        most = max(len(source) for source, _ in group)
        ready.append(
            tuple(torch.tensor([one[k] + [PAD] * (most - len(one[k])) for one in group]) for k in (0, 1))
        )
    while True:
        rng.shuffle(ready)
        yield from ready


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--updates", type=int, default=350)
    args = parser.parse_args()
    torch.manual_seed(10)
    torch.set_num_threads(1)  # small matrices
    rng = random.Random(10)
    words, wide = 1200, 96
    model = nn.ModuleDict({"encoder": Encoder(words, wide), "decoder": Decoder(words, wide)})
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)
    criterion = nn.CrossEntropyLoss(ignore_index=PAD)
    stream = batches(sentences(3000, words, rng), 32, rng)
    for update in range(1, args.updates + 1):
        source, target = next(stream)
        teach = [rng.random() < 0.7 for _ in range(target.size(1))]
        logits = model["decoder"](model["encoder"](source), target, teach)
        loss = criterion(logits.flatten(0, 1), target.flatten())
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()
        if update % 100 == 0:
            print(f"{update:5d} {loss:.3f}")


if __name__ == "__main__":
    main()
