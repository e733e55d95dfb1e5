"""Raw JSON values, each distinct one decoded once → shapes, geometries, collectives."""

import json
from typing import Any, Final, cast

from gapless.formats.columns.interning import SEPARATOR
from gapless.model.trace import Collective, Geometry, Shape

_LENIENT: Final = json.JSONDecoder(strict=False, parse_constant=lambda _: None)
_PERCENT: Final = 100


def parse_shape(key: bytes) -> Shape:
    """Decode an operator's inputs."""
    dims, old_dims, types, strides, concrete = map(_value, key.split(SEPARATOR))
    return Shape(
        dims=_sizes(dims if dims is not None else old_dims),
        strides=_sizes(strides),
        types=_texts(types),
        concrete=_texts(concrete),
    )


def parse_geometry(key: bytes) -> Geometry:
    """Decode a kernel's launch."""
    grid, block, registers, shared, blocks, warps, occupancy = map(_value, key.split(SEPARATOR))
    percent = _real(occupancy)
    return Geometry(
        grid=_integer_tuple(grid),
        block=_integer_tuple(block),
        registers=_integer(registers),
        shared_memory=_integer(shared),
        blocks_per_sm=_real(blocks),
        warps_per_sm=_real(warps),
        occupancy=None if percent is None else percent / _PERCENT,
    )


def parse_collective(key: bytes) -> Collective:
    """Decode what a communication kernel says of its collective."""
    name, dtype, elements, out, group, size, ranks, seq, *peers = map(_value, key.split(SEPARATOR))
    return Collective(
        name=_text(name),
        dtype=_text(dtype),
        in_elements=_integer(elements),
        out_elements=_integer(out),
        group=_text(group),
        group_size=_integer(size),
        ranks=_text(ranks),
        seq=_integer(seq),
        peer=next((peer for peer in map(_integer, peers) if peer is not None), None),
    )


def _value(raw: bytes) -> Any:  # noqa: ANN401  JSON
    try:
        return _LENIENT.decode(raw.decode(errors="replace")) if raw else None
    except (ValueError, RecursionError):
        return None


def _sizes(value: object) -> tuple[object, ...]:
    """Return nested lists of integers as nested tuples; ``()`` for what is none."""
    if not isinstance(value, list):
        return ()
    return tuple(
        entry if isinstance(entry, int) else _sizes(entry) for entry in cast("list[object]", value)
    )


def _texts(value: object) -> tuple[str, ...]:
    if not isinstance(value, list):
        return ()
    return tuple(
        entry if isinstance(entry, str) else json.dumps(entry)
        for entry in cast("list[object]", value)
    )


def _integer_tuple(value: object) -> tuple[int, ...] | None:
    if not isinstance(value, list):
        return None
    numbers = tuple(_integer(entry) for entry in cast("list[object]", value))
    return tuple(n for n in numbers if n is not None) if None not in numbers else None


def _integer(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _real(value: object) -> float | None:
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None
