"""Some training and an evaluation, of one of five models: models_out.py NAME [--wide]."""

# pyright: basic
# ruff: noqa: ANN001, ANN201, ANN204

import sys

import torch
from torch import nn
from torch.nn import functional
from torch.nn.utils.rnn import pad_sequence

name, wide = sys.argv[1], "--wide" in sys.argv
device = "cuda" if torch.cuda.is_available() else "cpu"
width = 512 if wide else 128
torch.manual_seed(0)


class MLP(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(64, width),
            nn.ReLU(),
            nn.Linear(width, width),
            nn.ReLU(),
            nn.Linear(width, 10),
        )

    def forward(self, x):
        return self.layers(x)


class CNN(nn.Module):
    def __init__(self):
        super().__init__()
        channels = width // 4
        self.stem = nn.Conv2d(3, channels, 3, padding=1)
        self.blocks = nn.ModuleList(
            nn.Sequential(
                nn.Conv2d(channels, channels, 3, padding=1), nn.BatchNorm2d(channels), nn.ReLU()
            )
            for _ in range(4)
        )
        self.head = nn.Linear(channels, 10)

    def forward(self, x):
        x = functional.max_pool2d(self.stem(x), 2)
        for block in self.blocks:
            x = x + block(x)
        return self.head(x.mean((2, 3)))


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(1000, width)
        layer = nn.TransformerEncoderLayer(width, 4, 4 * width, batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(width, 10)

    def forward(self, words):
        mask = words == 0
        x = self.layers(self.words(words), src_key_padding_mask=mask)
        shown = (~mask).unsqueeze(-1).to(x.dtype)
        return self.head((x * shown).sum(1) / shown.sum(1))


class GRU(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(1000, width)
        self.gru = nn.GRU(width, width, batch_first=True)
        self.head = nn.Linear(width, 10)

    def forward(self, words):
        _, state = self.gru(self.words(words))
        return self.head(state[0])


class EarlyExit(MLP):
    def forward(self, x):
        first = self.layers[:2](x)
        if first.abs().mean() < 1e-3:
            return torch.zeros(len(x), 10, device=x.device)
        return self.layers[2:](first)


def make_batch(index):
    generator = torch.Generator().manual_seed(index)
    target = torch.randint(0, 10, (32,), generator=generator)
    if name in ("encoder", "gru"):
        lengths = torch.randint(12, 24 if name == "encoder" else 13, (32,), generator=generator)
        rows = [torch.randint(1, 1000, (int(n),), generator=generator) for n in lengths]
        return pad_sequence(rows, batch_first=True), target
    shape = (32, 3, 32, 32) if name == "cnn" else (32, 64)
    return torch.randn(shape, generator=generator), target


models = {"mlp": MLP, "cnn": CNN, "encoder": Encoder, "gru": GRU, "early-exit": EarlyExit}
model = models[name]().to(device)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for _ in range(2):
    model.train()
    for index in range(4):
        inputs, target = make_batch(index)
        loss = functional.cross_entropy(model(inputs.to(device)), target.to(device))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    model.eval()
    with torch.no_grad():
        for index in range(4, 8):
            model(make_batch(index)[0].to(device))
