"""Samplers that take long to choose the samples of a batch are marked, others are not."""

import sys
from pathlib import Path

import pytest

from gapless import wire
from tests.payload.watching import logs, preloaded, watched

TRAINING = """
import sys, time
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
for (batch,) in DataLoader(data, batch_sampler=Slow(), num_workers=int(sys.argv[1])):
    (batch * weight).sum().backward()
    optimizer.step()
    print(int(batch))
"""


@pytest.mark.parametrize("workers", [0, 1])
def test_only_long_choices_are_marks_on_the_thread_that_asks(tmp_path: Path, workers: int) -> None:
    (tmp_path / "training.py").write_text(TRAINING)
    command = [sys.executable, "training.py", str(workers)]
    seen = watched(command, tmp_path, tmp_path / "spool")
    assert seen == preloaded(command, tmp_path)
    assert (seen.code, seen.err) == (0, "")
    training = logs(tmp_path / "spool")["rank0"]
    (loader,) = training.facts("loader")
    marks = [one for one in training.marks if one[0] == wire.SAMPLER]
    long = [one for one in marks if one[5] - one[4] >= 20_000_000]
    assert len(long) == 4 - workers  # a worker was given two batches while the loader was made
    assert {one[2] for one in marks} == {loader["id"]}
    assert all(one[5] - one[4] >= 100_000 for one in marks)
    kinds = (wire.NEXT, wire.DISPATCH)
    around = [(one[4], one[5]) for one in training.marks if one[0] in kinds]
    assert all(any(a <= one[4] and one[5] <= b for a, b in around) for one in long)
