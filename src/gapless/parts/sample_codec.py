"""Samples of a data set as bytes, without pickle, and back: the same types, the same bytes.

A sample is a tree: tuples, lists and dicts of tensors, arrays, images, bytes, texts and numbers.
Its bytes are the length of a head (4 bytes), the head (JSON: the tree, with small values in it),
and the buffers of what is large, each at a multiple of 16. Reading runs no code of anybody's.
"""

from __future__ import annotations

import json
import struct
import sys
from typing import Any

ALIGNMENT = 16  # bytes
_HEAD = struct.Struct("<I")
_LITERALS = (type(None), str)
_FIXED = {bool: ("o", "<?"), int: ("i", "<q"), float: ("f", "<d")}  # numbers of records as buffers


class UnencodableError(Exception):
    """A part of a sample whose type cannot be written; the message names both."""


def encode(sample: Any) -> bytes:
    """Return a sample as bytes. Raises ``UnencodableError``."""
    skeleton, buffers = describe(sample)
    head = json.dumps(skeleton, separators=(",", ":")).encode()
    space = b"\0" * (-(_HEAD.size + len(head)) % ALIGNMENT)
    return b"".join((_HEAD.pack(len(head)), head, space, *map(_fill, buffers)))


def decode(buffer: Any) -> Any:
    """Return the sample in a buffer that can be written to; tensors and arrays share its memory."""
    (length,) = _HEAD.unpack_from(buffer)
    start = _HEAD.size + length
    skeleton = json.loads(bytes(buffer[_HEAD.size : start]))
    return rebuild(skeleton, buffer, start + -start % ALIGNMENT)


def describe(sample: Any, *, is_fixed: bool = False) -> tuple[Any, list[bytes]]:
    """Return the tree of a sample, and its buffers. Raises ``UnencodableError``.

    ``is_fixed``: numbers are buffers too, and texts are refused: trees of equal shapes are equal.
    """
    description = _Description(is_fixed=is_fixed)
    return description.describe(sample, "sample"), description.buffers


def rebuild(skeleton: Any, buffer: Any, offset: int = 0) -> Any:
    """Return the sample with this tree whose buffers begin at an offset of a buffer."""
    return _Cursor(buffer, offset).rebuild(skeleton)


def join_buffers(buffers: list[bytes]) -> bytes:
    """Return buffers behind one another, each at a multiple of the alignment."""
    return b"".join(map(_fill, buffers))


def _fill(buffer: bytes) -> bytes:
    return buffer + b"\0" * (-len(buffer) % ALIGNMENT)


class _Description:
    """A sample on its way to bytes: the buffers so far."""

    def __init__(self, *, is_fixed: bool) -> None:
        self.buffers: list[bytes] = []
        self._is_fixed = is_fixed

    def describe(self, node: Any, path: str) -> Any:
        """Return the tree of a part of the sample."""
        kind = type(node)
        if kind in _FIXED:
            return self._describe_number(node, path)
        if kind in _LITERALS:
            if self._is_fixed and kind is str:
                raise UnencodableError(f"{path} is a text, whose length may vary")
            return node
        if kind in (tuple, list, dict):
            return self._describe_container(node, path)
        if kind in (bytes, bytearray):
            return ["b" if kind is bytes else "B", self._add(bytes(node))]
        return self._describe_large(node, path)

    def _describe_container(self, node: Any, path: str) -> Any:
        if type(node) is dict:
            return ["d", [self._describe_item(key, node[key], path) for key in node]]
        tag = "t" if type(node) is tuple else "l"
        return [tag, [self.describe(v, f"{path}[{i}]") for i, v in enumerate(node)]]

    def _describe_number(self, node: Any, path: str) -> Any:
        if not self._is_fixed:
            return node
        tag, layout = _FIXED[type(node)]
        try:
            return [tag, self._add(struct.pack(layout, node))]
        except struct.error:
            raise UnencodableError(f"{path} is an int of more than 64 bits") from None

    def _describe_item(self, key: Any, value: Any, path: str) -> list[Any]:
        if type(key) not in (str, int, float, bool, type(None)):
            raise UnencodableError(f"a key of {path} is {_name_type(key)}")
        return [key, self.describe(value, f"{path}[{key!r}]")]

    def _describe_large(self, node: Any, path: str) -> Any:
        if type(node) is complex:
            return ["c", node.real, node.imag]
        torch, numpy, image = (sys.modules.get(n) for n in ("torch", "numpy", "PIL.Image"))
        if torch is not None and type(node) is torch.Tensor:
            return self._describe_tensor(node, path)
        if numpy is not None and (type(node) is numpy.ndarray or isinstance(node, numpy.generic)):
            return self._describe_array(node, path, numpy)
        if image is not None and isinstance(node, image.Image):
            palette = node.getpalette(node.palette.mode) if node.mode == "P" else None
            extra = None if palette is None else [node.palette.mode, palette]
            return ["P", node.mode, list(node.size), self._add(node.tobytes()), extra]
        raise UnencodableError(f"{path} is {_name_type(node)}")

    def _describe_tensor(self, node: Any, path: str) -> Any:
        for is_refused, words in (
            (node.is_nested, "nested"),
            (str(node.layout) != "torch.strided", "sparse"),
            (node.is_quantized, "quantized"),
            (node.device.type != "cpu", f"on {node.device}"),
        ):
            if is_refused:
                raise UnencodableError(f"{path} is a tensor that is {words}")
        uint8 = sys.modules["torch"].uint8
        flat = node.detach().resolve_conj().resolve_neg().contiguous().reshape(-1)
        data = flat.view(uint8).numpy().tobytes()
        return ["T", str(node.dtype).rpartition(".")[2], list(node.shape), self._add(data)]

    def _describe_array(self, node: Any, path: str, numpy: Any) -> Any:
        if node.dtype.hasobject:
            raise UnencodableError(f"{path} is a numpy array of objects")
        tag = "A" if type(node) is numpy.ndarray else "S"
        data = self._add(node.tobytes())
        return [tag, numpy.lib.format.dtype_to_descr(node.dtype), list(node.shape), data]

    def _add(self, data: bytes) -> int:
        self.buffers.append(data)
        return len(data)


