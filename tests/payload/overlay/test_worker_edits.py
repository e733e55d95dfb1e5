"""Threads and processors of workers, and those of the training: neither gets into the other."""

from __future__ import annotations

import os
import sys
import threading
import types
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch.utils.data import DataLoader, Dataset, get_worker_info

from gapless import wire
from gapless.model.edit import Location, SetArgument, SetGlobal, Wrap, edit_to_json
from tests.payload.laying import apply_edits
from tests.payload.loading import run_script

if TYPE_CHECKING:
    from pathlib import Path

LOADER = "torch.utils.data.DataLoader"
THREADS = Wrap(LOADER, "worker-threads", {"threads": 2})
CPUS = sorted(os.sched_getaffinity(0))
# Torch warns of more workers than processors, as it would under ``taskset``.
pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create")
needs_two_cpus = pytest.mark.skipif(len(CPUS) < 2, reason="one processor is no choice")


class Questions(Dataset[Any]):
    """Samples are what an answer in the worker is."""

    def __init__(self, question: Any) -> None:  # noqa: ANN401
        self.question = question

    def __len__(self) -> int:
        return 2

    def __getitem__(self, index: int) -> Any:  # noqa: ANN401
        return self.question()


def ask_workers(question: Any, **settings: Any) -> list[Any]:  # noqa: ANN401
    """Ask in each of two workers."""
    arguments: dict[str, Any] = {"num_workers": 2, **settings}
    return list(DataLoader(Questions(question), None, **arguments))


def draw_from_seed() -> int:
    info: Any = get_worker_info()
    return info.seed - torch.initial_seed() + torch.randint(1000, ()).item()


def test_workers_compute_with_so_many_threads_and_then_with_one() -> None:
    before = torch.get_num_threads()
    with apply_edits(THREADS) as edit_log:
        assert ask_workers(torch.get_num_threads) == [2, 2]
        assert torch.get_num_threads() == before
        assert edit_log.times() == 0  # here: workers tell in their own logs
    assert ask_workers(torch.get_num_threads) == [1, 1]


def test_the_users_own_function_is_called_first_and_kept() -> None:
    def begin(worker: int) -> None:
        torch.set_num_threads(3 + worker)
        sys.modules["of_the_users"] = types.ModuleType("of_the_users")

    def worker_state() -> list[int]:
        return ["of_the_users" in sys.modules, torch.get_num_threads()]

    with apply_edits(THREADS):
        loader = DataLoader(Questions(worker_state), None, num_workers=2, worker_init_fn=begin)
        assert list(loader) == [[1, 2]] * 2
        assert loader.worker_init_fn is begin
    assert sorted(loader) == [[1, 3], [1, 4]]


def test_only_workers_of_that_line_are_meant() -> None:
    def make() -> DataLoader[Any]:
        return DataLoader(Questions(torch.get_num_threads), None, num_workers=1)

    location = Location(__file__, make.__code__.co_firstlineno + 1)
    with apply_edits(Wrap(LOADER, "worker-threads", {"threads": 2}, location)):
        assert list(make()) == [2, 2]
        assert ask_workers(torch.get_num_threads) == [1, 1]


def test_libraries_of_the_workers_are_told_too(monkeypatch: pytest.MonkeyPatch) -> None:
    library = types.ModuleType("cv2")
    thread_counts: list[int] = []
    library.setNumThreads = thread_counts.append  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "cv2", library)
    with apply_edits(THREADS):
        assert ask_workers(lambda: list(thread_counts)) == [[2], [2]]
    assert thread_counts == []


def test_seeds_of_workers_are_what_they_were() -> None:
    def draw_numbers() -> list[Any]:
        torch.manual_seed(3)
        return [*ask_workers(draw_from_seed), torch.rand(()).item()]

    before = draw_numbers()
    with apply_edits(THREADS, Wrap(LOADER, "affinity", {"cpus": str(CPUS[0])})):
        assert draw_numbers() == before
    assert draw_numbers() == before


def test_threads_of_the_training_are_not_those_of_its_workers() -> None:
    before, setter = torch.get_num_threads(), torch.set_num_threads
    with apply_edits(SetGlobal("torch.set_num_threads", 3)):
        assert torch.get_num_threads() == 3
        torch.set_num_threads(1)
        assert torch.get_num_threads() == 3
        assert ask_workers(torch.get_num_threads) == [1, 1]
        assert ask_workers(torch.get_num_threads, worker_init_fn=two_threads) == [2, 2]
    assert torch.set_num_threads is setter
    assert torch.get_num_threads() == before


