"""Samplers that take long to choose the samples of a batch are marked, others are not."""

import sys
from collections import Counter
from pathlib import Path

from gapless import wire
from tests.payload.watching import read_logs, run_preloaded, run_recorded

TRAINING = """
import time
import torch
from torch.utils.data import DataLoader, TensorDataset

class Slow:
    def __iter__(self):
        for at in range(8):
            if at % 2:
                time.sleep(0.02)
            yield [at]

    def __len__(self):
        return 8

data = TensorDataset(torch.arange(8.0))
weight = torch.zeros(1, requires_grad=True)
optimizer = torch.optim.SGD([weight], lr=0.1)
for n_workers in (0, 1):
    for (batch,) in DataLoader(data, batch_sampler=Slow(), num_workers=n_workers):
        (batch * weight).sum().backward()
        optimizer.step()
        print(int(batch))
"""


def test_only_long_choices_are_marks_on_the_thread_that_asks(tmp_path: Path) -> None:
    (tmp_path / "training.py").write_text(TRAINING)
    command = [sys.executable, "training.py"]
    recorded = run_recorded(command, tmp_path, tmp_path / "spool")
    assert recorded == run_preloaded(command, tmp_path)
    assert (recorded.code, recorded.err) == (0, "")
    training = read_logs(tmp_path / "spool")["rank0"]
    loaders = [loader["id"] for loader in training.facts("loader")]
    marks = [mark for mark in training.marks if mark[0] == wire.SAMPLER]
    long_marks = [mark for mark in marks if mark[5] - mark[4] >= 20_000_000]
    # A worker was given two batches while the loader was made.
    assert Counter(mark[2] for mark in long_marks) == dict(zip(loaders, (4, 3), strict=True))
    assert {mark[2] for mark in marks} == {*loaders}
    assert all(mark[5] - mark[4] >= 100_000 for mark in marks)
    kinds = (wire.NEXT, wire.DISPATCH)
    spans = [(mark[4], mark[5]) for mark in training.marks if mark[0] in kinds]
    assert all(any(a <= mark[4] and mark[5] <= b for a, b in spans) for mark in long_marks)
