"""Data sets that are odd in one way each, and what tells whether two samples are the same."""

from __future__ import annotations

import struct
from typing import Any, Final, cast

import numpy as np
import torch
from PIL import Image

ROWS: Final = np.arange(24, dtype=np.float64).reshape(4, 6)
DATA_SETS: Final[dict[str, list[Any]]] = {
    "empty": [],
    "one sample": [(torch.arange(3), 1)],
    "duplicates": [("same", 0)] * 5,
    "unicode": ["Größe", "猫", "👩‍🚀", "e\u0301", "\udcff lone", "nul\0nul", ""],
    "nested": [{"a": [(1, {"b": [torch.ones(2), {"c": b"x"}]})], "z": ()}, {"a": []}, {}],
    "nothing in it": [b"", "", [], (), {}, torch.empty(0, 3), np.empty((0,), "i2"), None],
    "tensors": [
        torch.tensor([True, False]),
        torch.arange(6).reshape(2, 3).T,
        torch.randn(3, generator=torch.Generator().manual_seed(1)).to(torch.bfloat16),
        torch.tensor(3.5, dtype=torch.float16),
        torch.tensor([1 + 2j]).conj(),
        torch.tensor([-1, 127], dtype=torch.int8),
        torch.full((2, 2), float("nan")),
    ],
    "arrays": [
        ROWS[:, ::2],
        np.asfortranarray(ROWS),
        ROWS.astype(">f4"),
        np.array(7, "u1"),
        np.array([("a", 1, [1.0, 2.0])], [("n", "U3"), ("i", "<i4"), ("v", "<f8", (2,))]),
        np.array(["2026-11-26"], "M8[D]"),
        np.float32(0.1),
        np.int64(-5),
        np.array([b"ab", b"c"]),
    ],
    "four channels": [(Image.new("RGBA", (5, 3), (1, 2, 3, 4)), 0), (Image.new("CMYK", (2, 2)), 1)],
    "sixteen bits": [Image.fromarray(np.arange(6, dtype=np.uint16).reshape(2, 3))],
    "modes of images": [
        Image.new(mode, (9, 2), 1) for mode in ("1", "L", "LA", "F", "I", "RGB", "YCbCr")
    ],
    "a palette": [Image.new("RGB", (8, 8), (9, 8, 7)).quantize(4)],
    "broken JPEG": [(b"\xff\xd8\xff\xe0 not a picture", 3), (b"", 4)],
    "numbers": [float("nan"), float("-inf"), -0.0, 1 << 200, -1, True, None, 1e-320, 1 + 2j],
    "labels of all kinds": [("a", -7), ("b", 1 << 61), ("c", 1 << 80), ("d", True), ("e", 2.0)],
    "bytes that change": [bytearray(b"abc"), [bytearray()]],
    "keys of all kinds": [{1: "a", 2.5: "b", None: "c", False: "d", "é": "e"}],
    "lengths that vary": [(torch.arange(n), n) for n in (0, 1, 17, 4096)],
    "alike": [(torch.full((2, 3), i), {"f": float(i), "b": np.uint8(i)}, i) for i in range(40)],
    "a large sample": [torch.arange(300_000), torch.zeros(1)],
}
ALIKE: Final = ("one sample", "alike", "a palette", "sixteen bits", "empty")


def are_same(sample: Any, other: Any) -> bool:  # noqa: ANN401
    """Return whether two samples are of the same types and the same bytes."""
    return spell(sample) == spell(other)


def spell(value: Any) -> Any:  # noqa: ANN401
    """Return what a value is, in types and bytes that can be compared."""
    kind = cast("Any", type(value))
    if isinstance(value, Image.Image):
        return "image", value.mode, value.size, value.tobytes(), value.getpalette()
    if isinstance(value, torch.Tensor):
        return kind, value.dtype, value.shape, bits(value)
    if kind is np.ndarray or issubclass(kind, np.generic):
        return kind, value.dtype, value.shape, value.tobytes()
    if kind in (list, tuple, dict):
        items: Any = value.items() if kind is dict else value
        return kind, [spell(item) for item in items]
    return kind, struct.pack("d", value) if kind is float else value


def bits(tensor: torch.Tensor) -> bytes:
    """Return the bytes of a tensor's values."""
    flat = tensor.resolve_conj().contiguous().reshape(-1)
    return flat.view(torch.uint8).numpy().tobytes()
