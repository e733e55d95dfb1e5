"""What ``gapless data`` does in the training: which samples, what is seen of them, other ways."""

import builtins
import io
import mmap
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import (
    DataLoader,
    Dataset,
    IterableDataset,  # pyright: ignore[reportUnknownVariableType]
)

from gapless.payload.feeding import collating, decoders, file_reads, kept, pixels, remote
from gapless.payload.feeding.batches import BYTES, NOW, RECYCLED, TENSORS, HeldBatch
from gapless.payload.feeding.maker import AHEAD, Maker
from gapless.payload.feeding.observation import Observation
from gapless.payload.feeding.result import describe_error
from gapless.payload.feeding.source import SampleSource

COUNT, SIDE = 12, 32


class Pictures(Dataset[tuple[torch.Tensor, int]]):
    """JPEG files, made a quarter as large; one of them cannot be had."""

    def __init__(self, folder: Path, broken: int | None = None) -> None:
        self.folder, self.broken = folder, broken

    def __len__(self) -> int:
        return COUNT

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        if index == self.broken:
            raise ValueError("broken")
        with Image.open(self.folder / f"{index}.jpg") as image:
            picture = image.convert("RGB").resize((SIDE // 4, SIDE // 4))
        flat = torch.frombuffer(bytearray(picture.tobytes()), dtype=torch.uint8)
        return flat.view(SIDE // 4, SIDE // 4, 3).permute(2, 0, 1) / 255, index


class Stream(IterableDataset[int]):
    """Three samples, and then no more."""

    def __iter__(self) -> Iterator[int]:
        return iter(range(3))


_BROKEN_LINE = Pictures.__getitem__.__code__.co_firstlineno + 2


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("pictures")
    rows = torch.linspace(0, 255, SIDE * SIDE * 3).view(SIDE, SIDE, 3).byte().numpy()
    for index in range(COUNT):
        Image.fromarray(np.roll(rows, index, 0)).save(place / f"{index}.jpg", quality=90)
    return place


def source_of(dataset: Any, **options: Any) -> SampleSource:  # noqa: ANN401
    settings: dict[str, Any] = {"batch_size": 4, **options}
    return SampleSource(DataLoader(dataset, **settings), COUNT)


def test_samples_come_in_the_order_of_the_loader() -> None:
    sampler = [5, 3, 1, 0, 2, 4]
    source = source_of(torch.arange(6), sampler=sampler)
    assert (source.units, source.batch_units) == (sampler, 4)
    assert [int(sample) for sample in source.fetch(source.units)] == sampler
    unbatched = source_of(torch.arange(6), batch_size=None, sampler=[[0, 1], [2, 3]])
    assert (unbatched.unit_samples(), unbatched.makes_batches) == (2, False)


def test_an_iterable_begins_anew_at_its_end() -> None:
    source = source_of(Stream())
    assert source.fetch(source.units[:4]) == [0, 1, 2, 0]
    assert source.fetch(source.units[:2]) == [1, 2]


def test_what_a_sample_reads_decodes_and_shrinks_is_seen_and_nothing_stays_replaced(
    folder: Path,
) -> None:
    before = Image.open, Image.Image.resize, builtins.open
    with Observation() as observation:
        Pictures(folder)[3]
        Path(folder / "4.jpg").read_bytes()
        Image.open(io.BytesIO((folder / "5.jpg").read_bytes())).load()
    assert observation.library == "Pillow"
    assert observation.encoded == [(folder / f"{index}.jpg").read_bytes() for index in (3, 5)]
    assert set(observation.files) == {str(folder / f"{index}.jpg") for index in (3, 4, 5)}
    assert observation.shrink_factor() == 4
    assert (Image.open, Image.Image.resize, builtins.open) == before


def test_a_sample_that_raises_is_left_out_and_each_stage_has_a_figure(folder: Path) -> None:
    maker = Maker(source_of(Pictures(folder, broken=2)), is_worker=True)
    reports = [report for _ in range(4) if (report := maker.add_group(3)) is not None]
    assert sum(report.samples for report in reports) == COUNT - 1
    assert [report.raised for report in reports if report.raised] == [
        [f"sample 2: ValueError: broken ({__file__}:{_BROKEN_LINE})"]
    ]
    ahead = maker.run("stages, read ahead", 0)
    assert [*ahead] == [("read", AHEAD)] or AHEAD in maker.facts()["absent"]["read"]
    assert {"whole", "stages", "raw", "collate", "collate, recycled", "collate, bytes"} <= set(
        reports[0].cells
    )
    figures: dict[tuple[str, str], float] = {}
    for cell in reports[0].cells:
        figures |= maker.run(cell, 0)
    assert {("sample", "whole"), ("read", NOW), ("rest", NOW), ("collate", NOW)} <= set(figures)
    assert {("collate", RECYCLED), ("collate", BYTES)} <= set(figures)
    assert ("decode", decoders.PRESENT) in figures
    assert {("sample", "samples kept"), ("decode", "pictures kept")} <= set(figures)
    assert {("shrink", decoders.PRESENT), ("shrink", "Pillow, draft 1/4")} <= set(figures)
    assert all(ns > 0 for ns in figures.values())
    draft = next(entry for entry in maker.differences() if entry["variant"] == "Pillow, draft 1/4")
    assert draft["max"] > 0
    assert draft["mean"] < 32


def test_samples_that_draw_numbers_are_not_kept() -> None:
    class Noise(Dataset[torch.Tensor]):
        def __len__(self) -> int:
            return COUNT

        def __getitem__(self, index: int) -> torch.Tensor:
            return torch.rand(4)

    maker = Maker(source_of(Noise()), is_worker=False)
    report = maker.add_group(3)
    assert report is not None
    assert "samples, kept" not in report.cells
    assert "draws random numbers" in maker.facts()["absent"]["sample"]["samples kept"]


def test_many_samples_that_raise_end_it() -> None:
    class Broken(Dataset[int]):
        def __len__(self) -> int:
            return 64

        def __getitem__(self, index: int) -> int:
            raise OSError("gone")

    maker = Maker(SampleSource(DataLoader(Broken(), 4), 64), is_worker=False)
    reports = iter(lambda: maker.add_group(16), None)
    with pytest.raises(OSError, match="gone"):
        list(reports)


def test_kept_samples_cost_what_a_process_makes_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source = source_of(torch.rand(COUNT, 5), num_workers=2)
    assert source.process_samples == COUNT / 2
    kept_samples = kept.KeptSamples(source)
    kept_samples.begin()
    assert kept_samples.keep([0, 1], source.fetch([0, 1])) == [0, 1]
    monkeypatch.setattr(kept, "monotonic_ns", iter((0, 100, 1000, 1600)).__next__)
    assert kept_samples.time([0, 1]) == pytest.approx(50 + 600 * (1 / 32 + 4 / 6))


def test_a_byte_of_each_page_of_a_batch_is_touched(monkeypatch: pytest.MonkeyPatch) -> None:
    copied: list[int] = []

    def clone(tensor: torch.Tensor) -> None:
        copied.append(tensor.numel())

    monkeypatch.setattr(torch.Tensor, "clone", clone)
    sparse = torch.eye(4).to_sparse()
    dense = torch.zeros(2, 4096), torch.zeros(3, dtype=torch.bool)
    collating.touch({"x": [*dense, sparse], "name": "a"})
    assert copied == [8, 1]


def test_bytes_are_exact_where_a_channel_has_so_few_values() -> None:
    picture = torch.randint(0, 256, (2, 3, 8, 8)) / 255
    mean, std = torch.tensor([0.1, 0.2, 0.3]), torch.tensor([0.2, 0.3, 0.4])
    normalised = (picture - mean.view(1, 3, 1, 1)) / std.view(1, 3, 1, 1)
    assert pixels.to_bytes(normalised)[1] == {"max": 0, "mean": 0.0}
    as_bytes, difference = pixels.to_bytes(torch.rand(2, 3, 32, 32))
    assert as_bytes.dtype is torch.uint8
    assert 0 < difference["mean"] < difference["max"] <= 0.5


def test_ways_to_hand_a_batch_over_are_those_that_it_has() -> None:
    def as_arrays(samples: list[Any]) -> Any:  # noqa: ANN401
        return {"x": np.stack([np.asarray(sample) for sample in samples]), "n": len(samples)}

    held = HeldBatch(source_of(torch.rand(8, 5), collate_fn=as_arrays), is_worker=True)
    held.hold(list(torch.rand(8, 5)))
    described = held.describe()
    assert described["ways"] == [NOW, TENSORS, RECYCLED]
    assert (described["samples"], described["types"]) == (4, ["float32 4×5", "int"])
    assert isinstance(held.make(TENSORS)["x"], torch.Tensor)
    assert held.cells()["collate, recycled"]()["collate", RECYCLED] > 0


def test_a_mapped_file_is_not_called_cold(tmp_path: Path) -> None:
    path = tmp_path / "mapped"
    path.write_bytes(bytes(1 << 16))
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        assert sum(mapped[:: mmap.PAGESIZE]) == 0
        why = file_reads.drop([str(path)])
    assert why is not None
    assert "1 of 1 files in memory" in why


def test_an_error_names_the_line_of_the_training() -> None:
    with pytest.raises(ValueError, match="broken") as raised:
        Pictures(Path(), broken=0)[0]
    assert describe_error(raised.value) == f"ValueError: broken ({__file__}:{_BROKEN_LINE})"


class SlowBatch:
    """A batch that takes a while to pickle; it becomes its number."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __reduce__(self) -> tuple[type[int], tuple[int]]:
        time.sleep(0.2 if self.number == 1 else 0.0)
        return int, (self.number,)


class CountingMaker:
    number = 0

    def begin(self, loader: object) -> None:
        pass

    def make_batch(self, way: str) -> SlowBatch:
        del way
        self.number += 1
        return SlowBatch(self.number)


def test_a_batch_that_is_slow_to_pickle_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "_POLL_S", 0.02)
    maker = remote.RemoteMaker(CountingMaker(), None)
    try:
        assert [maker.hand_over(NOW)[1] for _ in range(3)] == [1, 2, 3]
    finally:
        maker.close()


class Unsized(Dataset[int]):
    def __getitem__(self, index: int) -> int:
        return index


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_a_data_set_without_a_length_and_odd_batches_are_measured_all_the_same() -> None:
    loader = DataLoader(Unsized(), sampler=iter([3, 1, 2]), num_workers=1)  # pyright: ignore[reportArgumentType]
    assert SampleSource(loader, 2).process_samples == float("inf")
    collating.touch(torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]))
    collating.touch(np.array(["", ""], dtype="U0"))
