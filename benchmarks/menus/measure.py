"""Measure the menu of one case: blocks of steps, with and without each change, in turns.

``python -m benchmarks.menus.measure PLAN OUT`` in the interpreter that trains; of several ranks,
each. Model and data are built once; each block begins with a fresh optimizer and a fresh loader.
An unedited block stands before and after each round, A B C D A D C B A …: each edited block lies
between two unedited ones. The device is waited for at the edges of blocks, nowhere else.
"""

import argparse
import copy
import gc
import json
import os
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from msgspec import structs
from torch import distributed

from benchmarks.menus.blocks import BASE, Block, MenuSide, is_narrow
from benchmarks.menus.device import Device, foreign
from benchmarks.menus.overlaid import effect_count, overlay
from benchmarks.menus.sources import ZOO, cases_of, maker_of
from tests.zoo.cases import Case
from tests.zoo.job import Job, Steps

SETTLE_S = 0.3  # at the start of a block, at least
WARM_S = 0.3  # at the start of all, after three steps
START_S = 1.0  # what a block takes beside its steps, about
MAX_STRETCH = (
    4.0  # times as long as asked for: what a block may take for rare events or many workers
)
QUEUES = 3  # full queues of a loader that a block is to span, at least


@dataclass
class Arm:
    """A side, ready to be measured."""

    side: MenuSide
    job: Job
    step_s: float = 0.0  # as last seen
    effects: tuple[int, ...] = ()  # how often each edit took effect in the last block


class Bench:
    """Steps the arms of a case, block by block."""

    def __init__(self, case: Case, plan: dict[str, Any]) -> None:
        self.case, self.plan = case, plan
        self.device = Device(plan["device"])
        self.threads = torch.get_num_threads()
        self.begun = self.rounds_begun = time.monotonic()
        self.arms: dict[str, Arm] = {}
        self.blocks: list[Block] = []
        self.failed: dict[str, str] = {}
        self.made: dict[str | None, Job] = {}

    def build(self, side: MenuSide) -> Arm:
        """Build what a side trains: a model of its own, on the data of all."""
        if side.variant not in self.made:
            make = maker_of(self.plan.get("source", ZOO))
            self.made[side.variant] = make(self.case, self.plan["device"], side.variant)
        job = self.made[side.variant]
        if side.edits:
            job = structs.replace(job, model=copy.deepcopy(job.model))
        return Arm(side, job)

    def warm(self, arm: Arm) -> None:
        """Let everything be allocated and compiled, and see how long a step takes."""

        def steps(training: Steps) -> None:
            count, taken_s = 1, 0.0
            for _ in range(3):
                next(training)
            self.device.wait()
            while taken_s < WARM_S:
                taken_s = self.time_steps(training, count)
                arm.step_s = taken_s / count
                count *= 2

        self.with_edits(arm, steps)

    def time_steps(self, training: Steps, count: int) -> float:
        """Return the seconds that so many steps take; of several ranks, the first's."""
        start_s = time.perf_counter()
        for _ in range(count):
            next(training)
        self.device.wait()
        return first_rank_value(time.perf_counter() - start_s)

    def measure(self, arm: Arm) -> None:
        """Measure one block."""

        def steps(training: Steps) -> None:
            for _ in range(self.settling_steps(arm)):
                next(training)
            self.device.wait()
            count = self.count(arm)
            before = self.device.state()
            with foreign() as foreign_cores:
                taken_s = self.time_steps(training, count)
            arm.step_s = taken_s / count
            now_s = time.monotonic() - self.begun
            block = Block(
                arm.side.name, now_s, count, round(taken_s * 1e9), foreign_cores(), before
            )
            self.blocks.append(block)

        self.with_edits(arm, steps)

    def with_edits(self, arm: Arm, act: Callable[[Steps], None]) -> None:
        """Lay the edits of an arm, make its loader and optimizer, act, and lift them."""
        edit_overlay = overlay()
        edit_overlay.apply(list(arm.side.edits))
        try:
            training = arm.job.train(arm.job)
            try:
                act(training)
            finally:
                training.close()
            arm.effects = tuple(effect_count(number) for number in range(len(arm.side.edits)))
        finally:
            edit_overlay.revert()
            torch.set_num_threads(self.threads)
            gc.collect()

    def settling_steps(self, arm: Arm) -> int:
        """Return the steps until a block begins: a queue of batches, and some time.

        A part of the overlay's may let something happen once before it keeps it from happening.
        """
        wrapped = any(edit["kind"] == "wrap" for edit in arm.side.edits)
        queued = max(queue_length(arm), arm.job.period if wrapped else 0)
        return max(3, min(queued, self._max_steps(arm)), round(SETTLE_S / arm.step_s))

    def count(self, arm: Arm) -> int:
        """Return the steps of a block: long enough, whole rounds of workers, whole periods."""
        count = max(self.plan["block_s"] / arm.step_s, 3)
        count = max(count, min(QUEUES * queue_length(arm), self._max_steps(arm)))
        period = arm.job.period
        full_periods = max(1, round(count / period)) * period
        return full_periods if full_periods <= max(count, self._max_steps(arm)) else round(count)

    def _max_steps(self, arm: Arm) -> int:
        return round(MAX_STRETCH * self.plan["block_s"] / arm.step_s)

    def run(self, report_progress: Callable[[str], None]) -> None:
        """Measure rounds until the intervals are narrow or the time is spent."""
        for side in map(MenuSide.from_document, self.plan["sides"]):
            report_progress(f"warming up {side.name}")
            self._try(side, lambda side=side: self._prepare(side))
        self.measure(self.arms[BASE])
        self.blocks.clear()  # whatever is still warming up
        self.measure(self.arms[BASE])
        names = [name for name in self.arms if name != BASE]
        self.rounds_begun = time.monotonic()
        for number in range(self.plan["most_rounds"]):
            if self.is_over(number):
                break
            report_progress(f"round {number + 1} of {self.plan['rounds']}")
            for name in names if number % 2 == 0 else reversed(names):
                if name not in self.failed:
                    arm = self.arms[name]
                    self._try(arm.side, lambda arm=arm: self.measure(arm))
            self.measure(self.arms[BASE])

    def is_over(self, rounds: int) -> bool:
        """Return whether enough was measured, or the next round would take too long."""
        now = time.monotonic()
        usual_s = len(self.arms) * (self.plan["block_s"] + START_S)
        round_s = (now - self.rounds_begun) / rounds if rounds else usual_s
        spent_s = now - self.begun
        is_enough = rounds >= self.plan["rounds"] and is_narrow(self.blocks)
        return bool(first_rank_value(float(is_enough or spent_s + round_s > self.plan["limit_s"])))

    def _prepare(self, side: MenuSide) -> None:
        arm = self.build(side)
        self.warm(arm)
        self.arms[side.name] = arm

    def _try(self, side: MenuSide, act: Callable[[], None]) -> None:
        """Do something with a side; one that cannot be trained is left out, with the reason."""
        try:
            act()
        except (RuntimeError, ValueError, TypeError, ImportError, NotImplementedError) as error:
            if side.name == BASE or distributed.is_initialized():  # others would wait for ever
                raise
            self.failed[side.name] = f"{type(error).__name__}: {error}".splitlines()[0][:300]


