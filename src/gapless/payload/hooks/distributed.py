"""Several processes or devices: how the model is spread, and the group of processes."""

from __future__ import annotations

import os
import sys
from typing import Any

from .. import imports, patching, recorder, surroundings
from ..stacks import locations
from . import calls, models

_LOOKS = (1, 20)
_MIB = 1 << 20
_edges = 0


class _ProcessGroup:
    """The process group, as a thing that facts can be about."""


_GROUP = _ProcessGroup()
_sharded: dict[Any, Any] = {}  # by place: [thing, modules]


def install() -> None:
    """Watch for the modules that spread a model."""
    imports.when_imported("torch", _watch_torch)
    imports.when_imported("torch.distributed.fsdp", _watch_fsdp)
    begin()
    recorder.on_first(look_early)
    recorder.on_edge(edge, seldom=True)
    recorder.on_child(begin)


def begin() -> None:
    """Look again: another log begins."""
    global _edges
    _edges = 0


def _watch_torch(torch: Any) -> None:
    parallel = torch.nn.parallel
    watch = calls.around("distributed", after=_note_shell)
    patching.replace(parallel.DistributedDataParallel, "__init__", watch)
    patching.replace(parallel.DataParallel, "__init__", watch)


def _watch_fsdp(module: Any) -> None:
    fsdp_class = getattr(module, "FullyShardedDataParallel", None)
    if fsdp_class is not None:
        patching.replace(fsdp_class, "__init__", calls.around("distributed", after=_note_shell))
    inner = module.__name__ + "._fully_shard"
    owners = [module, *(sys.modules.get(name) for name in (inner, inner + "._fully_shard"))]
    calls.replace_everywhere(
        owners, "fully_shard", calls.around("distributed", after=_note_sharding)
    )


def _note_shell(state: Any, args: tuple[Any, ...], result: Any, raised: Any) -> None:  # noqa: ARG001 - the form of `around`
    if raised is not None or not args:
        return
    location = locations.users_line(1)
    shell = args[0]
    name = type(shell).__name__
    noun, values = "fsdp", _fsdp_values
    if hasattr(shell, "bucket_bytes_cap"):
        noun, values = "ddp", _ddp_values
    elif hasattr(shell, "output_device"):
        noun, values = "data_parallel", _dp_values
    recorder.fact(noun, shell, {"class": name, **values(shell)}, location)
    models.register_module(shell, location)


def _ddp_values(shell: Any) -> Any:
    names = (
        "find_unused_parameters",
        "gradient_as_bucket_view",
        "static_graph",
        "broadcast_buffers",
    )
    group = shell.process_group
    return {
        "bucket_cap_mb": shell.bucket_bytes_cap / _MIB,
        **{name: getattr(shell, name, None) for name in names},
        "mixed_precision": getattr(shell, "mixed_precision", None) is not None,
        "devices": [str(device) for device in shell.device_ids or ()],
        "world": group.size(),
    }


def _dp_values(shell: Any) -> Any:
    return {"devices": [str(device) for device in shell.device_ids or ()]}


def _fsdp_values(shell: Any) -> Any:
    strategy = getattr(shell, "sharding_strategy", None)
    return {
        "sharding": getattr(strategy, "name", None),
        "mixed_precision": _plain(getattr(shell, "mixed_precision", None)),
        "cpu_offload": _plain(getattr(shell, "cpu_offload", None)),
        "backward_prefetch": getattr(getattr(shell, "backward_prefetch", None), "name", None),
        "forward_prefetch": getattr(shell, "forward_prefetch", None),
        "limit_all_gathers": getattr(shell, "limit_all_gathers", None),
        "use_orig_params": getattr(shell, "_use_orig_params", None),
    }


def _note_sharding(state: Any, args: tuple[Any, ...], result: Any, raised: Any) -> None:  # noqa: ARG001 - the form of `around`
    """Note sharding by ``fully_shard``: called for each layer, it is one fact a line."""
    if raised is not None:
        return
    location = locations.users_line(1)
    entry = _sharded.setdefault(location, [_ProcessGroup(), 0])
    entry[1] += 1
    recorder.fact("fsdp", entry[0], {"class": "fully_shard", "modules": entry[1]}, location)


def _plain(value: Any) -> Any:
    return None if value is None else repr(value)


def look_early() -> None:
    """Read the process group as soon as this process is known to train."""
    if not recorder.is_worker():
        _look()


@patching.guard("distributed")
def edge(number: int, start: int, end: int) -> None:  # noqa: ARG001 - the form of an edge's action
    """Read the process group at the first edges; nothing is sent."""
    global _edges
    _edges += 1
    if _edges in _LOOKS:
        _look()


def _look() -> None:
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return
    world = distributed.get_world_size()
    local = _number("LOCAL_WORLD_SIZE")
    values = {
        "backend": str(distributed.get_backend()),
        "world": world,
        "rank": distributed.get_rank(),
        "local_rank": _number("LOCAL_RANK"),
        "local_world": local,
        "nodes": _number("GROUP_WORLD_SIZE") or _nodes(world, local),
        "host": os.uname().nodename,
        "links": surroundings.links(),
    }
    recorder.fact("distributed", _GROUP, values, None)


def _nodes(world: Any, local: Any) -> Any:
    return None if not local else max(1, world // local)


def _number(name: str) -> Any:
    text = os.environ.get(name, "")
    return int(text) if text.isdecimal() else None
