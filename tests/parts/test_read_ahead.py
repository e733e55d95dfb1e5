"""Files of a batch are asked for before the first of them is read, and samples stay the same."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from torch.utils.data import DataLoader, Dataset, Subset

from gapless.model.edit import Wrap
from gapless.parts.read_ahead import find_files, read_ahead
from gapless.payload.loading import datasets
from tests.payload.laying import apply_edits

if TYPE_CHECKING:
    from collections.abc import Callable


def name_and_class(path: Path) -> tuple[str, int]:
    return str(path), 0


class Texts(Dataset[str]):
    def __init__(self, folder: Path, make_sample: Callable[[Path], Any] = str) -> None:
        self.root = str(folder)
        self.classes = ["a", "b"]
        paths = [folder / f"{number}.txt" for number in range(6)]
        for path in paths:
            path.write_text(path.stem)
        self.samples: list[Any] = [make_sample(path) for path in paths]

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: int) -> str:
        path = Path(self.root) / f"{index}.txt"
        log.append(f"read {path.stem}")
        return path.read_text()


log: list[str] = []


@pytest.fixture
def advised(monkeypatch: pytest.MonkeyPatch) -> None:
    def advise(descriptor: int, *_: int) -> None:
        path = Path(f"/proc/self/fd/{descriptor}").readlink()
        log.append(f"ask {path.stem}")

    log.clear()
    monkeypatch.setattr(os, "posix_fadvise", advise)


@pytest.mark.usefixtures("advised")
@pytest.mark.parametrize("make_sample", [str, Path, name_and_class])
def test_files_are_asked_for_before_they_are_read(
    tmp_path: Path, make_sample: Callable[[Path], Any]
) -> None:
    loader = read_ahead(read_ahead(DataLoader(Texts(tmp_path, make_sample), 2)))
    assert list(loader)[:2] == [["0", "1"], ["2", "3"]]
    assert log[:8] == [
        "ask 0",
        "ask 1",
        "read 0",
        "read 1",
        "ask 2",
        "ask 3",
        "read 2",
        "read 3",
    ]


@pytest.mark.usefixtures("advised")
def test_a_subset_asks_for_its_own_files(tmp_path: Path) -> None:
    subset = Subset(Texts(tmp_path), [5, 3])
    assert list(read_ahead(DataLoader(subset, 2))) == [["5", "3"]]
    assert log == ["ask 5", "ask 3", "read 5", "read 3"]


def test_without_a_list_of_files_nothing_is_changed(tmp_path: Path) -> None:
    loader = read_ahead(DataLoader([1, 2], 2))  # type: ignore[arg-type]
    assert next(iter(loader)).tolist() == [1, 2]
    texts = Texts(tmp_path)
    assert find_files(texts) == "samples"
    texts.samples.append("one more than there are")
    monkey: Any = texts
    monkey.samples, monkey.classes = ["a", "b"], texts.samples
    assert find_files(texts) is None


@pytest.mark.usefixtures("advised")
def test_the_edit_is_undone_and_its_file_list_is_a_fact(tmp_path: Path) -> None:
    texts = Texts(tmp_path)
    loader = DataLoader(texts, 3)
    assert datasets.values(loader)["files"] == "samples"
    with apply_edits(Wrap("torch.utils.data.DataLoader", "read-ahead")) as edit_log:
        assert len(list(loader)) == len(list(loader)) == 2
        assert edit_log.times() == 1
        assert log.count("ask 4") == 2
    assert "__getitems__" not in vars(texts)
