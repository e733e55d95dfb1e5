"""Arms that were never run: recordings by hand, on a clock of their own."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from gapless.model.edit import Applicability, SetArgument
from gapless.model.recording import Observed, Recording
from gapless.verify.wanted import Candidate, Order, Ran
from tests.study.recording import Log, recording

CALM = "calm"


def candidate(summary: str = "num_workers 0 → 4", workers: int = 0) -> Candidate:
    edit = SetArgument("torch.utils.data.DataLoader", "num_workers", workers)
    return Candidate((summary,), summary, (edit,), Applicability.SAME)


def stepping(
    lengths: Sequence[float], *, start: float = 500, foreign: float | None = None
) -> Recording:
    """Give a recording whose first step ends at ``start`` ms, and the others after it."""
    log = Log(end=None)
    at = start
    log.mark("step", at - 1, at)
    for length in lengths:
        at += length
        log.mark("step", at - 0.5, at)
    log.fact("machine", 0, None, cpus_of_machine=2)
    log.end = at
    series = None if foreign is None else {"cpu.foreign": ([at - 1], [foreign * 200])}
    return recording(log, ended=at, series=series)


@dataclass
class Machine:
    """Runs arms by a table: ms a step of each side, and what else befalls single arms."""

    step_ms: dict[str, float]
    start_s: float = 2.0
    slow: Callable[[Order], float] = lambda _: 1.0  # of all steps of an arm
    shape: Callable[[Order, int], float] = lambda _, __: 1.0  # of single steps
    foreign: Callable[[Order], float | None] = lambda _: None
    failed: Callable[[Order], str | None] = lambda _: None
    trial: Callable[[Order], Observed | None] = lambda _: None
    met: Callable[[Order], Mapping[int, int]] = lambda _: {}  # by edit, how often it took effect
    now: float = 1000.0
    orders: list[Order] = field(default_factory=list[Order])

    def clock(self) -> float:
        return self.now

    def run(self, order: Order) -> Ran:
        self.orders.append(order)
        self.now += self.start_s
        why = self.failed(order)
        if why is not None:
            return Ran(None, 1, why)
        step = self.step_ms[order.side] * self.slow(order)
        many = min(order.stop, int(order.seconds * 1000 / step) + 1)
        lengths = [step * self.shape(order, at) for at in range(many - 1)]
        self.now += sum(lengths) / 1000
        found = stepping(lengths, start=self.start_s * 1000, foreign=self.foreign(order))
        log = Log()
        for number, times in self.met(order).items():
            log.fact("edit", number, None, edit=number, target="x", times=times)
        facts = (*found.processes[0].facts, *log.facts)
        first = replace(found.processes[0], facts=facts)
        found = replace(found, processes=(first, *found.processes[1:]))
        told = self.trial(order)
        return Ran(found if told is None else with_trial(found, told), 0)

    @property
    def sides(self) -> str:
        return "".join(one.side for one in self.orders)


def with_trial(found: Recording, told: Observed) -> Recording:
    first = replace(found.processes[0], trial=told)
    return replace(found, processes=(first, *found.processes[1:]))
