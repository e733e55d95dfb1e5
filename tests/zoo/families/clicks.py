"""D: a recommender: tables of embeddings and a small network on top."""
# pyright: basic

import itertools
from argparse import Namespace

import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits
from torch.utils.data import DataLoader, Dataset

from tests.zoo.job import Job, Steps

USUAL = {
    "sparse": True,
    "workers": 0,
    "pin": False,
    "non_blocking": False,
    "whole_batches": True,  # the data set gives a batch at once
    "on_device": False,  # the data lie on the device
    "many_tensors": False,  # each column is a tensor of its own
    "history": 0,  # features of past clicks, which only make the batch big
    "metrics": False,  # sent to the host each step
    "pieces": False,  # a batch is handed over sample by sample
    "scored_every": 0,  # steps after which a metric is computed in plain Python
    "threads": None,
    "foreach": None,
    "tf32": False,
}
SIZES = {
    "c": {"tables": 4, "rows": 10_000, "wide": 16, "batch": 256, "count": 20_000, "hidden": 64},
    "g": {
        "tables": 26,
        "rows": 1_000_000,
        "wide": 16,
        "batch": 16_384,
        "count": 400_000,
        "hidden": 1024,
    },
}
DENSE = 13


class Recommender(nn.Module):
    """Embeddings, how they go together, and what follows from it."""

    def __init__(self, options: Namespace) -> None:
        super().__init__()
        wide, hidden = options.wide, options.hidden
        tables = (
            nn.EmbeddingBag(options.rows, wide, mode="sum", sparse=options.sparse)
            for _ in range(options.tables)
        )
        self.tables = nn.ModuleList(tables)
        numbers = DENSE + options.history
        self.bottom = nn.Sequential(nn.Linear(numbers, hidden), nn.ReLU(), nn.Linear(hidden, wide))
        pairs = options.tables * (options.tables + 1) // 2
        self.top = nn.Sequential(
            nn.Linear(wide + pairs, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU()
        )
        self.out = nn.Linear(hidden, 1)
        self.register_buffer(
            "below", torch.tril_indices(options.tables + 1, options.tables + 1, -1)
        )

    def forward(self, dense: Tensor, ids: list[Tensor]) -> Tensor:
        x = self.bottom(dense)
        parts = [x] + [table(one[:, None]) for table, one in zip(self.tables, ids, strict=True)]
        together = torch.stack(parts, dim=1)
        products = together @ together.transpose(1, 2)
        rows, columns = self.get_buffer("below")
        return self.out(self.top(torch.cat((x, products[:, rows, columns]), dim=1))).squeeze(1)


class Clicks(Dataset[tuple[Tensor, ...]]):
    """Made-up clicks, in memory."""

    def __init__(self, options: Namespace, device: torch.device) -> None:
        self.options = options
        place = device if options.on_device else torch.device("cpu")
        generator = torch.Generator().manual_seed(0)
        count = options.count
        self.dense = torch.randn(count, DENSE + options.history, generator=generator).to(place)
        ids = torch.randint(options.rows, (count, options.tables), generator=generator)
        self.ids = ids.to(place)
        self.clicked = torch.randint(2, (count,), generator=generator).float().to(place)

    def __len__(self) -> int:
        return self.options.count

    def __getitem__(self, index: int) -> tuple[Tensor, ...]:
        if self.options.many_tensors:
            ids = (torch.tensor(int(one)) for one in self.ids[index])
            return (self.dense[index], self.clicked[index], *ids)
        return self.dense[index], self.clicked[index], self.ids[index]


def in_pieces(samples: list[tuple[Tensor, ...]]) -> tuple[list[Tensor], ...]:
    """Leave the samples of a batch as they are, column by column."""
    return tuple(map(list, zip(*samples, strict=True)))


def best_f1(guess: Tensor, clicked: Tensor) -> float:
    """Return the best F1 of some thresholds, counted as it is defined."""
    pairs = list(zip(guess.sigmoid().tolist(), clicked.tolist(), strict=True))
    found = 0.0
    for cut in (number / 20 for number in range(1, 20)):
        hits = sum(1 for chance, click in pairs if chance > cut and click)
        wrong = sum(1 for chance, click in pairs if (chance > cut) != bool(click))
        found = max(found, 2 * hits / max(1, 2 * hits + wrong))
    return found


class Batches(Dataset[tuple[Tensor, ...]]):
    """The same clicks, a batch at once."""

    def __init__(self, clicks: Clicks) -> None:
        self.clicks, self.batch = clicks, clicks.options.batch

    def __len__(self) -> int:
        return 100_000

    def __getitem__(self, index: int) -> tuple[Tensor, ...]:
        clicks = self.clicks
        numbers = torch.arange(self.batch, device=clicks.ids.device)
        rows = (numbers * 7919 + index * self.batch) % len(clicks)  # anywhere, without a draw
        return clicks.dense[rows], clicks.clicked[rows], clicks.ids[rows]


def make(options: Namespace, device: torch.device) -> Job:
    torch.manual_seed(0)
    model = Recommender(options).to(device)
    clicks = Clicks(options, device)
    loader = {"num_workers": options.workers, "pin_memory": options.pin}
    if options.whole_batches:
        return Job(model, Batches(clicks), device, options, train, {"batch_size": None, **loader})
    loader |= {"batch_size": options.batch, "shuffle": True, "drop_last": True}
    loader["collate_fn"] = in_pieces if options.pieces else None
    return Job(model, clicks, device, options, train, loader)


def train(job: Job) -> Steps:
    options, model, device = job.options, job.model, job.device
    if options.threads is not None:
        torch.set_num_threads(options.threads)
    torch.set_float32_matmul_precision("high" if options.tf32 else "highest")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, foreach=options.foreach)
    loader = DataLoader(job.data, **job.loader)
    batches = iter(loader)
    right: list[float] = []
    for number in itertools.count(1):
        try:
            batch = next(batches)
        except StopIteration:
            batches = iter(loader)
            continue
        if options.pieces:
            batch = [torch.stack(column) for column in batch]
        dense, clicked, *ids = (one.to(device, non_blocking=options.non_blocking) for one in batch)
        columns = list(ids[0].unbind(1)) if len(ids) == 1 else ids
        guess = model(dense, columns)
        loss = binary_cross_entropy_with_logits(guess, clicked)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if options.metrics:
            right = [
                *right[-99:],
                float(((guess.cpu() > 0) == (clicked.cpu() > 0.5)).float().mean()),
            ]
        if options.scored_every and number % options.scored_every == 0:
            right = [*right[-99:], best_f1(guess.detach(), clicked)]
        yield
