"""All of a trace except its columns, as the cache and files of packed columns store it."""

from collections.abc import Mapping
from typing import Any, cast

import numpy.typing as npt
from msgspec import Struct

from gapless.model.trace import (
    NO_ROLES,
    Collective,
    Device,
    Distributed,
    Events,
    Geometry,
    GpuColumns,
    Health,
    MemoryColumns,
    Roles,
    Shape,
    Trace,
    Track,
)

# A list of tensors has for each tensor its sizes: three levels. One more than anybody has written.
_Sizes = tuple[int | tuple[int | tuple[int | tuple[int, ...], ...], ...], ...]
Columns = Mapping[str, Mapping[str, npt.NDArray[Any]]]  # by group and name


class _Shape(Struct, array_like=True):
    dims: _Sizes
    strides: _Sizes
    types: tuple[str, ...]
    concrete: tuple[str, ...]


class TraceTables(Struct):
    """All of a trace except its columns."""

    path: str
    origin_ns: int
    names: tuple[str, ...]
    tracks: tuple[Track, ...]
    shapes: tuple[_Shape, ...]
    geometries: tuple[Geometry, ...]
    collectives: tuple[Collective, ...]
    devices: tuple[Device, ...]
    distributed: Distributed | None
    rank: int | None
    versions: tuple[tuple[str, str], ...]
    health: Health
    written_events: int
    roles: Roles = NO_ROLES


def column_groups(trace: Trace) -> dict[str, Events | GpuColumns | MemoryColumns]:
    """Return the columns of a trace, by group."""
    return {"events": trace.events, "gpu": trace.gpu, "memory": trace.memory}


def make_tables(trace: Trace) -> TraceTables:
    """Return all of a trace except its columns."""
    return TraceTables(
        path=trace.path,
        origin_ns=trace.origin_ns,
        names=trace.names,
        tracks=trace.tracks,
        shapes=tuple(
            _Shape(
                cast("_Sizes", shape.dims),
                cast("_Sizes", shape.strides),
                shape.types,
                shape.concrete,
            )
            for shape in trace.shapes
        ),
        geometries=trace.geometries,
        collectives=trace.collectives,
        devices=trace.devices,
        distributed=trace.distributed,
        rank=trace.rank,
        versions=trace.versions,
        health=trace.health,
        written_events=trace.written_events,
        roles=trace.roles,
    )


def make_trace(tables: TraceTables, columns: Columns) -> Trace:
    """Return the trace; raise ``KeyError`` or ``TypeError`` if a column is missing or unknown."""
    return Trace(
        path=tables.path,
        origin_ns=tables.origin_ns,
        events=Events(**columns["events"]),
        gpu=GpuColumns(**columns["gpu"]),
        memory=MemoryColumns(**columns["memory"]),
        names=tables.names,
        tracks=tables.tracks,
        shapes=tuple(
            Shape(shape.dims, shape.strides, shape.types, shape.concrete) for shape in tables.shapes
        ),
        geometries=tables.geometries,
        collectives=tables.collectives,
        devices=tables.devices,
        distributed=tables.distributed,
        rank=tables.rank,
        versions=tables.versions,
        health=tables.health,
        written_events=tables.written_events,
        roles=tables.roles,
    )