class _Cursor:
    """A place in the buffers of a sample, which goes on as they are used."""

    def __init__(self, buffer: Any, offset: int) -> None:
        self._buffer, self._offset = buffer, offset

    def rebuild(self, node: Any) -> Any:
        """Return the part of a sample with this tree."""
        if type(node) is not list:
            return node
        tag = node[0]
        if tag in "tl":
            values = [self.rebuild(value) for value in node[1]]
            return tuple(values) if tag == "t" else values
        if tag == "d":
            return {key: self.rebuild(value) for key, value in node[1]}
        return self._rebuild_large(tag, node)

    def _rebuild_large(self, tag: str, node: list[Any]) -> Any:
        if tag in "TAS":
            dtype, shape, length = node[1:]
            return (self._tensor if tag == "T" else self._array)(tag, dtype, shape, length)
        if tag in "bB":
            data = bytes(self._take(node[1]))
            return data if tag == "b" else bytearray(data)
        if tag in "oif":
            layout = dict(_FIXED.values())[tag]
            return struct.unpack(layout, self._take(node[1]))[0]
        if tag == "c":
            return complex(node[1], node[2])
        if tag == "P":
            return self._image(*node[1:])
        raise ValueError(f"no part of a sample is written as {tag!r}")

    def _step(self, length: int) -> int:
        start = self._offset
        self._offset += length + -length % ALIGNMENT
        return start

    def _take(self, length: int) -> Any:
        start = self._step(length)
        return memoryview(self._buffer)[start : start + length]

    def _tensor(self, _tag: str, name: str, shape: list[int], length: int) -> Any:
        import torch  # noqa: PLC0415 - samples without tensors are read without it

        dtype = getattr(torch, name)
        start = self._step(length)
        if not length:
            return torch.empty(shape, dtype=dtype)
        count = length // dtype.itemsize
        flat = torch.frombuffer(self._buffer, dtype=dtype, count=count, offset=start)
        return flat.reshape(shape)

    def _array(self, tag: str, descr: Any, shape: list[int], length: int) -> Any:
        import numpy as np  # noqa: PLC0415

        dtype = np.lib.format.descr_to_dtype(as_tuples(descr))
        start = self._step(length)
        count = length // dtype.itemsize if dtype.itemsize else 0
        if not count:
            array = np.empty(shape, dtype)
        else:
            array = np.frombuffer(self._buffer, dtype, count, start).reshape(shape)
        return array[()] if tag == "S" else array

    def _image(self, mode: str, size: list[int], length: int, palette: list[Any] | None) -> Any:
        from PIL import Image  # noqa: PLC0415

        image = Image.frombytes(mode, (size[0], size[1]), bytes(self._take(length)))
        if palette is not None:
            image.putpalette(palette[1], palette[0])
        return image


def as_tuples(descr: Any) -> Any:
    """Return a description of a dtype as NumPy wants it: JSON has no tuples."""
    if isinstance(descr, str):
        return descr
    return [
        (tuple(field[0]) if isinstance(field[0], list) else field[0], as_tuples(field[1]))
        + ((tuple(field[2]),) if len(field) > 2 else ())  # noqa: PLR2004 - name, dtype, shape
        for field in descr
    ]


def _name_type(node: Any) -> str:
    kind = type(node)
    return kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"
