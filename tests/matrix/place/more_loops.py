# ruff: noqa: F403, F405
"""The loops of ``loop_shapes.py``, and those that need processes, threads, or many steps."""

import multiprocessing
import os
import random
import sys
import threading

import loop_shapes
import numpy as np
import torch
from library_loops import *
from loop_shapes import *
from loop_shapes import DATA, DataLoader, Images, make_training


class Faulty(Images):
    def __getitem__(self, index):
        if index == 13:
            raise OSError(f"image {index} is truncated")
        return super().__getitem__(index)


class Stuck(Images):
    def __getitem__(self, index):
        if index == 13:  # once a few batches are through
            with open("ready0.part", "w") as file:
                print(os.getpid(), file=file)
            os.rename("ready0.part", "ready0")
            os.read(os.open("gate0", os.O_RDWR), 1)
        return super().__getitem__(index)


def faulty():
    return train_over(DataLoader(Faulty(), 4))


def faulty_workers():
    return train_over(DataLoader(Faulty(), 4, num_workers=2))


def stuck_worker():
    return train_over(DataLoader(Stuck(), 4, num_workers=2))


def long():
    """Enough steps for windows."""
    return train_over(DataLoader(DATA, 4), epochs=20)


def long_workers():
    return train_over(DataLoader(Images(), 4, num_workers=1, persistent_workers=True), epochs=20)


def in_thread():
    found = []
    thread = threading.Thread(target=lambda: found.append(train_over(DataLoader(DATA, 4))))
    thread.start()
    thread.join()
    return found


def in_child(method, target):
    context = multiprocessing.get_context(method)
    sys.stdout.flush()
    process = context.Process(target=target)
    process.start()
    process.join()
    return process.exitcode


def trained():
    """Train in a child of our own, which may know nothing of its parent."""
    torch.manual_seed(2)
    np.random.seed(2)  # noqa: NPY002
    random.seed(2)
    print("loss", train_over(DataLoader(DATA, 4)), flush=True)
    __import__("training").write_state("child")


def forked():
    return in_child("fork", trained)


def forked_after():
    return train_over(DataLoader(DATA, 4)), in_child("fork", trained)


def spawned_child():
    return in_child("spawn", trained)


def served_child():
    return in_child("forkserver", trained)


def pooled():
    with multiprocessing.get_context("fork").Pool(2) as pool:
        found = pool.map(abs, range(-4, 0))
    return found, train_over(DataLoader(DATA, 4))


def ddp():
    """Two ranks, as torchrun and its like start them."""
    from torch import distributed
    from torch.nn.parallel import DistributedDataParallel

    distributed.init_process_group("gloo")
    torch.manual_seed(0)
    model = DistributedDataParallel(torch.nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for batch in DataLoader(DATA, 4):
        loop_shapes.train_step(model, optimizer, batch)
    distributed.destroy_process_group()
    with open(f"rank{os.environ['RANK']}.txt", "w") as file:
        print([one.sum().item() for one in model.parameters()], file=file)
    return "done"


def generator():
    """No loader of torch's at all: batches from the user's own generator."""
    model, optimizer = make_training()
    for index in range(6):
        loss = loop_shapes.train_step(
            model, optimizer, (torch.rand(4, 4) + index, torch.ones(4, 1))
        )
    return loss.item()


def evaluated():
    model, optimizer = make_training()
    for epoch in range(3):
        model.train()
        for batch in DataLoader(DATA, 8):
            loop_shapes.train_step(model, optimizer, batch)
        model.eval()
        with torch.no_grad():
            loss = sum(model(x).sum().item() for x, _ in DataLoader(DATA, 12))
        torch.save(model.state_dict(), f"epoch{epoch}.pt")
    return loss
