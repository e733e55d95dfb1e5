"""Find the pipelines of torchvision transforms that a data set has; nothing here needs torch."""

from __future__ import annotations

from typing import Any

_LIBRARY = "torchvision.transforms"
_COMPOSE = "Compose"
_TO_FLOATS = {  # what ends a pipeline with floats: classes that make bytes of a picture, and floats
    ("ToTensor",),
    ("PILToTensor", "ConvertImageDtype"),
    ("PILToTensor", "ToDtype"),
    ("ToImage", "ConvertImageDtype"),
    ("ToImage", "ToDtype"),
    ("ConvertImageDtype",),
    ("ToDtype",),
}
_NORMALIZE = "Normalize"
_MAX_NESTING = 8  # subsets of subsets


def find_pipelines(dataset: Any) -> list[Any]:
    """Return the pipelines of torchvision transforms that a data set, or one within it, has."""
    pipelines: list[Any] = []
    datasets = [dataset]
    for _ in range(_MAX_NESTING):
        inner: list[Any] = []
        for source in datasets:
            members = _own_attributes(source)
            pipelines += [
                member
                for member in members.values()
                if name_transform(member) == _COMPOSE
                and not any(member is pipeline for pipeline in pipelines)
            ]
            inner += [members["dataset"]] if "dataset" in members else members.get("datasets", [])
        datasets = inner
    return pipelines


def _own_attributes(dataset: Any) -> dict[str, Any]:
    """Return what a data set has of its own, without running its code."""
    kind = type(dataset)
    attributes = object.__getattribute__(dataset, "__dict__") if kind.__dictoffset__ else None
    return attributes if type(attributes) is dict else {}


def name_transform(transform: Any) -> str | None:
    """Return the name of a class of torchvision's transforms; None: it is none."""
    kind = type(transform)
    is_known = kind.__module__ == _LIBRARY or kind.__module__.startswith(_LIBRARY + ".")
    return kind.__name__ if is_known else None


def count_transforms_to_floats(transforms: Any) -> int:
    """Return how many transforms at the end only make floats of bytes; 0: they do not end so."""
    names = [name_transform(transform) for transform in transforms]
    end = len(names)
    while end and names[end - 1] == _NORMALIZE:
        end -= 1
    for length in (2, 1):
        if end >= length and tuple(names[end - length : end]) in _TO_FLOATS:
            return len(names) - end + length
    return 0
