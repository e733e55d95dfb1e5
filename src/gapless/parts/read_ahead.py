"""Ask the system for all files of a batch before the first of them is read."""

from __future__ import annotations

import os
from typing import Any

_MAX_NESTING = 8  # subsets of subsets


def read_ahead(loader: Any) -> Any:
    """Let the files of each batch of a ``DataLoader`` be read ahead by the system; return it.

    ``loader = read_ahead(DataLoader(…))``: where the data set has a list of files, one for each
    sample (``self.files[index]``, ``self.samples[index][0]``), whoever makes a batch first tells
    the system which files it is going to read (``posix_fadvise``), so that these reads run side by
    side, and then makes the samples as ever. Without such a list nothing is changed.
    """
    dataset = find_file_dataset(loader.dataset)
    if dataset is not None:
        attach(dataset)
    return loader


def attach(dataset: Any) -> bool:
    """Let a data set's batches be read ahead; return whether they were not yet."""
    if "__getitems__" in vars(dataset):
        return False
    vars(dataset)["__getitems__"] = BatchReader(dataset)
    return True


def find_file_dataset(dataset: Any) -> Any:
    """Return the data set, or the one within it, that has a list of files; None: there is none."""
    for _ in range(_MAX_NESTING):
        if find_files(dataset) is not None:
            return dataset
        dataset = getattr(dataset, "__dict__", {}).get("dataset")
    return None


def find_files(dataset: Any) -> str | None:
    """Return the name of a data set's list of files, one for each sample; None: it has none."""
    if not hasattr(os, "posix_fadvise") or not hasattr(type(dataset), "__len__"):
        return None
    for name, members in getattr(dataset, "__dict__", {}).items():
        if type(members) not in (list, tuple) or not members:
            continue
        path = _path(members[0])
        if path is not None and os.path.isfile(path) and len(members) == len(dataset):
            return name
    return None


def list_paths(dataset: Any) -> list[Any]:
    """Return the paths of the files of a data set that has a list of them."""
    return [_path(member) for member in getattr(dataset, find_files(dataset) or "", ())]


class BatchReader:
    """A data set's ``__getitems__``, by which torch asks for the samples of a batch."""

    def __init__(self, dataset: Any) -> None:
        self.dataset = dataset
        self.name = find_files(dataset)

    def __call__(self, indices: Any) -> Any:
        """Return the samples, after their files were asked for."""
        files = getattr(self.dataset, self.name or "", ())
        for index in indices:
            try:
                path = _path(files[index])
            except (LookupError, TypeError):
                continue
            if path is not None:
                advise(path)
        users = getattr(type(self.dataset), "__getitems__", None)
        if users is not None:
            return users(self.dataset, indices)
        return [self.dataset[index] for index in indices]


def _path(member: Any) -> Any:
    """Return the path that a member of a list is, or begins with; None: it has none."""
    if isinstance(member, (tuple, list)) and member:
        member = member[0]
    return member if isinstance(member, (str, os.PathLike)) else None


def advise(path: Any) -> None:
    """Tell the system that a file is going to be read; whoever reads it says what is wrong."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except (OSError, ValueError):
        return
    try:
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_WILLNEED)
    finally:
        os.close(descriptor)
