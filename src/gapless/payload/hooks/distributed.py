"""Several processes or devices: how the model is spread, and the group of processes."""

from __future__ import annotations

import os
import sys
from typing import Any

from .. import declare, patching, recorder, surroundings
from ..process_state import keep
from ..stacks import locations
from . import calls, models

_LOOKS = (1, 20)
_MIB = 1 << 20


class _ShardedModel:
    """What is sharded at one line, as a thing that facts can be about."""

    def __init__(self) -> None:
        self.n_modules = 0


class _ProcessGroup:
    """The process group, which facts are about, and what of the model was spread."""

    def __init__(self) -> None:
        self.sharded: dict[Any, _ShardedModel] = {}  # by line
        self.begin()

    def begin(self) -> None:
        """Look again: another log begins."""
        self.edges = 0


_group = keep(_ProcessGroup())


@declare.hook("torch")
def _watch_torch(torch: Any) -> None:
    parallel = torch.nn.parallel
    watch = calls.around("distributed", after=_note_shell)
    patching.replace(parallel.DistributedDataParallel, "__init__", watch)
    patching.replace(parallel.DataParallel, "__init__", watch)


@declare.hook("torch.distributed.fsdp")
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
        "backend": str(sys.modules["torch.distributed"].get_backend(group)),
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
    model = _group.sharded.setdefault(location, _ShardedModel())
    model.n_modules += 1
    recorder.fact("fsdp", model, {"class": "fully_shard", "modules": model.n_modules}, location)


def _plain(value: Any) -> Any:
    return None if value is None else repr(value)


@declare.at_first
def look_early() -> None:
    """Read the process group as soon as this process is known to train."""
    if not recorder.is_worker():
        _look()


@declare.at_seldom_edge
@patching.guard("distributed")
def edge(number: int, start: int, end: int) -> None:  # noqa: ARG001 - the form of an edge's action
    """Read the process group at the first edges; nothing is sent."""
    _group.edges += 1
    if _group.edges in _LOOKS:
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
    recorder.fact("distributed", _group, values, None)


def _nodes(world: Any, local: Any) -> Any:
    return None if not local else max(1, world // local)


def _number(name: str) -> Any:
    text = os.environ.get(name, "")
    return int(text) if text.isdecimal() else None
