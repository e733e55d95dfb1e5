"""A loader's data set is replaced by what was packed of it, if that gives the same samples."""

from __future__ import annotations

import itertools
import random
import re
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset, Subset

from gapless.model.edit import Wrap
from gapless.parts import PackedDataset
from gapless.parts.packed_loader import read_packed
from tests.pack.in_process import pack_source, work_in_process
from tests.payload.laying import apply_edits

if TYPE_CHECKING:
    from pathlib import Path

WAVES: Final = [(torch.full((4,), float(n)), n) for n in range(9)]
BY_NAME: Final = [{"x": np.arange(n), "name": str(n), "ratio": float("nan")} for n in range(4)]
COUNT: Final = itertools.count()


class Photos(Dataset[Any]):
    """A folder of pictures, as a user's data set reads it."""

    def __init__(self, folder: Path, transform: Any = None) -> None:  # noqa: ANN401
        self.paths, self.transform = sorted(folder.rglob("*.png")), transform

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> Any:  # noqa: ANN401
        image = Image.open(self.paths[index]).convert("RGB")
        label = int(self.paths[index].parent.name == "b")
        return (image if self.transform is None else self.transform(image)), label


class Waves(Dataset[Any]):
    """Samples that are in memory."""

    def __init__(self, samples: list[Any], transform: Any = None) -> None:  # noqa: ANN401
        self.samples, self.transform = samples, transform

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: int) -> Any:  # noqa: ANN401
        sample = self.samples[index]
        return sample if self.transform is None else (self.transform(sample[0]), *sample[1:])


def flip_at_random(image: Image.Image) -> torch.Tensor:
    pixels = torch.from_numpy(np.asarray(image).copy())
    is_flipped = random.random() + float(torch.rand(())) + np.random.random() < 1.5  # noqa: NPY002
    return pixels.flip(0) if is_flipped else pixels


def double(wave: torch.Tensor) -> torch.Tensor:
    return wave * 2


def add_count(wave: torch.Tensor) -> torch.Tensor:
    return wave + next(COUNT)


@pytest.fixture(autouse=True)
def _in_process(monkeypatch: pytest.MonkeyPatch) -> None:
    work_in_process(monkeypatch)


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    for n in range(6):
        folder = tmp_path / "photos" / "ab"[n % 2]
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.arange(48, dtype="u1").reshape(4, 4, 3) + n).save(folder / f"{n}.png")
    pack_source(tmp_path / "photos", tmp_path / "packed")
    return tmp_path / "photos"


def seed_all() -> None:
    torch.manual_seed(3)
    random.seed(3)
    np.random.seed(3)  # noqa: NPY002


def draw_all() -> tuple[float, ...]:
    return random.random(), float(torch.rand(())), float(np.random.random())  # noqa: NPY002


def batches(loader: DataLoader[Any]) -> list[Any]:
    seed_all()
    return [(x.tolist(), y.tolist()) for x, y in loader]


@pytest.mark.parametrize("num_workers", [0, 1])
def test_batches_of_packed_photographs_are_the_same(photos: Path, num_workers: int) -> None:
    dataset = Photos(photos, flip_at_random)
    expected = batches(DataLoader(dataset, 2, shuffle=True, num_workers=num_workers))
    loader = DataLoader(dataset, 2, shuffle=True, num_workers=num_workers)
    assert read_packed(loader, str(photos.parent / "packed")) is loader
    assert batches(loader) == expected
    assert isinstance(loader.dataset, PackedDataset)
    for path in dataset.paths:
        path.unlink()
    assert batches(loader) == expected, "nothing is read from where it was packed from"


def test_random_numbers_of_the_training_are_as_they_were(photos: Path) -> None:
    loader = DataLoader(Photos(photos, flip_at_random), 2)
    seed_all()
    expected = draw_all()
    seed_all()
    read_packed(loader, str(photos.parent / "packed"))
    assert draw_all() == expected


def test_the_data_set_below_a_subset_is_replaced(tmp_path: Path) -> None:
    pack_source("tests.parts.test_packed_loader:WAVES", tmp_path / "packed")
    loader = DataLoader(Subset(Subset(Waves(WAVES), [8, 1, 4]), [0, 2]), 2)
    read_packed(read_packed(loader, str(tmp_path / "packed")), str(tmp_path / "packed"))
    inner: Any = loader.dataset
    assert isinstance(inner.dataset.dataset, PackedDataset)
    assert [labels.tolist() for _, labels in loader] == [[8, 4]]


def test_transforms_that_were_packed_are_not_applied_again(tmp_path: Path) -> None:
    pack_source("tests.parts.test_packed_loader:WAVES", tmp_path / "packed")
    plain = [(wave / 2, n) for wave, n in WAVES]
    for samples, transform in ((WAVES, None), (WAVES, torch.clone), (plain, double)):
        loader = DataLoader(Waves(samples, transform), 3)
        read_packed(loader, str(tmp_path / "packed"))
        assert [x[0].item() for x, _ in loader.dataset] == list(range(9))


def test_samples_of_dicts_arrays_and_not_a_number_are_compared(tmp_path: Path) -> None:
    pack_source("tests.parts.test_packed_loader:BY_NAME", tmp_path / "packed")
    loader = DataLoader(Waves(BY_NAME), 1)
    assert isinstance(read_packed(loader, str(tmp_path / "packed")).dataset, PackedDataset)


@pytest.mark.parametrize(
    ("dataset", "words"),
    [
        (Waves(WAVES[:4]), "Waves has 4 samples, .* has 9"),
        (Waves(WAVES[::-1]), "are not those of Waves: looked at were 0, 4, 8"),
        (Waves([(x.double(), n) for x, n in WAVES]), "are not those of Waves"),
        (Waves(WAVES, add_count), "others when they are"),
    ],
)
def test_other_samples_are_refused_and_the_loader_stays(
    dataset: Any,  # noqa: ANN401
    words: str,
    tmp_path: Path,
) -> None:
    pack_source("tests.parts.test_packed_loader:WAVES", tmp_path / "packed")
    loader = DataLoader(dataset, 2)
    with pytest.raises(ValueError, match=words):
        read_packed(loader, str(tmp_path / "packed"))
    assert loader.dataset is dataset
    with apply_edits(
        Wrap("torch.utils.data.DataLoader", "packed-data", {"path": str(tmp_path / "packed")})
    ) as edit_log:
        assert len(list(loader)) == (len(dataset) + 1) // 2
        assert edit_log.times() == 0
    assert re.search(words, edit_log.unobserved[0])


def test_the_edit_is_undone(photos: Path) -> None:
    dataset = Photos(photos, flip_at_random)
    loader, path = DataLoader(dataset, 3), str(photos.parent / "packed")
    with apply_edits(Wrap("torch.utils.data.DataLoader", "packed-data", {"path": path})) as log:
        assert len(list(loader)) == len(list(loader)) == 2
        assert isinstance(loader.dataset, PackedDataset)
        assert log.times() == 1
        assert (log.values[0]["old"], log.values[0]["new"]) == ("Photos", path)
    assert loader.dataset is dataset
