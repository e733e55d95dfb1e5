"""What it takes processes to sum up a buffer: NCCL between GPUs, gloo between processors."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from .figures import BYTES, NS, Measurement, figure, reason

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from .figures import Figure, Room

_SIZES = tuple(size << 10 for size in (4, 64, 1 << 10, 16 << 10, 64 << 10))
_LARGEST_GLOO = 16 << 20
_HOST = "127.0.0.1"
_STARTING_S = 15.0  # importing torch, making communicators
_NAMES = {"allreduce": NS, "allreduce.fixed": NS, "allreduce.bandwidth": BYTES}
_TOGETHER = 4  # reductions between two looks at the clock


class Group(NamedTuple):
    """What each process of a group is told."""

    ranks: int
    backend: str
    port: int
    sizes: Sequence[int]
    seconds: float


def all_reduce(room: Room) -> Iterator[Figure]:
    """Time sums of float32 buffers over processes of this machine (``at``: bytes), sizes in turns.

    As many processes as the training has on one machine, each with a GPU of its own (NCCL, CUDA
    events) or on the processors (gloo, host clock), four sums in a row after a barrier, as rank 0
    sees them. allreduce.bandwidth: bytes of the buffer over time between the two largest sizes;
    allreduce.fixed: what the smallest takes beyond that.
    """
    began = time.perf_counter()
    by = {int(size): values for size, values in _together(room).items()}
    spent = time.perf_counter() - began
    note = f"{room.ranks} processes, {_backend(room)}"
    for size, values in by.items():
        yield figure("allreduce", values, spent, size, note)
    small, large, largest = min(by), *sorted(by)[-2:]
    slopes = [(more - less) / (largest - large) for more, less in zip(by[largest], by[large])]
    slopes = [slope for slope in slopes if slope > 0]
    yield figure("allreduce.bandwidth", [1e9 / one for one in slopes], spent, None, note)
    fixed = [took - small * slope for took, slope in zip(by[small], slopes)]
    yield figure("allreduce.fixed", fixed, spent, None, note)


def _alone(room: Room) -> str | None:
    return "one process alone" if room.ranks == 1 else None


def _backend(room: Room) -> str:
    return "gloo" if room.device is None else "nccl"


def _together(room: Room) -> dict[int, list[float]]:
    """Start the processes; give what rank 0 measured. Nothing of them is left, however it ends."""
    import torch
    import torch.distributed as dist

    if not dist.is_available():
        raise RuntimeError("this torch has no torch.distributed")
    if room.device is not None and torch.cuda.device_count() < room.ranks:
        raise RuntimeError(f"{torch.cuda.device_count()} GPUs for {room.ranks} processes")
    library: Any = dist
    store: Any = library.TCPStore(_HOST, 0, is_master=True, wait_for_workers=False)
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe(duplex=False)
    seconds = max(room.until - time.monotonic(), 0.1)
    largest = min(room.largest, _LARGEST_GLOO if room.device is None else _SIZES[-1])
    sizes = [size for size in _SIZES if size <= largest]
    group = Group(room.ranks, _backend(room), store.port, sizes, seconds)
    members = [
        context.Process(target=member, args=(rank, group, there), daemon=True)
        for rank in range(room.ranks)
    ]
    try:
        for one in members:
            one.start()
        there.close()
        return _heard(here, members, _STARTING_S + seconds)
    finally:
        for one in members:
            if one.is_alive():
                one.kill()
            one.join()


def _heard(here: Any, members: Sequence[Any], patience_s: float) -> dict[int, list[float]]:
    until = time.monotonic() + patience_s
    while time.monotonic() < until:
        if here.poll(0.1):
            told = here.recv()
            if isinstance(told, str):
                raise RuntimeError(told)
            for one in members:
                one.join(2.0)
            return told
        if any(one.exitcode for one in members):
            raise RuntimeError("a process of the group died")
    raise TimeoutError("the processes of the group did not find together")


def member(rank: int, group: Group, there: Any) -> None:
    """Be one process of the group; rank 0 sends what it measured, or why it could not."""
    signal.setitimer(signal.ITIMER_REAL, _STARTING_S + 2 * group.seconds)  # an orphan ends itself
    try:
        told: Any = _measure(rank, group)
    except (RuntimeError, OSError, ValueError) as error:
        told = reason(error)
    if rank == 0:
        with suppress(OSError):
            there.send(told)
            there.close()
    os._exit(isinstance(told, str))  # NCCL takes its time to end


def _measure(rank: int, group: Group) -> dict[int, list[float]]:
    import torch
    import torch.distributed as dist

    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")  # a host's name need not resolve
    library: Any = dist
    store: Any = library.TCPStore(_HOST, group.port, is_master=False)
    if group.backend == "nccl":
        torch.cuda.set_device(rank)
    else:
        torch.set_num_threads(1)
    dist.init_process_group(group.backend, store=store, rank=rank, world_size=group.ranks)
    device = "cuda" if group.backend == "nccl" else "cpu"
    buffers = {size: torch.zeros(size // 4, device=device) for size in group.sizes}
    values: dict[int, list[float]] = {size: [] for size in group.sizes}
    go = torch.ones(1, device=device)
    for buffer in buffers.values():
        dist.all_reduce(buffer)
    until = time.monotonic() + group.seconds
    while go.item():
        for size, buffer in buffers.items():
            values[size].append(_once(buffer))
        go.fill_(float(rank != 0 or time.monotonic() < until))
        dist.broadcast(go, 0)
    return values


def _once(buffer: Any) -> float:
    import torch
    import torch.distributed as dist

    dist.barrier()
    if not buffer.is_cuda:
        began = time.perf_counter_ns()
        for _ in range(_TOGETHER):
            dist.all_reduce(buffer)
        return (time.perf_counter_ns() - began) / _TOGETHER
    first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    first.record()
    for _ in range(_TOGETHER):
        dist.all_reduce(buffer)
    last.record()
    last.synchronize()
    return first.elapsed_time(last) * 1e6 / _TOGETHER


MEASUREMENTS = (Measurement("allreduce", all_reduce, _NAMES, 1.5, imports=True, lacks=_alone),)
