"""Take samples of the machine beside the training, at a cost that bounds itself."""

import threading
import time
from collections.abc import Callable
from typing import Final

from gapless import wire
from gapless.launch.samplers import AbsentError, Sampler, cpu, disk, gpu, memory, network, pressure
from gapless.launch.tree import Tree
from gapless.launch.unseen import Journal, border, said

_PERIOD_S: Final = 0.5
_LONGEST_S: Final = 20.0
_DENSE_S: Final = 1200.0  # sampled at the full rate; then as many again each time as long
_SHARE: Final = 250  # time between samples is at least so many times what one takes of a processor
_FAILURES: Final = 3  # in a row, and a sampler is given up

Opened = Callable[[], Sampler]


def period_s(elapsed_s: float, cost_s: float) -> float:
    """Give the time to the next sample: a day makes 13,000 of them, not 170,000."""
    usual = min(_LONGEST_S, _PERIOD_S * max(1.0, elapsed_s / _DENSE_S))
    return max(usual, cost_s * _SHARE)


def machine(tree: Tree) -> dict[str, Opened]:
    """Give the samplers that read files of the kernel's."""
    return {
        "cpu": lambda: cpu.open_sampler(tree),
        "memory": memory.open_sampler,
        "disk": disk.open_sampler,
        "pressure": pressure.open_sampler,
        "network": network.open_sampler,
    }


def gpus(tree: Tree, journal: Journal) -> dict[str, Opened]:
    """Give the sampler of GPUs, for a thread of its own: a sick driver may hold it for long."""
    return {"gpu": lambda: gpu.open_sampler(tree, journal.note, gpu.visible_devices())}


def sample_until(stop: threading.Event, samplers: dict[str, Opened], journal: Journal) -> None:
    """Write a frame each period, until told to stop; a sampler that fails is given up and noted."""
    opened = _open(samplers, journal)
    failures = dict.fromkeys(opened, 0)
    began = time.monotonic()
    while opened:
        now, spent = time.monotonic_ns(), time.thread_time()
        values: dict[str, float] = {}
        for name, sampler in list(opened.items()):
            with border() as failed:
                values.update(sampler(now))
            failures[name] = failures[name] + 1 if failed else 0
            if failures[name] >= _FAILURES:
                journal.note(name, f"gave up: {said(failed[0])}")
                del opened[name]
        if values:
            journal.write(wire.text_frame(wire.SAMPLE, {"ns": now, "values": values}))
        if stop.wait(period_s(time.monotonic() - began, time.thread_time() - spent)):
            return


def _open(samplers: dict[str, Opened], journal: Journal) -> dict[str, Sampler]:
    opened: dict[str, Sampler] = {}
    for name, open_sampler in samplers.items():
        with journal.guard(name):
            try:
                opened[name] = open_sampler()
            except AbsentError as error:
                journal.note(name, str(error))
    return opened
