"""torchdata's loader overrides half of torch's: what it does itself is seen like torch's own."""

import sys
from pathlib import Path

import pytest

from gapless import wire
from tests.payload.watching import read_logs, run_preloaded, run_recorded

# It stands in for torchdata's: the same names, each method of its own.
STAND_IN = """
import inspect
from torch.utils.data import dataloader as torchs

original = torchs._MultiProcessingDataLoaderIter

class _StatefulMultiProcessingDataLoaderIter(original):
    _try_put_index = inspect.unwrap(original._try_put_index)
    _shutdown_workers = inspect.unwrap(original._shutdown_workers)

class StatefulDataLoader(torchs.DataLoader):
    __init__ = inspect.unwrap(torchs.DataLoader.__init__)

    def __iter__(self):
        return self._get_iterator()

    def _get_iterator(self):
        if self.num_workers == 0:
            return torchs._SingleProcessDataLoaderIter(self)
        return _StatefulMultiProcessingDataLoaderIter(self)
"""
TRAINING = """
import sys, torch
from torchdata.stateful_dataloader.stateful_dataloader import StatefulDataLoader

loader = StatefulDataLoader(torch.arange(8.0), batch_size=2, num_workers=int(sys.argv[1]))
print([batch.sum().item() for _ in range(2) for batch in loader])
"""


@pytest.mark.parametrize("workers", [0, 2])
def test_a_loader_of_torchdatas_is_recorded_like_one_of_torchs(
    tmp_path: Path, workers: int
) -> None:
    folder = tmp_path / "torchdata" / "stateful_dataloader"
    folder.mkdir(parents=True)
    (folder / "stateful_dataloader.py").write_text(STAND_IN)
    (tmp_path / "training.py").write_text(TRAINING)
    command = [sys.executable, "training.py", str(workers)]
    recorded = run_recorded(command, tmp_path, tmp_path / "spool")
    assert recorded == run_preloaded(command, tmp_path)
    assert (recorded.code, recorded.err) == (0, "")
    logs_by_name = read_logs(tmp_path / "spool")
    training = logs_by_name["rank0"]
    (loader,) = training.facts("loader")
    assert (loader["line"], loader["values"]["num_workers"]) == (5, workers)
    nexts = [mark for mark in training.marks if mark[0] == wire.NEXT]
    assert [mark[2] for mark in nexts] == [loader["id"]] * 10
    assert (training.count(wire.ITER), training.count(wire.DISPATCH)) == (2, 4 * workers)
    assert training.count(wire.CLOSE) == workers
    fetch_rows = [row for log in logs_by_name.values() for row in log.batches]
    assert {row["loader"] for row in fetch_rows} == {loader["id"]}
    assert sum(name.count("worker") for name in logs_by_name) == workers
