"""What it takes processes to sum up a buffer: NCCL between GPUs, gloo between processors."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from .figures import BYTES, NS, Measurement, describe_error, make_figure

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from .figures import ProbeConditions, ProbeFigure

_SIZES = tuple(size << 10 for size in (4, 64, 1 << 10, 16 << 10, 64 << 10))
_LARGEST_GLOO = 16 << 20
_HOST = "127.0.0.1"
_STARTING_S = 15.0  # importing torch, making communicators
_NAMES = {"allreduce": NS, "allreduce.fixed": NS, "allreduce.bandwidth": BYTES}
_BURST = 4  # reductions between two looks at the clock


class GroupSpec(NamedTuple):
    """What each process of a group is given."""

    ranks: int
    backend: str
    port: int
    sizes: Sequence[int]
    seconds: float


def measure_all_reduce(conditions: ProbeConditions) -> Iterator[ProbeFigure]:
    """Time sums of float32 buffers over processes of this machine (``at``: bytes), sizes in turns.

    As many processes as the training has on one machine, each with a GPU of its own (NCCL, CUDA
    events) or on the processors (gloo, host clock), four sums in a row after a barrier, as rank 0
    sees them. allreduce.bandwidth: bytes of the buffer over time between the two largest sizes;
    allreduce.fixed: what the smallest takes beyond that.
    """
    began = time.perf_counter()
    times_by_size = {int(size): values for size, values in _run_group(conditions).items()}
    spent = time.perf_counter() - began
    note = f"{conditions.ranks} processes, {_choose_backend(conditions)}"
    for size, values in times_by_size.items():
        yield make_figure("allreduce", values, spent, size, note)
    small, large, largest = min(times_by_size), *sorted(times_by_size)[-2:]
    slopes = [
        (largest_ns - large_ns) / (largest - large)
        for largest_ns, large_ns in zip(times_by_size[largest], times_by_size[large])
    ]
    slopes = [slope for slope in slopes if slope > 0]
    yield make_figure("allreduce.bandwidth", [1e9 / slope for slope in slopes], spent, None, note)
    fixed = [took - small * slope for took, slope in zip(times_by_size[small], slopes)]
    yield make_figure("allreduce.fixed", fixed, spent, None, note)


def _explain_alone(conditions: ProbeConditions) -> str | None:
    return "one process alone" if conditions.ranks == 1 else None


def _choose_backend(conditions: ProbeConditions) -> str:
    return "gloo" if conditions.device is None else "nccl"


def _run_group(conditions: ProbeConditions) -> dict[int, list[float]]:
    """Start the processes; return what rank 0 measured. None of them is left, however it ends."""
    import torch
    import torch.distributed as dist

    if not dist.is_available():
        raise RuntimeError("this torch has no torch.distributed")
    if conditions.device is not None and torch.cuda.device_count() < conditions.ranks:
        raise RuntimeError(f"{torch.cuda.device_count()} GPUs for {conditions.ranks} processes")
    library: Any = dist
    store: Any = library.TCPStore(_HOST, 0, is_master=True, wait_for_workers=False)
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    seconds = max(conditions.until - time.monotonic(), 0.1)
    largest = min(conditions.largest, _LARGEST_GLOO if conditions.device is None else _SIZES[-1])
    sizes = [size for size in _SIZES if size <= largest]
    group = GroupSpec(conditions.ranks, _choose_backend(conditions), store.port, sizes, seconds)
    members = [
        context.Process(target=run_member, args=(rank, group, sender), daemon=True)
        for rank in range(conditions.ranks)
    ]
    try:
        for process in members:
            process.start()
        sender.close()
        return _receive_times(receiver, members, _STARTING_S + seconds)
    finally:
        for process in members:
            if process.is_alive():
                process.kill()
            process.join()


def _receive_times(
    receiver: Any, members: Sequence[Any], patience_s: float
) -> dict[int, list[float]]:
    until = time.monotonic() + patience_s
    while time.monotonic() < until:
        if receiver.poll(0.1):
            answer = receiver.recv()
            if isinstance(answer, str):
                raise RuntimeError(answer)
            for process in members:
                process.join(2.0)
            return answer
        if any(process.exitcode for process in members):
            raise RuntimeError("a process of the group died")
    raise TimeoutError("the processes of the group did not find together")


def run_member(rank: int, group: GroupSpec, sender: Any) -> None:
    """Be one process of the group; rank 0 sends what it measured, or why it could not."""
    signal.setitimer(signal.ITIMER_REAL, _STARTING_S + 2 * group.seconds)  # an orphan ends itself
    try:
        answer: Any = _measure(rank, group)
    except (RuntimeError, OSError, ValueError) as error:
        answer = describe_error(error)
    if rank == 0:
        with suppress(OSError):
            sender.send(answer)
            sender.close()
    os._exit(isinstance(answer, str))  # NCCL takes its time to end


def _measure(rank: int, group: GroupSpec) -> dict[int, list[float]]:
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
    keep_going = torch.ones(1, device=device)
    for buffer in buffers.values():
        dist.all_reduce(buffer)
    until = time.monotonic() + group.seconds
    while keep_going.item():
        for size, buffer in buffers.items():
            values[size].append(_time_reduction(buffer))
        keep_going.fill_(float(rank != 0 or time.monotonic() < until))
        dist.broadcast(keep_going, 0)
    return values


def _time_reduction(buffer: Any) -> float:
    import torch
    import torch.distributed as dist

    dist.barrier()
    if not buffer.is_cuda:
        began = time.perf_counter_ns()
        for _ in range(_BURST):
            dist.all_reduce(buffer)
        return (time.perf_counter_ns() - began) / _BURST
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    for _ in range(_BURST):
        dist.all_reduce(buffer)
    end.record()
    end.synchronize()
    return start.elapsed_time(end) * 1e6 / _BURST


MEASUREMENTS = (
    Measurement(
        "allreduce", measure_all_reduce, _NAMES, 1.5, imports=True, explain_lack=_explain_alone
    ),
)
