"""Values as msgpack: between the processes of one study, and in the cache."""

from typing import TypeVar, cast

import msgspec
import numpy as np
import numpy.typing as npt

_T = TypeVar("_T")


def encode(value: object) -> bytes:
    """Write frozen values, tuples, mappings and one-dimensional arrays."""
    return msgspec.msgpack.encode(value, enc_hook=_from_array)


def decode(data: bytes, kind: type[_T]) -> _T:
    """Read what ``encode`` wrote. Raises ``msgspec.DecodeError`` for anything else."""
    return msgspec.msgpack.decode(data, type=kind, dec_hook=_to_array)


def _from_array(value: object) -> object:
    if isinstance(value, np.ndarray):
        array = cast("npt.NDArray[np.generic]", value)
        return (array.dtype.str, array.tobytes())
    if isinstance(value, np.generic):
        return cast("object", value.item())
    raise NotImplementedError(type(value))  # what msgspec asks of a hook that cannot help


def _to_array(kind: type, value: object) -> object:
    del kind  # arrays are all that needs help
    dtype, data = cast("tuple[str, bytes]", value)
    return np.frombuffer(data, dtype=dtype)
