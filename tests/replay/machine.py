"""A machine that runs programs: what a trace of them shows, and what really happens to edited ones.

After the reference that the replay was designed with: the same rules stand on both sides. It shows
that hidden costs can be found from timestamps, and nothing about real devices.
"""

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from tests.accounting.drawing import Act, Call, Drawing, Frame

Kind = Literal["cpu", "launch", "sync", "data", "step"]
GAP, HOP = 1_000, 1_500
MATH, SIDE = 7, 20


@dataclass(frozen=True)
class Do:
    """One thing that a program does; times in ns."""

    kind: Kind
    ns: int = 0  # of the host: its work, the launch call, the hand-over
    device: int = 0
    stream: int = MATH
    what: str = "gemm"
    waits: tuple[int, ...] = ()  # streams that must be through
    in_op: bool = False


@dataclass(frozen=True)
class Costs:
    """What the machine adds."""

    lag: tuple[int, int] = (2_000, 2_400)
    back: tuple[int, int] = (4_000, 9_000)
    jitter: float = 0.0
    places: int = 10**9
    traced: int = 0  # ns that tracing costs an event


@dataclass
class Ran:
    """What happened."""

    acts: list[Act] = field(default_factory=list[Act])
    frames: list[Frame] = field(default_factory=list[Frame])
    steps: list[int] = field(default_factory=lambda: [0])
    ends: list[int] = field(default_factory=list[int])  # of the steps, on the device
    now: int = 0
    free: dict[int, int] = field(default_factory=dict[int, int])
    queued: dict[int, list[int]] = field(default_factory=dict[int, list[int]])
    ready: int = 0  # the next batch

    def drawing(self) -> Drawing:
        return Drawing(self.acts, self.frames, self.steps)


def run(program: Iterable[Do], costs: Costs, seed: int) -> Ran:
    """Run a program."""
    ran, rng = Ran(), random.Random(seed)

    def shaken(ns: int) -> int:
        return round(ns * (1 + rng.uniform(-costs.jitter, costs.jitter)))

    for do in program:
        match do.kind:
            case "cpu":
                _work(ran, shaken(do.ns), costs, in_op=do.in_op)
            case "launch":
                _launch(ran, do, shaken(do.ns), shaken(do.device), (costs, rng))
            case "sync":
                since = ran.now
                ran.now = max(since, *ran.free.values(), 0) + rng.randint(*costs.back)
                ran.frames.append(Frame("sync", since, ran.now, name="cudaDeviceSynchronize"))
            case "data":
                since = ran.now
                ran.now = max(since, ran.ready) + shaken(do.ns)
                ran.frames.append(Frame("data", since, ran.now))
                ran.ready = max(ran.ready, since) + shaken(do.device)
            case "step":
                ran.steps.append(ran.now)
                ran.ends.append(max(ran.now, *ran.free.values(), 0))
    return ran


def _work(ran: Ran, ns: int, costs: Costs, *, in_op: bool) -> None:
    since = ran.now
    ran.now += ns + (costs.traced if in_op else 0)
    if in_op and ran.now > since:
        ran.frames.append(Frame("op", since, ran.now))


def _launch(ran: Ran, do: Do, ns: int, device: int, by: tuple[Costs, random.Random]) -> None:
    costs, rng = by
    calls = ran.queued.setdefault(do.stream, [])
    since = ran.now
    if len(calls) >= costs.places:
        ran.now = max(ran.now, calls[len(calls) - costs.places])
    ran.now += ns + costs.traced
    start = max(ran.now + rng.randint(*costs.lag), ran.free.get(do.stream, -GAP) + GAP)
    for other in do.waits:
        start = max(start, ran.free.get(other, -HOP) + HOP)
    ran.free[do.stream] = start + device
    calls.append(start + device)
    kind = "h2d" if do.what == "h2d" else "comm" if do.what == "comm" else "compute"
    name = "" if kind != "compute" else do.what
    act = Act(
        f"{len(ran.acts)}", start, start + device, Call(since, ran.now), kind, name, do.stream
    )
    ran.acts.append(act)


def program(rng: random.Random, steps: int = 6) -> list[Do]:
    """Make a training up: batches, Python, launches, a second stream, a synchronisation."""
    made = rng.choice([0, 200_000, 3_000_000, 9_000_000])
    kernel, python = rng.choice([5, 30, 120, 500]), rng.choice([2, 10, 40])
    count, syncs = rng.randint(20, 60), rng.random() < 0.6
    copy = rng.choice([0, 100_000, 800_000])
    one = list(_step((kernel, python, count), copy, rng))
    tail = [Do("sync")] if syncs else []
    return [do for _ in range(steps) for do in [Do("data", 20_000, made), *one, *tail, Do("step")]]


def _step(sizes: tuple[int, int, int], copy: int, rng: random.Random) -> Iterable[Do]:
    kernel, python, count = sizes
    if copy:
        yield Do("launch", 8_000, copy, what="h2d")
    for _ in range(count):
        yield Do("cpu", round(rng.uniform(500, 1500) * python), in_op=rng.random() < 0.5)
        device = round(rng.uniform(500, 1500) * kernel)
        yield Do("launch", rng.randint(3_000, 7_000), device, what=rng.choice(["gemm", "add"]))
        if rng.random() < 0.05:
            yield Do("launch", 6_000, kernel * 1000, SIDE, "comm", (MATH,))


def without(program: Sequence[Do], kind: Kind) -> list[Do]:
    return [do for do in program if do.kind != kind]
