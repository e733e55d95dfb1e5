"""A machine that runs programs: what a trace of them shows, and what really happens to edited ones.

After the reference that the replay was designed with: the same rules stand on both sides. It shows
that hidden costs can be found from timestamps, and nothing about real devices.
"""

import random
from collections.abc import Iterable, Sequence
from typing import Literal

from msgspec import Struct, field

from tests.accounting.drawing import Act, Call, Drawing, Frame

ActionKind = Literal["cpu", "launch", "sync", "data", "step"]
GAP, HOP = 1_000, 1_500
MATH, SIDE = 7, 20


class Action(Struct, frozen=True):
    """One thing that a program does; times in ns."""

    kind: ActionKind
    ns: int = 0  # of the host: its work, the launch call, the hand-over
    device_ns: int = 0
    stream: int = MATH
    name: str = "gemm"
    awaited_streams: tuple[int, ...] = ()  # streams that must be through
    in_op: bool = False


class MachineCosts(Struct, frozen=True):
    """What the machine adds."""

    lag: tuple[int, int] = (2_000, 2_400)
    sync_return: tuple[int, int] = (4_000, 9_000)
    jitter: float = 0.0
    capacity: int = 10**9
    tracing_ns: int = 0  # ns that tracing costs an event


class MachineRun(Struct):
    """What happened."""

    acts: list[Act] = field(default_factory=list[Act])
    frames: list[Frame] = field(default_factory=list[Frame])
    steps: list[int] = field(default_factory=lambda: [0])
    step_ends: list[int] = field(default_factory=list[int])  # of the steps, on the device
    now: int = 0
    free_ns: dict[int, int] = field(default_factory=dict[int, int])
    ends_by_stream: dict[int, list[int]] = field(default_factory=dict[int, list[int]])
    batch_ready: int = 0  # the next batch

    def drawing(self) -> Drawing:
        return Drawing(self.acts, self.frames, self.steps)


def run_program(program: Iterable[Action], costs: MachineCosts, seed: int) -> MachineRun:
    """Run a program."""
    machine_run, rng = MachineRun(), random.Random(seed)

    def add_jitter(ns: int) -> int:
        return round(ns * (1 + rng.uniform(-costs.jitter, costs.jitter)))

    for action in program:
        match action.kind:
            case "cpu":
                _run_host(machine_run, add_jitter(action.ns), costs, in_op=action.in_op)
            case "launch":
                _launch_work(
                    machine_run,
                    action,
                    add_jitter(action.ns),
                    add_jitter(action.device_ns),
                    (costs, rng),
                )
            case "sync":
                since = machine_run.now
                machine_run.now = max(since, *machine_run.free_ns.values(), 0) + rng.randint(
                    *costs.sync_return
                )
                machine_run.frames.append(
                    Frame("sync", since, machine_run.now, name="cudaDeviceSynchronize")
                )
            case "data":
                since = machine_run.now
                machine_run.now = max(since, machine_run.batch_ready) + add_jitter(action.ns)
                machine_run.frames.append(Frame("data", since, machine_run.now))
                machine_run.batch_ready = max(machine_run.batch_ready, since) + add_jitter(
                    action.device_ns
                )
            case "step":
                machine_run.steps.append(machine_run.now)
                machine_run.step_ends.append(max(machine_run.now, *machine_run.free_ns.values(), 0))
    return machine_run


def _run_host(machine_run: MachineRun, ns: int, costs: MachineCosts, *, in_op: bool) -> None:
    since = machine_run.now
    machine_run.now += ns + (costs.tracing_ns if in_op else 0)
    if in_op and machine_run.now > since:
        machine_run.frames.append(Frame("op", since, machine_run.now))


def _launch_work(
    machine_run: MachineRun,
    action: Action,
    ns: int,
    device_ns: int,
    costs_and_rng: tuple[MachineCosts, random.Random],
) -> None:
    costs, rng = costs_and_rng
    queue_ends = machine_run.ends_by_stream.setdefault(action.stream, [])
    since = machine_run.now
    if len(queue_ends) >= costs.capacity:
        machine_run.now = max(machine_run.now, queue_ends[len(queue_ends) - costs.capacity])
    machine_run.now += ns + costs.tracing_ns
    start = max(
        machine_run.now + rng.randint(*costs.lag),
        machine_run.free_ns.get(action.stream, -GAP) + GAP,
    )
    for stream in action.awaited_streams:
        start = max(start, machine_run.free_ns.get(stream, -HOP) + HOP)
    machine_run.free_ns[action.stream] = start + device_ns
    queue_ends.append(start + device_ns)
    kind = "h2d" if action.name == "h2d" else "comm" if action.name == "comm" else "compute"
    name = "" if kind != "compute" else action.name
    act = Act(
        f"{len(machine_run.acts)}",
        start,
        start + device_ns,
        Call(since, machine_run.now),
        kind,
        name,
        action.stream,
    )
    machine_run.acts.append(act)


def make_program(rng: random.Random, steps: int = 6) -> list[Action]:
    """Make a training up: batches, Python, launches, a second stream, a synchronisation."""
    batch_ns = rng.choice([0, 200_000, 3_000_000, 9_000_000])
    kernel, python = rng.choice([5, 30, 120, 500]), rng.choice([2, 10, 40])
    count, has_syncs = rng.randint(20, 60), rng.random() < 0.6
    copy = rng.choice([0, 100_000, 800_000])
    step_actions = list(_make_step((kernel, python, count), copy, rng))
    tail = [Action("sync")] if has_syncs else []
    return [
        action
        for _ in range(steps)
        for action in [Action("data", 20_000, batch_ns), *step_actions, *tail, Action("step")]
    ]


def _make_step(sizes: tuple[int, int, int], copy: int, rng: random.Random) -> Iterable[Action]:
    kernel, python, count = sizes
    if copy:
        yield Action("launch", 8_000, copy, name="h2d")
    for _ in range(count):
        yield Action("cpu", round(rng.uniform(500, 1500) * python), in_op=rng.random() < 0.5)
        device_ns = round(rng.uniform(500, 1500) * kernel)
        yield Action(
            "launch", rng.randint(3_000, 7_000), device_ns, name=rng.choice(["gemm", "add"])
        )
        if rng.random() < 0.05:
            yield Action("launch", 6_000, kernel * 1000, SIDE, "comm", (MATH,))


def drop_kind(program: Sequence[Action], kind: ActionKind) -> list[Action]:
    return [action for action in program if action.kind != kind]
