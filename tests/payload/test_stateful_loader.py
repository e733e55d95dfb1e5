"""torchdata's loader overrides half of torch's: what it does itself is seen like torch's own."""

import sys
from collections import Counter
from pathlib import Path

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
import torch
from torchdata.stateful_dataloader.stateful_dataloader import StatefulDataLoader

for n_workers in (0, 2):
    loader = StatefulDataLoader(torch.arange(8.0), batch_size=2, num_workers=n_workers)
    print([batch.sum().item() for _ in range(2) for batch in loader])
"""


def test_loaders_of_torchdatas_are_recorded_like_torchs(tmp_path: Path) -> None:
    folder = tmp_path / "torchdata" / "stateful_dataloader"
    folder.mkdir(parents=True)
    (folder / "stateful_dataloader.py").write_text(STAND_IN)
    (tmp_path / "training.py").write_text(TRAINING)
    command = [sys.executable, "training.py"]
    recorded = run_recorded(command, tmp_path, tmp_path / "spool")
    assert recorded == run_preloaded(command, tmp_path)
    assert (recorded.code, recorded.err) == (0, "")
    logs_by_name = read_logs(tmp_path / "spool")
    training = logs_by_name["rank0"]
    loaders = training.facts("loader")
    assert [(fact["line"], fact["values"]["num_workers"]) for fact in loaders] == [(6, 0), (6, 2)]
    for loader in loaders:
        workers = loader["values"]["num_workers"]
        counts = Counter(mark[0] for mark in training.marks if mark[2] == loader["id"])
        assert (counts[wire.NEXT], counts[wire.ITER]) == (10, 2)
        assert (counts[wire.DISPATCH], counts[wire.CLOSE]) == (4 * workers, workers)
        fetches = {
            name
            for name, log in logs_by_name.items()
            for row in log.batches
            if row["loader"] == loader["id"]
        }
        assert len(fetches) == max(workers, 1)
        assert ("rank0" in fetches) is (workers == 0)
    assert len(logs_by_name) == 1 + 2