def queue_length(arm: Arm) -> int:
    """Return the batches that the workers of an arm hold ready: workers × prefetch."""
    arguments = dict(arm.job.loader)
    for edit in arm.side.edits:
        if edit["kind"] == "set_argument" and edit["target"].endswith("DataLoader"):
            arguments[edit["name"]] = edit["value"]
    return (arguments.get("num_workers") or 0) * (arguments.get("prefetch_factor") or 2)


def first_rank_value(value: float) -> float:
    """Return the first rank's value."""
    if not distributed.is_initialized():
        return value
    values = [value]
    distributed.broadcast_object_list(values, src=0)
    return values[0]


def main() -> None:
    """Measure as the plan says, and write what was measured."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("plan", type=Path)
    parser.add_argument("out", type=Path)
    options = parser.parse_args()
    plan = json.loads(options.plan.read_text())
    bench = Bench(cases_of(plan.get("source", ZOO))[plan["case"]], plan)
    is_first = os.environ.get("RANK", "0") == "0"

    def report_progress(text: str) -> None:
        if is_first:
            print(f"{text} ({time.monotonic() - bench.begun:.0f} s)", flush=True)

    bench.run(report_progress)
    if is_first:
        options.out.write_text(json.dumps(result(bench)))
    if distributed.is_initialized():
        distributed.destroy_process_group()
    sys.stdout.flush()
    os._exit(0)  # no worker, no thread of a library is waited for


def result(bench: Bench) -> dict[str, Any]:
    """Return what was measured, and on what."""
    return {
        "blocks": [asdict(block) for block in bench.blocks],
        "failed": bench.failed,
        "effects": {name: list(arm.effects) for name, arm in bench.arms.items()},
        "device": bench.device.facts(),
        "threads": bench.threads,
        "torch": torch.__version__,
        "spent_s": round(time.monotonic() - bench.begun, 1),
    }


if __name__ == "__main__":
    main()
