"""What a data set is like, told from its code and state, and what batches are made of."""

from __future__ import annotations

import functools
import threading
from collections import UserDict
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pytest
import torch
from torch.utils.data import ConcatDataset, DataLoader, Dataset, IterableDataset, Subset

from gapless.payload.loading import batch_facts, datasets

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class Plain(Dataset[int]):
    def __init__(self, **state: object) -> None:
        self.__dict__.update(state)

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> int:
        return index


class OnDevice(Plain):
    def __getitem__(self, index: int) -> Any:  # noqa: ANN401 - a sample
        return torch.ones(2).to("cuda:0") * index


class AsksOnlyWhetherThereIsOne(Plain):
    def __init__(self) -> None:
        super().__init__(usable=torch.cuda.is_available())


class Stream(IterableDataset[int]):
    def __iter__(self) -> Iterator[int]:
        yield from range(8)


class Shared(Stream):
    def __iter__(self) -> Iterator[int]:
        info = torch.utils.data.get_worker_info()
        yield from range(info.id if info else 0, 8, info.num_workers if info else 1)


def own_share(items: range) -> Iterator[int]:
    from torch.utils.data import get_worker_info  # noqa: PLC0415 - as some do

    info = get_worker_info()
    return iter(items if info is None else items[info.id :: info.num_workers])


class SharedByAFunction(Stream):
    def __iter__(self) -> Iterator[int]:
        yield from own_share(range(8))


class Wrapped(Stream):
    def __init__(self, inner: Stream) -> None:
        self.inner = inner

    def __iter__(self) -> Iterator[int]:
        for value in self.inner:
            yield value + 1


class InC(IterableDataset[int]):
    __iter__ = map(int, "12").__iter__  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]


def read_facts(dataset: Any, **arguments: Any) -> dict[str, Any]:  # noqa: ANN401
    return datasets.values(DataLoader(dataset, **arguments))


@pytest.mark.parametrize(
    ("dataset", "asks"),
    [
        (Plain(), None),
        (Stream(), False),
        (Shared(), True),
        (SharedByAFunction(), True),
        (Wrapped(Stream()), False),
        (Wrapped(Shared()), True),
        (InC(), None),
    ],
    ids=lambda dataset: type(dataset).__name__,
)
def test_whether_an_iterable_asks_which_worker_it_is_in(
    dataset: Dataset[int], asks: bool | None
) -> None:
    assert read_facts(dataset)["asks_worker_info"] is asks


def share_out(worker: int) -> None:
    raise NotImplementedError(worker)


def test_where_workers_are_told_apart_as_they_start_it_is_not_known() -> None:
    assert read_facts(Stream(), worker_init_fn=share_out)["asks_worker_info"] is None


def send(sample: torch.Tensor) -> torch.Tensor:
    return sample.cuda()


@pytest.mark.parametrize(
    ("dataset", "cuda"),
    [
        (Plain(), False),
        (OnDevice(), True),
        (AsksOnlyWhetherThereIsOne(), False),
        (Subset(OnDevice(), [1]), True),
        (Plain(device=torch.device("cuda")), True),
        (Plain(device="cuda:1"), True),
        (Plain(table={"x": [torch.ones(2)]}), False),
        (Plain(transform=send), True),
    ],
)
def test_whether_a_data_set_names_cuda(dataset: Dataset[int], cuda: bool) -> None:
    assert read_facts(dataset)["cuda"] is cuda


def collate_here(samples: list[int]) -> list[int]:
    return samples


def test_what_cannot_be_sent_to_a_spawned_worker(tmp_path: Path) -> None:
    class Local(Plain):
        pass

    class OwnWay(Plain):
        def __getstate__(self) -> dict[str, object]:
            raise AssertionError("nobody runs it")

    OwnWay.__qualname__ = "OwnWay"
    with (tmp_path / "x").open("w") as file:
        stuck: list[Dataset[int]] = [
            Plain(lock=threading.Lock()),
            Plain(file=file),
            Plain(transform=lambda: 1),
            Plain(inner=[Plain(stream=(letter for letter in "ab"))]),
            Local(),
            ConcatDataset([Plain(), Plain(lock=threading.Lock())]),
        ]
        assert [read_facts(dataset)["picklable"] for dataset in stuck] == [False] * len(stuck)
        assert read_facts(OwnWay(lock=threading.Lock()))["picklable"] is None
    assert read_facts(Plain(paths=["a"], read=collate_here))["picklable"] is None
    options: dict[str, Any] = {"collate_fn": lambda samples: samples}  # pyright: ignore[reportUnknownLambdaType]
    assert read_facts(Plain(), **options)["picklable"] is False
    assert read_facts(Plain(), collate_fn=collate_here)["picklable"] is None


def test_state_without_a_dictionary_is_looked_at_like_other_state(tmp_path: Path) -> None:
    assert read_facts(Plain(folder=tmp_path, lock=threading.Lock()))["picklable"] is False
    assert read_facts(Plain(folder=tmp_path, files=[tmp_path / "a.jpg"]))["picklable"] is None