def two_threads(_worker: int) -> None:
    torch.set_num_threads(2)


def allowed_cpus() -> list[int]:
    return sorted(os.sched_getaffinity(0))


@needs_two_cpus
def test_training_and_workers_run_where_they_are_told_to() -> None:
    first_cpu, second_cpu = str(CPUS[0]), str(CPUS[1])
    ready, finish = threading.Event(), threading.Event()
    thread_cpus: list[list[int]] = []

    def note_cpus() -> None:
        ready.set()
        finish.wait(30)
        thread_cpus.append(allowed_cpus())

    thread = threading.Thread(target=note_cpus)
    thread.start()
    ready.wait(30)
    with apply_edits(
        Wrap(LOADER, "affinity", {"cpus": first_cpu, "workers": second_cpu})
    ) as edit_log:
        assert allowed_cpus() == [CPUS[0]]
        assert ask_workers(allowed_cpus) == [[CPUS[1]]] * 2
        assert (edit_log.values[0]["new"], edit_log.times()) == (first_cpu, 1)
        finish.set()
        thread.join()
    assert thread_cpus == [[CPUS[0]]]
    assert allowed_cpus() == CPUS
    assert ask_workers(allowed_cpus) == [CPUS] * 2


@needs_two_cpus
def test_a_process_that_one_restricted_starts_may_use_what_the_command_could() -> None:
    first_cpu, second_cpu = str(CPUS[0]), str(CPUS[1])
    edit = Wrap(LOADER, "affinity", {"cpus": first_cpu, "workers": second_cpu})
    with apply_edits(edit), apply_edits(edit) as edit_log:
        assert ask_workers(allowed_cpus) == [[CPUS[1]]] * 2
        assert not edit_log.unobserved
    assert "GAPLESS_CPUS" not in os.environ


def test_processors_that_are_not_allowed_are_refused() -> None:
    with apply_edits(Wrap(LOADER, "affinity", {"cpus": "4096-5000"})) as edit_log:
        assert allowed_cpus() == CPUS
        assert edit_log.times() == 0
        assert "none of 4096-5000 is allowed" in edit_log.unobserved[0]


def test_without_workers_own_they_run_where_the_training_does() -> None:
    with apply_edits(Wrap(LOADER, "affinity", {"cpus": str(CPUS[0])})):
        assert ask_workers(allowed_cpus) == [[CPUS[0]]] * 2


DRAWING = """
import random
class Drawn(Dataset):
    def __len__(self):
        return 8
    def __getitem__(self, index):
        return torch.rand(2), index, torch.get_num_threads()

if __name__ == "__main__":
    torch.manual_seed(1)
    random.seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Dropout())
    loader = DataLoader(Drawn(), 2, shuffle=True, num_workers=1, multiprocessing_context="spawn")
    threads = set()
    for batch, index, used in loader:
        threads.update(used.tolist())
        loss = model(batch).sum()
        loss.backward()
        with torch.no_grad():
            for one in model.parameters():
                one -= 0.1 * one.grad
        print(loss.item(), index.tolist(), random.random(), torch.rand(()).item())
    print(*threads, torch.get_num_threads(), file=sys.stderr)
"""


def test_numbers_drawn_by_a_training_are_the_same_with_edits_and_workers_are_spawned(
    tmp_path: Path,
) -> None:
    (tmp_path / "plain").mkdir()
    (tmp_path / "edited").mkdir()
    edits = [
        THREADS,
        SetArgument(LOADER, "prefetch_factor", 1),
        SetGlobal("torch.set_num_threads", 3),
        SetGlobal("torch.backends.cudnn.benchmark", True),  # noqa: FBT003
        Wrap("torch.Tensor.to", "non-blocking"),
    ]
    with ThreadPoolExecutor() as executor:
        plain_future = executor.submit(
            run_script, tmp_path / "plain", DRAWING.replace("spawn", "fork"), is_recorded=False
        )
        edited = run_script(
            tmp_path / "edited", DRAWING, edits=[edit_to_json(edit) for edit in edits]
        )
        plain = plain_future.result()
    assert plain.out == edited.out
    assert plain.error.split() == ["1", "1"]
    assert edited.error.split() == ["2", "3"]
    assert [note for note in edited.texts(wire.UNOBSERVED) if "edit" in note["what"]] == []
    edit_facts = [fact["values"] for fact in edited.texts(wire.FACT) if fact["noun"] == "edit"]
    assert {values["edit"] for values in edit_facts if values["times"]} >= {0, 1, 2, 3}
