"""A library's own loader over torch's iterators (as fastai's) is recorded like one of torch's."""

import sys
from pathlib import Path

from gapless import wire
from tests.payload.watching import read_logs, run_preloaded, run_recorded

# In the form of fastai's: no DataLoader, but what torch's iterators read of one.
LIBRARY = """
import itertools, multiprocessing
from torch.utils.data import get_worker_info
from torch.utils.data import dataloader as torchs

ITERATORS = torchs._MultiProcessingDataLoaderIter, torchs._SingleProcessDataLoaderIter

def start(worker):
    info = get_worker_info()
    info.dataset.whole.offset, info.dataset.whole.step = info.id, info.num_workers

class Stand:
    _IterableDataset_len_called, _auto_collation, drop_last, in_order = None, False, False, True
    collate_fn = staticmethod(lambda batch: batch)
    _index_sampler, generator, prefetch_factor = itertools.count(), None, 2
    _get_shared_seed = staticmethod(lambda *_: None)
    _dataset_kind = torchs._DatasetKind.Iterable
    pin_memory, pin_memory_device, timeout, persistent_workers = False, "", 0, False
    worker_init_fn = staticmethod(start)

    def __init__(self, whole, num_workers):
        self.dataset, self.whole, self.num_workers = self, whole, num_workers

    @property
    def multiprocessing_context(self):
        return multiprocessing if self.num_workers else None

    def __iter__(self):
        return iter(self.whole.batches())

class Loader:
    def __init__(self, data, size, num_workers):
        self.data, self.size, self.offset, self.step = data, size, 0, 1
        self.stand = Stand(self, num_workers)

    def batches(self):
        for at in range(self.offset, len(self.data) // self.size, self.step):
            yield self.data[at * self.size : (at + 1) * self.size]

    def __iter__(self):
        yield from ITERATORS[self.stand.num_workers == 0](self.stand)
"""
TRAINING = """
import torch
from quickai import Loader

for n_workers in (0, 2):
    loader = Loader(torch.arange(8.0), 2, n_workers)
    print([batch.sum().item() for _ in range(2) for batch in loader])
"""


def test_what_stands_in_for_a_loader_is_recorded_like_one(tmp_path: Path) -> None:
    folder = tmp_path / "site-packages"
    folder.mkdir()
    (folder / "quickai.py").write_text(LIBRARY)
    start = "import sys; sys.path.insert(0, 'site-packages')\n"
    (tmp_path / "training.py").write_text(start + TRAINING)
    command = [sys.executable, "training.py"]
    recorded = run_recorded(command, tmp_path, tmp_path / "spool")
    assert recorded == run_preloaded(command, tmp_path)
    assert (recorded.code, recorded.err) == (0, "")
    logs_by_name = read_logs(tmp_path / "spool")
    training = logs_by_name["rank0"]
    loaders = training.facts("loader")
    assert [fact["values"]["num_workers"] for fact in loaders] == [0, 2]
    for loader in loaders:
        assert loader["values"]["stands_in"] == "quickai.Stand"
        assert (Path(loader["file"]).name, loader["line"]) == ("training.py", 8)
        marks = [mark for mark in training.marks if mark[2] == loader["id"]]
        batch_marks = [
            mark for mark in marks if mark[0] == wire.NEXT and not mark[1] & wire.EXHAUSTED
        ]
        assert (len(batch_marks), sum(mark[0] == wire.ITER for mark in marks)) == (8, 2)
    fetch_loaders = {
        name: {row["loader"] for row in log.batches} for name, log in logs_by_name.items()
    }
    without, with_workers = (fact["id"] for fact in loaders)
    assert fetch_loaders.pop("rank0") == {without}
    assert list(fetch_loaders.values()) == [{with_workers}] * 2