def test_workers_that_are_spawned_have_been_sent_it() -> None:
    facts = read_facts(Plain(), num_workers=1, multiprocessing_context="spawn")
    assert facts["worker_start"] == "spawn"
    assert facts["picklable"] is True


class Untouchable(Dataset[int]):
    """Whose code must not run."""

    def __init__(self) -> None:
        self.__dict__["inner"] = {"a": [Plain()]}

    def __getattribute__(self, name: str) -> Any:  # noqa: ANN401
        raise AssertionError(name)

    def __len__(self) -> int:
        raise AssertionError

    def __eq__(self, other: object) -> bool:
        raise AssertionError

    def __hash__(self) -> int:
        raise AssertionError

    def __reduce__(self) -> str:
        raise AssertionError


def test_nothing_of_the_data_set_is_run() -> None:
    loader = DataLoader(Plain())
    loader.__dict__["dataset"] = object.__new__(Untouchable)
    assert datasets.values(loader)["asks_worker_info"] is None


def test_a_huge_state_is_looked_at_in_part() -> None:
    huge = Plain(
        paths=[f"{index}.jpg" for index in range(200_000)],
        tables=[[index] for index in range(100_000)],
    )
    walk = datasets._Walk()  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
    walk.state(huge, sent=True)
    walk.finish()
    assert datasets.MAX_OBJECTS - walk.left < 500


class Pair(NamedTuple):
    image: torch.Tensor
    labels: list[torch.Tensor]


class Bag:
    def __init__(self) -> None:
        self.x = torch.ones(3)


class Pinned(Bag):
    def pin_memory(self) -> Pinned:
        raise AssertionError("nobody runs it")


TENSOR = torch.ones(4, 3)


@pytest.mark.parametrize(
    ("batch", "pinnable", "size"),
    [
        (TENSOR, True, 48),
        ([TENSOR, torch.ones(4, dtype=torch.int64)], True, 80),
        ({"x": TENSOR, "names": ["a", "b"], "n": 3}, True, 48),
        (Pair(TENSOR, [TENSOR]), True, 96),
        (UserDict({"x": TENSOR}), True, 48),
        (Bag(), False, 0),
        ([Bag(), TENSOR], True, 48),
        (Pinned(), True, 0),
        (np.ones((2, 2)), False, 32),
        (torch.ones(3).to_sparse(), False, 0),
        (["only", "text", 3.0], None, 0),
    ],
)
def test_what_a_batch_is_made_of(batch: Any, pinnable: bool | None, size: int) -> None:  # noqa: ANN401
    facts = batch_facts.values(batch)
    assert facts["pinnable"] is pinnable
    assert facts["bytes"] == size


def test_of_a_batch_of_countless_parts_the_size_is_not_told() -> None:
    facts = batch_facts.values([TENSOR] * (batch_facts.MAX_PARTS + 1))
    assert facts["bytes"] is None
    assert facts["pinnable"] is True
    assert batch_facts.values([Bag()])["others"] == [f"{Bag.__module__}.Bag"]


# ── Where samples are made ──────────────────────────────────────────────────────────────────────


class Nothing(Dataset[int]):
    """Makes no sample itself: torch's own says so."""


def collate_tensor(samples: list[int]) -> torch.Tensor:
    return torch.tensor(samples)


SAMPLE_FUNCTIONS: list[tuple[Any, str | None]] = [
    (Plain(), "__getitem__"),
    (Stream(), "__iter__"),
    (Subset(Subset(Plain(), [0, 1]), [0]), "__getitem__"),
    (ConcatDataset([OnDevice(), Plain()]), "__getitem__"),
    (Nothing(), None),
    (InC(), None),
]


@pytest.mark.parametrize(
    ("dataset", "function"),
    SAMPLE_FUNCTIONS,
    ids=["own", "stream", "subset", "chain", "torch", "in C"],
)
def test_where_samples_are_made_is_told(dataset: Dataset[int], function: str | None) -> None:
    facts = read_facts(dataset)
    assert facts.get("sample_function") == function
    assert ("sample_file" in facts) == (function is not None)
    if function is not None:
        assert facts["sample_file"] == __file__


def test_where_samples_are_chosen_is_told() -> None:
    facts = read_facts(Plain(), sampler=Backwards())
    first_line = Backwards.__iter__.__code__.co_firstlineno
    assert (facts["sampler_file"], facts["sampler_line"]) == (__file__, first_line)
    assert "sampler_file" not in read_facts(Plain())  # torch's own


class Backwards:
    def __iter__(self) -> Iterator[int]:
        return iter((1, 0))

    def __len__(self) -> int:
        return 2


def test_where_samples_are_put_together_is_told() -> None:
    facts = read_facts(Plain(), collate_fn=functools.partial(collate_tensor))
    first_line = collate_tensor.__code__.co_firstlineno
    assert (facts["collate_file"], facts["collate_line"]) == (__file__, first_line)
    assert "collate_file" not in read_facts(Plain())  # torch's own
