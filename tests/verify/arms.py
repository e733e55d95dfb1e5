"""Arms that were never run: recordings by hand, on a clock of their own."""

from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from gapless.model.edit import Applicability, SetArgument
from gapless.model.recording import ArmObservation, Recording
from gapless.verify.specs import ArmRun, ArmSpec, Candidate
from tests.study.recording import Log, recording


def candidate(summary: str = "num_workers 0 → 4", workers: int = 0) -> Candidate:
    edit = SetArgument("torch.utils.data.DataLoader", "num_workers", workers)
    return Candidate((summary,), summary, (edit,), Applicability.IDENTICAL)


def record_steps(
    lengths: Sequence[float], *, start: float = 500, foreign: float | None = None
) -> Recording:
    """Return a recording whose first step ends at ``start`` ms, and the others after it."""
    log = Log(end=None)
    now_ms = start
    log.add_mark("step", now_ms - 1, now_ms)
    for length in lengths:
        now_ms += length
        log.add_mark("step", now_ms - 0.5, now_ms)
    log.add_fact("machine", 0, None, cpus_of_machine=2)
    log.end = now_ms
    series = None if foreign is None else {"cpu.foreign": ([now_ms - 1], [foreign * 200])}
    return recording(log, ended_ms=now_ms, series=series)


class Machine(Struct):
    """Runs arms by a table: ms a step of each side, and what else befalls single arms."""

    step_ms: dict[str, float]
    start_s: float = 2.0
    slowdown: Callable[[ArmSpec], float] = lambda _: 1.0  # of all steps of an arm
    step_factor: Callable[[ArmSpec, int], float] = lambda _, __: 1.0  # of single steps
    foreign: Callable[[ArmSpec], float | None] = lambda _: None
    failure: Callable[[ArmSpec], str | None] = lambda _: None
    observation: Callable[[ArmSpec], ArmObservation | None] = lambda _: None
    edit_counts: Callable[[ArmSpec], Mapping[int, int]] = (
        lambda _: {}
    )  # by edit, how often it took effect
    now: float = 1000.0
    specs: list[ArmSpec] = field(default_factory=list[ArmSpec])

    def clock(self) -> float:
        return self.now

    def run(self, spec: ArmSpec) -> ArmRun:
        self.specs.append(spec)
        self.now += self.start_s
        why = self.failure(spec)
        if why is not None:
            return ArmRun(None, 1, why)
        step_ms = self.step_ms[spec.side] * self.slowdown(spec)
        n_steps = min(spec.stop_step, int(spec.seconds * 1000 / step_ms) + 1)
        lengths = [step_ms * self.step_factor(spec, index) for index in range(n_steps - 1)]
        self.now += sum(lengths) / 1000
        arm_recording = record_steps(lengths, start=self.start_s * 1000, foreign=self.foreign(spec))
        log = Log()
        for number, times in self.edit_counts(spec).items():
            log.add_fact("edit", number, None, edit=number, target="x", times=times)
        facts = (*arm_recording.processes[0].facts, *log.facts)
        first_process = replace(arm_recording.processes[0], facts=facts)
        arm_recording = replace(
            arm_recording, processes=(first_process, *arm_recording.processes[1:])
        )
        observation = self.observation(spec)
        return ArmRun(
            arm_recording if observation is None else add_observation(arm_recording, observation), 0
        )

    def run_pair(self, *specs: ArmSpec) -> tuple[ArmRun, ArmRun]:
        """Run two in turns: what slows the machine down slows both."""
        slowdown = self.slowdown
        factor = slowdown(specs[0])

        def slow_down(_: ArmSpec) -> float:
            return factor

        self.slowdown = slow_down
        first, second = (self.run(spec) for spec in specs)
        self.slowdown = slowdown
        return first, second

    @property
    def sides(self) -> str:
        return "".join(spec.side for spec in self.specs)


def add_observation(arm_recording: Recording, observation: ArmObservation) -> Recording:
    first_process = replace(arm_recording.processes[0], trial=observation)
    return replace(arm_recording, processes=(first_process, *arm_recording.processes[1:]))
