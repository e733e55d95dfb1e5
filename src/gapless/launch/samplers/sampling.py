"""Take samples of the machine beside the training, at a cost that bounds itself."""

import threading
import time
from collections.abc import Callable
from typing import Final

from gapless import wire
from gapless.launch.process_tree import Tree
from gapless.launch.samplers import (
    AbsentError,
    Sampler,
    connections,
    cpu,
    disk,
    gpu,
    memory,
    network,
    pressure,
)
from gapless.launch.unobserved import Journal, contain_failures, describe_error

_PERIOD_S: Final = 0.5
_MAX_PERIOD_S: Final = 20.0
_DENSE_S: Final = 1200.0  # sampled at the full rate; then as many again each time as long
# time between samples is at least so many times what one takes of a processor
_MIN_PAUSE_RATIO: Final = 250
_MAX_FAILURES: Final = 3  # in a row, and a sampler is given up

SamplerFactory = Callable[[], Sampler]


def period_s(elapsed_s: float, cost_s: float) -> float:
    """Return the time to the next sample: a day makes 13,000 of them, not 170,000."""
    usual = min(_MAX_PERIOD_S, _PERIOD_S * max(1.0, elapsed_s / _DENSE_S))
    return max(usual, cost_s * _MIN_PAUSE_RATIO)


def machine_samplers(tree: Tree) -> dict[str, SamplerFactory]:
    """Return the samplers that read files of the kernel's."""
    return {
        "cpu": lambda: cpu.open_sampler(tree),
        "memory": memory.open_sampler,
        "disk": disk.open_sampler,
        "pressure": pressure.open_sampler,
        "network": network.open_sampler,
        "connections": connections.open_sampler,
    }


def gpu_samplers(tree: Tree, journal: Journal) -> dict[str, SamplerFactory]:
    """Return the sampler of GPUs, for a thread of its own: a sick driver may hold it for long."""
    return {"gpu": lambda: gpu.open_sampler(tree, journal.note, gpu.visible_devices())}


def sample_until(
    stop: threading.Event, factories: dict[str, SamplerFactory], journal: Journal
) -> None:
    """Write a frame each period until stopped; a sampler that fails is given up and noted."""
    samplers = _open_samplers(factories, journal)
    failures = dict.fromkeys(samplers, 0)
    began = time.monotonic()
    while samplers:
        now, spent = time.monotonic_ns(), time.thread_time()
        values: dict[str, float] = {}
        for name, sampler in list(samplers.items()):
            with contain_failures() as errors:
                values.update(sampler(now))
            failures[name] = failures[name] + 1 if errors else 0
            if failures[name] >= _MAX_FAILURES:
                journal.note(name, f"gave up: {describe_error(errors[0])}")
                del samplers[name]
        if values:
            journal.write(wire.text_frame(wire.SAMPLE, {"ns": now, "values": values}))
        if stop.wait(period_s(time.monotonic() - began, time.thread_time() - spent)):
            return


def _open_samplers(factories: dict[str, SamplerFactory], journal: Journal) -> dict[str, Sampler]:
    samplers: dict[str, Sampler] = {}
    for name, open_sampler in factories.items():
        with journal.guard(name):
            try:
                samplers[name] = open_sampler()
            except AbsentError as error:
                journal.note(name, str(error))
    return samplers
