"""A loader that a library makes anew of the user's is set at the user's line."""

import sys
from typing import NamedTuple

import pytest

from tests.payload.watching import ScriptResult, read_logs, run_preloaded, run_recorded

# As Accelerate and Lightning do: the same settings, another sampler.
LIBRARY = """
from torch.utils.data import DataLoader, SequentialSampler

class Prepared(DataLoader):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)

def prepare(loader):
    sampler = SequentialSampler(loader.dataset)
    return Prepared(loader.dataset, loader.batch_size, sampler=sampler)

def made(data):
    return DataLoader(data, batch_size=4)
"""
TRAINING = """
import sys
sys.path.insert(0, "site-packages")
import torch
from torch.utils.data import DataLoader, TensorDataset
from quickai import Prepared, made, prepare

data, other = (TensorDataset(torch.arange(8.0)) for _ in range(2))
train = DataLoader(data, batch_size=2)
test = DataLoader(data, batch_size=4)
test = prepare(test)
train = prepare(DataLoader(other, batch_size=2))
own = made(TensorDataset(torch.arange(4.0)))
again = Prepared(other, 8)
every = train, test, own, again
print([sum(batch[0].sum().item() for batch in loader) for loader in every])
"""

# Only before Python 3.13 does a frame keep what its names were when somebody read them.
HOLDER = """
import weakref
from torch.utils.data import DataLoader

class Thing:
    pass

class Trainer:
    def __init__(self):
        thing = Thing()
        seen = weakref.ref(thing)
        self.loader = DataLoader([1.0, 2.0])
        del thing
        print(seen())

class Namer:
    def __init__(self):
        names = locals()
        self.loader = DataLoader([1.0, 2.0])
        print(sorted(names))

class Mine(DataLoader):
    def __init__(self, *args, **kwargs):
        thing = Thing()
        seen = weakref.ref(thing)
        super().__init__(*args, **kwargs)
        del thing
        print(seen())

Trainer(), Namer(), Mine([1.0, 2.0])
"""


class Comparison(NamedTuple):
    """A training as it is, the same recorded, and the lines of its loaders, in order."""

    plain: ScriptResult
    recorded: ScriptResult
    lines: list[int]


@pytest.fixture(scope="module")
def comparison(tmp_path_factory: pytest.TempPathFactory) -> Comparison:
    folder = tmp_path_factory.mktemp("remade")
    (folder / "site-packages").mkdir()
    (folder / "site-packages" / "quickai.py").write_text(LIBRARY)
    (folder / "training.py").write_text(TRAINING + HOLDER)
    command = [sys.executable, "training.py"]
    plain, recorded = (
        run_preloaded(command, folder),
        run_recorded(command, folder, folder / "spool"),
    )
    facts = read_logs(folder / "spool")["rank0"].facts("loader")
    lines = [fact["line"] for fact in sorted(facts, key=lambda fact: fact["id"])]
    return Comparison(plain, recorded, lines)


def test_a_loader_made_anew_is_told_with_the_line_of_the_first(comparison: Comparison) -> None:
    assert (comparison.recorded.code, comparison.recorded.err) == (0, "")
    assert comparison.lines[:7] == [9, 10, 10, 12, 12, 13, 14]


def test_nothing_in_an_init_that_makes_a_loader_is_kept_alive(comparison: Comparison) -> None:
    assert comparison.recorded == comparison.plain
    assert comparison.plain.out.count("None") >= 1  # of what only the frame of an init held
