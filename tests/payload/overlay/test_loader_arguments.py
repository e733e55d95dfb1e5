"""Arguments of DataLoaders are set as the training makes them, and are the user's again after."""

from __future__ import annotations

import multiprocessing
import os
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch.utils.data import BatchSampler, DataLoader, Dataset, SequentialSampler

from gapless.model.edit import Location, SetArgument
from tests.payload.laying import apply_edits

if TYPE_CHECKING:
    from collections.abc import Callable

LOADER = "torch.utils.data.DataLoader"


class Numbers(Dataset[Any]):
    """Samples that tell which process made them."""

    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> Any:  # noqa: ANN401
        return index, os.getpid()


def setting(name: str, value: Any, location: Location | None = None) -> SetArgument:  # noqa: ANN401
    return SetArgument(LOADER, name, value, location)


def sample_processes(loader: DataLoader[Any]) -> set[int]:
    """Return the processes that made the samples."""
    return {int(process) for _, processes in loader for process in processes}


def indices(loader: DataLoader[Any]) -> list[int]:
    return [int(index) for index, _ in loader for index in index]


def test_workers_make_the_samples_of_a_loader_that_had_none_and_then_do_not() -> None:
    before: Any = vars(DataLoader)["__init__"]
    with apply_edits(setting("num_workers", 2)) as edit_log:
        loader = DataLoader(Numbers(), 2)
        processes = sample_processes(loader)
        assert len(processes) == 2
        assert os.getpid() not in processes
        assert edit_log.times() == 1
        assert edit_log.values[0] | {"times": 0} == {
            "edit": 0,
            "target": f"{LOADER}.num_workers",
            "old": 0,
            "new": 2,
            "times": 0,
        }
    assert vars(DataLoader)["__init__"] is before
    assert sample_processes(DataLoader(Numbers(), 2)) == {os.getpid()}


# As far as the context for workers.
POSITIONAL: Any = (Numbers(), 2, None, None, None, 1, None, False, False, 60, None, "fork")
LOADERS_WITH_WORKERS: list[Callable[[], DataLoader[Any]]] = [
    lambda: DataLoader(Numbers(), 2, num_workers=2, prefetch_factor=4, persistent_workers=True),
    lambda: DataLoader(Numbers(), 2, num_workers=1, timeout=60, multiprocessing_context="spawn"),
    lambda: DataLoader(*POSITIONAL),
]


@pytest.mark.parametrize("make", LOADERS_WITH_WORKERS)
def test_without_workers_what_is_meant_for_them_is_left_out(
    make: Callable[[], DataLoader[Any]],
) -> None:
    with apply_edits(setting("num_workers", 0)) as edit_log:
        assert sample_processes(make()) == {os.getpid()}
        assert edit_log.times() == 1


@pytest.mark.parametrize("reverse", [False, True])
def test_edits_of_one_loader_go_together_in_any_order(reverse: bool) -> None:
    edits = [setting("num_workers", 2), setting("prefetch_factor", 1)]
    edits += [setting("persistent_workers", True)]  # noqa: FBT003
    with apply_edits(*(edits[::-1] if reverse else edits)) as edit_log:
        loader = DataLoader(Numbers(), 1)
        iterator: Any = iter(loader)
        assert len(iterator._task_info) == 2  # noqa: SLF001 - asked of workers ahead: 2 × 1
        assert [edit_log.times(number) for number in range(3)] == [1, 1, 1]
        first_processes = sample_processes(loader)
        assert sample_processes(loader) == first_processes
        del iterator
        loader._iterator._shutdown_workers()  # type: ignore[union-attr]  # noqa: SLF001


def test_a_loader_without_workers_cannot_prefetch_and_is_left_as_it_is() -> None:
    with apply_edits(setting("prefetch_factor", 4)) as edit_log:
        assert sample_processes(DataLoader(Numbers(), 2)) == {os.getpid()}
        assert edit_log.times() == 0
        iterator: Any = iter(DataLoader(Numbers(), 1, num_workers=1))
        assert len(iterator._task_info) == 4  # noqa: SLF001
        assert edit_log.times() == 1
        iterator._shutdown_workers()  # noqa: SLF001


