"""Sources of samples: folders of images, and data sets of the user's, each read by index."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from typing import Any, NamedTuple

from ..parts.sample_codec import UnencodableError, describe, encode, join_buffers

# What torchvision's ImageFolder takes for an image.
IMAGE_SUFFIXES = (
    ".jpg",
    ".jpeg",
    ".png",
    ".ppm",
    ".bmp",
    ".pgm",
    ".tif",
    ".tiff",
    ".webp",
)
_PAIR = 2  # an input and its label
_MAX_LABEL = 1 << 62
_MAX_SUFFIXES = 4  # that are named


class SourceError(Exception):
    """A source that cannot be read; the message says why, and what to do."""


class SourceRecord(NamedTuple):
    """A sample as it is written: its bytes, its label, its name, its files in a tar."""

    data: bytes
    label: int | None = None
    name: str | None = None
    extension: str = "sample"
    members: list[tuple[str, bytes]] | None = None  # None: the data, and the label


class ImageFolder:
    """Images in folders of classes, or in one folder without labels, as they lie on the disk.

    Classes, their order and that of images are those of torchvision's ``ImageFolder``.
    """

    kind = "images"
    layout: Any = None

    def __init__(self, path: str) -> None:
        self.path = path
        self.notes: list[str] = []
        folders = sorted(entry.name for entry in os.scandir(path) if entry.is_dir())
        self._files: list[tuple[str, int | None]] = []  # below the folder, and the label
        others: list[str] = []
        for label, folder in enumerate(folders):
            others += self._add_files(folder, label)
        self.classes: list[str] | None = folders if self._files else None
        loose = sorted(entry.name for entry in os.scandir(path) if entry.is_file())
        images = [name for name in loose if _is_image(name)]
        if self.classes is None:
            self._files = [(name, None) for name in images]
        elif images:
            self.notes.append(
                f"images directly in {path} are left out, since they are in no class: {len(images)}"
            )
        others += [name for name in loose if not _is_image(name)]
        if not self._files:
            raise SourceError(
                f"{path} holds no images: none in folders of classes, and none beside one another "
                f"({', '.join(IMAGE_SUFFIXES)})"
            )
        if others:
            suffixes = sorted({os.path.splitext(name)[1] or name for name in others})
            self.notes.append(
                f"files that are left out, since their names are of no images: {len(others)} "
                f"({', '.join(suffixes[:_MAX_SUFFIXES])})"
            )

    def _add_files(self, folder: str, label: int) -> list[str]:
        """Add the images of a class; return the names of files that are none."""
        others: list[str] = []
        top = os.path.join(self.path, folder)
        for root, _, names in sorted(os.walk(top, followlinks=True)):
            below = os.path.relpath(root, self.path)
            images = [name for name in sorted(names) if _is_image(name)]
            self._files += [(os.path.join(below, name), label) for name in images]
            others += [name for name in names if not _is_image(name)]
        return others

    def __len__(self) -> int:
        """Return the number of images."""
        return len(self._files)

    def record(self, index: int) -> SourceRecord:
        """Return the bytes of a file. Raises ``OSError``."""
        name, label = self._files[index]
        with open(os.path.join(self.path, name), "rb") as file:
            data = file.read()
        return SourceRecord(data, label, name, os.path.splitext(name)[1][1:].lower())

    def measure(self, index: int) -> int:
        """Return the size of a file."""
        return os.path.getsize(os.path.join(self.path, self._files[index][0]))


class UserDataset:
    """A map-style data set of the user's: ``module:NAME`` or ``file.py:NAME``.

    What stands behind the colon is an expression in that module: a data set, or what makes one
    when it is called without arguments.
    """

    kind = "samples"
    layout: Any = None
    classes: list[str] | None = None

    def __init__(self, text: str) -> None:
        self.notes: list[str] = []
        self._dataset: Any = _make_dataset(text)
        if not hasattr(type(self._dataset), "__getitem__"):
            raise SourceError(
                f"{text} is {_describe_type(self._dataset)}, which has no __getitem__: only data "
                "sets that are read by index can be packed"
            )
        try:
            self._count = len(self._dataset)
        except (TypeError, NotImplementedError):
            raise SourceError(
                f"{text} is {_describe_type(self._dataset)}, which has no length: only data sets "
                "that are read by index can be packed"
            ) from None
        classes = getattr(self._dataset, "classes", None)
        if isinstance(classes, list) and all(isinstance(name, str) for name in classes):
            self.classes = classes

    def __len__(self) -> int:
        """Return the number of samples."""
        return self._count

    def sample(self, index: int) -> Any:
        """Return a sample, whatever that raises."""
        return self._dataset[index]

    def record(self, index: int) -> SourceRecord:
        """Return a sample as bytes. Raises ``UnencodableError``."""
        sample = self.sample(index)
        return SourceRecord(encode(sample), find_label(sample))


class FixedDataset:
    """A data set whose samples are alike, for arrays on disk: records without a tree each."""

    kind = "samples"

    def __init__(self, dataset: UserDataset) -> None:
        self._dataset = dataset
        self.notes, self.layout, self.classes = dataset.notes, None, dataset.classes
        self.skeleton: Any = self._describe(0)[0] if len(dataset) else None

    def __len__(self) -> int:
        """Return the number of samples."""
        return len(self._dataset)

    def record(self, index: int) -> SourceRecord:
        """Return the buffers of a sample. Raises ``UnencodableError`` if it is not as the first."""
        skeleton, buffers, label = self._describe(index)
        if skeleton != self.skeleton:
            raise UnencodableError(
                "it has other shapes or types than sample 0: --to npy is for samples that are "
                "alike; --to packed takes all"
            )
        return SourceRecord(join_buffers(buffers), label)

    def _describe(self, index: int) -> tuple[Any, list[bytes], int | None]:
        sample = self._dataset.sample(index)
        try:
            skeleton, buffers = describe(sample, is_fixed=True)
        except UnencodableError as error:
            raise UnencodableError(
                f"{error}: --to npy is for arrays and numbers; --to packed takes all"
            ) from None
        return skeleton, buffers, find_label(sample)


def find_label(sample: Any) -> int | None:
    """Return the label of a sample: a whole number that stands second in a pair."""
    if type(sample) is not tuple or len(sample) != _PAIR or type(sample[1]) is not int:
        return None
    return sample[1] if abs(sample[1]) < _MAX_LABEL else None


def _is_image(name: str) -> bool:
    return name.lower().endswith(IMAGE_SUFFIXES)


def _describe_type(value: Any) -> str:
    return f"a {type(value).__name__}" if not isinstance(value, type) else f"the class {value}"


def _make_dataset(text: str) -> Any:
    """Return the data set that a source names. Raises ``SourceError``."""
    module_path, _, expression = text.partition(":")
    module = (
        import_file(module_path) if module_path.endswith(".py") else _import_module(module_path)
    )
    try:
        value = eval(expression, module.__dict__)  # noqa: S307 - the user's own words
    except NameError as error:
        raise SourceError(f"{module_path} has no {expression!r}: {error}") from None
    if isinstance(value, type) or not hasattr(type(value), "__getitem__"):
        if not callable(value):
            raise SourceError(f"{text} is {_describe_type(value)}, and no data set")
        try:
            value = value()
        except TypeError as error:
            raise SourceError(
                f"{text} cannot be called without arguments ({error}): write them, as in "
                f"'{module_path}:{expression}(\"train\")'"
            ) from None
    return value


def import_file(path: str) -> Any:
    """Import a file as a module of its name, whatever that raises."""
    name = os.path.splitext(os.path.basename(path))[0]
    if not os.path.isfile(path):
        raise SourceError(f"{path}: there is no such file")
    sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
    specification: Any = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(specification)
    sys.modules[name] = module
    specification.loader.exec_module(module)
    return module


def _import_module(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise SourceError(f"{name} cannot be imported: {error}") from None
