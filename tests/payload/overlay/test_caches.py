"""The edits by which samples and pictures are kept: filled first, then given, then taken off."""

from __future__ import annotations

import random
import re
from typing import TYPE_CHECKING, Any

import pytest
import torch
from PIL import Image
from torch.utils.data import DataLoader

from gapless.model.edit import Wrap
from gapless.parts.caches import sample_cache
from gapless.payload.loading import datasets
from gapless.payload.overlay import cache_filling
from tests.parts.batching.test_length_buckets import Texts, epoch, padding
from tests.parts.caches.test_file_cache import Texts as Files
from tests.parts.caches.test_sample_cache import COUNT, Samples, epochs, flat
from tests.parts.test_jpeg_files import Folder
from tests.payload.laying import apply_edits

if TYPE_CHECKING:
    from pathlib import Path

TARGET = "torch.utils.data.DataLoader"
SAMPLES, PICTURES = Wrap(TARGET, "sample-cache"), Wrap(TARGET, "picture-cache")


@pytest.fixture(autouse=True)
def _no_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sample_cache, "_FIRST_CHECKS", 0)


def test_files_are_there_before_the_first_epoch(tmp_path: Path) -> None:
    dataset, folder = Files(tmp_path / "far"), tmp_path / "near"
    expected = [dataset[index] for index in range(4)]
    loader = DataLoader(dataset, 4, num_workers=1)
    with apply_edits(Wrap(TARGET, "file-cache", {"folder": str(folder)})) as edit_log:
        iterator = iter(loader)
        copies = list(folder.glob("*/*"))
        assert sorted(copy.read_text() for copy in copies) == sorted(expected)
        for copy in copies:
            copy.write_text("a copy")
        del iterator
        assert list(loader) == [["a copy"] * 4]
        assert edit_log.unobserved == []
    assert list(loader) == [expected]


@pytest.mark.parametrize("workers", [0, 1])
def test_samples_are_there_before_the_first_epoch(workers: int) -> None:
    def loader() -> DataLoader[Any]:
        return DataLoader(Samples(), 4, shuffle=True, num_workers=workers)

    expected = flat(epochs(loader(), 1))
    cached = loader()
    with apply_edits(SAMPLES) as edit_log:
        assert flat(epochs(cached, 1)) == expected
        assert cached.dataset.made.tolist() == [1] * COUNT  # type: ignore[attr-defined]
        assert edit_log.unobserved == []
        if not workers:
            assert edit_log.times() == COUNT
            words = rf"warm: {COUNT} of {COUNT} samples were made in \d s before steps were "
            assert re.match(f"{words}measured, {COUNT} kept; ", edit_log.values[0]["new"])
    assert "__getitems__" not in vars(cached.dataset)


def test_random_samples_refuse_it() -> None:
    with apply_edits(SAMPLES) as edit_log:
        list(DataLoader(Samples(random.random), 4, num_workers=0))
        assert edit_log.times() == 0


def test_a_data_set_that_is_too_slow_to_fill_refuses_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache_filling, "MAX_S", 0.0)
    with apply_edits(SAMPLES) as edit_log:
        list(DataLoader(Samples(), 4))
        (reason,) = edit_log.unobserved
        assert "a trial cannot show it: 0 of 12 samples were made" in reason


def test_pictures_are_decoded_before_the_first_epoch_and_by_workers_alone(tmp_path: Path) -> None:
    def first_batch(loader: DataLoader[Any]) -> torch.Tensor:
        torch.manual_seed(0)
        return next(iter(loader))[0]

    expected = first_batch(DataLoader(Folder(tmp_path), 4, num_workers=1))
    opened = Image.open
    with apply_edits(PICTURES) as edit_log:
        loader = DataLoader(Folder(tmp_path), 4, num_workers=1)
        assert torch.equal(first_batch(loader), expected)
        assert Image.open is opened
        assert edit_log.unobserved == []
    assert loader.worker_init_fn is None


def test_batches_are_put_together_by_length_while_the_edit_is_on() -> None:
    loader = DataLoader(Texts(), 8, shuffle=True)
    values = datasets.values(loader)
    assert (values["texts"], values["by_hand"]) == ("texts", False)
    before = vars(loader)["batch_sampler"]
    with apply_edits(Wrap(TARGET, "length-buckets")) as edit_log:
        assert padding(epoch(loader)) < 0.2
        assert edit_log.times() == len(loader)
        list(DataLoader(Samples(), 4))
        assert "has no texts or lists" in edit_log.unobserved[0]
    assert loader.batch_sampler is before
