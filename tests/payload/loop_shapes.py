# ruff: noqa: ANN001, ANN201, ANN202, ANN204, B023, PLC0415
# pyright: basic, reportArgumentType=false
"""Loops as people write them. Arguments: which of them; prints what each came to."""

import hashlib
import logging
import random
import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, IterableDataset, RandomSampler, TensorDataset


class Stream(IterableDataset):
    def __iter__(self):
        info = torch.utils.data.get_worker_info()
        start, step = (0, 1) if info is None else (info.id, info.num_workers)
        for index in range(start, 24, step):
            yield torch.full((4,), float(index)), torch.ones(1)


class Images(Dataset):
    def __init__(self):
        self.items = list(range(24))

    def __len__(self):
        return len(self.items)

    def __getitem__(self, index):
        return torch.rand(4) + index, torch.ones(1)


class EveryOther(RandomSampler):
    def __iter__(self):
        return iter(range(0, 24, 2))

    def __len__(self):
        return 12


def collate(rows):
    return torch.stack([x for x, _ in rows]) * 2, torch.stack([y for _, y in rows])


DATA = TensorDataset(torch.arange(96.0).reshape(24, 4) / 96, torch.ones(24, 1))


def make_training():
    model = nn.Linear(4, 1)
    return model, torch.optim.SGD(model.parameters(), lr=0.01)


def train_step(model, optimizer, batch):
    optimizer.zero_grad()
    loss = (model(batch[0]) - batch[1]).pow(2).mean()
    loss.backward()
    optimizer.step()
    return loss


def train_over(loader, epochs=1, stop=None) -> float:
    model, optimizer = make_training()
    loss = torch.zeros(())
    for _ in range(epochs):
        for number, batch in enumerate(loader):
            if number == stop:
                break
            loss = train_step(model, optimizer, batch)
    return loss.item()


def for_loop():
    return train_over(DataLoader(DATA, 4, shuffle=True), epochs=2)


def iter_next():
    model, optimizer = make_training()
    batches = iter(DataLoader(DATA, 4))
    while (batch := next(batches, None)) is not None:
        loss = train_step(model, optimizer, batch)
    return loss.item()


def accumulation():
    model, optimizer = make_training()
    for number, (x, y) in enumerate(DataLoader(DATA, 2)):
        loss = (model(x) - y).pow(2).mean() / 4
        loss.backward()
        if number % 4 == 3:
            optimizer.step()
            optimizer.zero_grad()
    return loss.item()


def gan():
    (judge, judge_optimizer), (maker, maker_optimizer) = make_training(), make_training()
    for x, y in DataLoader(DATA, 4):
        for _ in range(3):
            train_step(judge, judge_optimizer, (x, y))
        loss = train_step(maker, maker_optimizer, (x, y))
    return loss.item()


def lbfgs():
    model = nn.Linear(4, 1)
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=3)
    for x, y in DataLoader(DATA, 4):

        def closure():
            optimizer.zero_grad()
            loss = (model(x) - y).pow(2).mean()
            loss.backward()
            return loss

        loss = optimizer.step(closure)
    return loss.item()


def scaled():
    model, optimizer = make_training()
    scaler = torch.amp.GradScaler("cpu")
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 2)
    for x, y in DataLoader(DATA, 4):
        optimizer.zero_grad()
        loss = (model(x) - y).pow(2).mean()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        schedule.step()
    return loss.item()


def no_optimizer():
    model = nn.Linear(4, 1)
    for x, y in DataLoader(DATA, 4):
        loss = (model(x) - y).pow(2).mean()
        loss.backward()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.sub_(parameter.grad, alpha=0.01)
                parameter.grad = None
    return loss.item()


def no_loader():
    model, optimizer = make_training()
    for _ in range(6):
        loss = train_step(model, optimizer, (torch.rand(4, 4), torch.ones(4, 1)))
    return loss.item()


def iterable():
    return train_over(DataLoader(Stream(), 4))


def several():
    return [train_over(DataLoader(DATA, 4)), train_over(DataLoader(Images(), 6))]


def unbatched():
    return train_over(DataLoader(DATA, batch_size=None))


def custom():
    return train_over(DataLoader(DATA, 4, sampler=EveryOther(DATA), collate_fn=collate))


def early_break():
    return train_over(DataLoader(DATA, 4), epochs=3, stop=2)


def workers():
    return train_over(DataLoader(Images(), 4, shuffle=True, num_workers=2), epochs=2)


def persistent():
    loader = DataLoader(Images(), 4, num_workers=2, persistent_workers=True)
    return [train_over(loader, epochs=2), train_over(loader, stop=2)]


def iterable_workers():
    return train_over(DataLoader(Stream(), 4, num_workers=2))


def broken_off():
    return train_over(DataLoader(Images(), 2, num_workers=2), epochs=2, stop=1)


def spawned():
    return train_over(DataLoader(Images(), 8, num_workers=1, multiprocessing_context="spawn"))


def served():
    context = "forkserver"
    return [
        train_over(DataLoader(Images(), 8, num_workers=1, multiprocessing_context=context)),
        train_over(DataLoader(DATA, 8, num_workers=1, multiprocessing_context=context)),
    ]


def compiled():
    """Compile the model, then a whole step: as many graphs, and breaks, as without a recorder."""
    from torch._dynamo.utils import counters

    logging.disable(logging.WARNING)  # torch's own lines bear the time
    model, optimizer = make_training()
    compiled_model = torch.compile(model, backend="eager", fullgraph=True)
    losses = [train_over(DataLoader(DATA, 4))]
    for x, y in DataLoader(DATA, 4):
        losses.append(train_step(compiled_model, optimizer, (x, y)).item())

    @torch.compile(backend="eager")
    def compiled_step(x, y):
        return train_step(model, optimizer, (x, y))

    for _ in range(10):
        for x, y in DataLoader(DATA, 4):
            losses.append(compiled_step(x, y).item())
    return losses[-1], sum(counters["graph_break"].values()), dict(counters["stats"])


if __name__ == "__main__":
    torch.manual_seed(1)
    random.seed(1)
    for name in sys.argv[1:]:
        print(name, globals()[name]())
    print(hashlib.sha256(torch.get_rng_state().numpy().tobytes()).hexdigest(), random.random())
    print("pickles:", len(__import__("pickle").dumps((DataLoader, torch.optim.SGD, torch.save))))
    print("the end", file=sys.stderr)