class WaitsForTheSecond(Numbers):
    """The first sample is there only after the second one has come."""

    def __init__(self) -> None:
        self.second: Any = multiprocessing.get_context("fork").Event()

    def __getitem__(self, index: int) -> Any:  # noqa: ANN401
        if index == 0:
            assert self.second.wait(30)
        return super().__getitem__(index)


def test_batches_come_in_the_order_in_which_they_are_ready() -> None:
    with apply_edits(setting("in_order", False)) as edit_log:  # noqa: FBT003
        data = WaitsForTheSecond()
        loader = DataLoader(data, 1, num_workers=2)
        arrivals: list[int] = []
        for index, _ in loader:
            arrivals.append(int(index))
            data.second.set()
        assert arrivals[0] == 1
        assert sorted(arrivals) == list(range(8))
        assert edit_log.times() == 1
    assert indices(DataLoader(Numbers(), 1, num_workers=2)) == list(range(8))


def test_batches_are_of_another_size_unless_a_sampler_or_the_data_set_makes_them() -> None:
    with apply_edits(setting("batch_size", 4)) as edit_log:
        assert len(next(iter(DataLoader(Numbers(), batch_size=2)))[0]) == 4
        sampler = BatchSampler(SequentialSampler(Numbers()), 2, drop_last=False)
        assert len(next(iter(DataLoader(Numbers(), batch_sampler=sampler)))[0]) == 2
        tensors: Any = [torch.zeros(3), torch.zeros(3)]
        unbatched_loader: DataLoader[Any] = DataLoader(tensors, batch_size=None)
        assert len(next(iter(unbatched_loader))) == 3
        assert edit_log.times() == 1
    assert len(next(iter(DataLoader(Numbers(), batch_size=2)))[0]) == 2


@pytest.mark.skipif(torch.accelerator.is_available(), reason="torch says so without one")
def test_batches_are_to_be_pinned() -> None:
    with apply_edits(setting("pin_memory", True)) as edit_log:  # noqa: FBT003
        loader = DataLoader(Numbers(), 2)
        with pytest.warns(UserWarning, match="pin_memory"):
            iter(loader)
        assert edit_log.times() == 1


def test_only_the_loader_of_that_line_is_edited() -> None:
    line = creation_line().line
    for call_line in (line, line + 1):  # the call goes over two lines
        with apply_edits(setting("batch_size", 4, Location(__file__, call_line))) as edit_log:
            first_loader, second_loader = two_loaders()
            assert (len(first_loader), len(second_loader)) == (2, 4)
            assert edit_log.times() == 1


def two_loaders() -> tuple[DataLoader[Any], DataLoader[Any]]:
    first_loader = DataLoader(Numbers(),
                       batch_size=2)  # fmt: skip
    second_loader = DataLoader(Numbers(), batch_size=2)
    return first_loader, second_loader


def creation_line() -> Location:
    return Location(__file__, two_loaders.__code__.co_firstlineno + 1)


def test_loaders_of_a_class_of_the_users_are_edited_too() -> None:
    class SizedLoader(DataLoader[Any]):
        def __init__(self, size: int) -> None:
            super().__init__(Numbers(), batch_size=size)

    with apply_edits(setting("batch_size", 4)):
        assert len(SizedLoader(2)) == 2
    assert len(SizedLoader(2)) == 4


def test_an_argument_that_this_torch_does_not_have_is_told_of() -> None:
    with apply_edits(setting("no_such_thing", 4)) as edit_log:
        assert len(DataLoader(Numbers(), 2)) == 4
        assert edit_log.times() == 0
        assert len(edit_log.unobserved) == 1
        assert "no_such_thing" in edit_log.unobserved[0]
