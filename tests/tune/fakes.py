"""A training that was never run: what each fix is worth is a table, the clock its own."""

from collections.abc import Callable

from msgspec import Struct, field
from msgspec.structs import replace

from gapless.model.edit import Applicability, Edit, Proposal, SetGlobal
from gapless.model.estimate import Estimate
from gapless.model.trial import Parity, Side, Trial, TrialVerdict
from gapless.model.tuning import TuningState
from gapless.tune.choice import Agenda, edits_of
from gapless.tune.rounds import MeasureTask, TimeLimit, Workbench
from gapless.verify.budget import budget_error
from gapless.verify.plan import INTERRUPTED

STATE = TuningState(("python", "train.py"), "/data", "2026-a", "untouched")
TRIAL_S = 40.0


def estimate(mid: float, width: float = 0.05) -> Estimate:
    return Estimate(mid - width, mid, mid + width)


def proposal(fix: str, predicted: float | None, value: str = "on") -> Proposal:
    speedup = None if predicted is None else estimate(predicted)
    edit = SetGlobal(f"torch.{fix}", value)
    return Proposal(fix, f"{fix} {value}", (edit,), Applicability.IDENTICAL, speedup=speedup)


def trial(
    verdict: TrialVerdict, speedup: float | None, parity: Parity = Parity.IDENTICAL, *notes: str
) -> Trial:
    side = Side(
        name="B", fixes=("x",), summary="x", edits=(), applicability=Applicability.IDENTICAL,
        verdict=verdict, speedup=None if speedup is None else estimate(speedup), job=None,
        parity=parity, step_ns=10_000_000,
    )  # fmt: skip
    return Trial(
        id="01", command=STATE.command, run=STATE.run, arms=(), order="ABBA", sides=(side,),
        noise=0.004, step_ns=20_000_000, measured=(3, 40), cache="warm", spent_s=TRIAL_S,
        notes=notes,
    )  # fmt: skip


def judge(speedup: float) -> TrialVerdict:
    if speedup > 1.02:
        return TrialVerdict.CONFIRMED
    return TrialVerdict.WORSE if speedup < 0.98 else TrialVerdict.NOTHING


class Training(Struct):
    """Fixes by what they are predicted to give with others kept, and what they give."""

    predicted: Callable[[tuple[str, ...]], dict[str, float | None]]
    gains: dict[str, float]
    whole: float = 2.0  # what the final proof measures
    needed_s: float = TRIAL_S
    parity: Parity = Parity.IDENTICAL
    cut: str | None = None  # the trial that Ctrl-C cuts short
    interrupt: Callable[[str], bool] = lambda _: False
    now: float = 0.0
    calls: list[tuple[str, tuple[str, ...]]] = field(
        default_factory=list[tuple[str, tuple[str, ...]]]
    )
    open_at_first: frozenset[str] = frozenset()  # what one process does not decide
    fresh: list[str] = field(default_factory=list[str])  # tried in fresh processes
    saved: list[TuningState] = field(default_factory=list[TuningState])

    def bench(self) -> Workbench:
        return Workbench(
            record=self.record,
            propose=self.propose,
            measure=self.measure,
            prove=self.prove,
            save=self.saved.append,
            clock=lambda: self.now,
            report_progress=lambda _: None,
        )

    def tried(self) -> list[str]:
        return [fix for fix, _ in self.calls if fix not in {"record", "proof"}]

    def record(self, edits: tuple[Edit, ...]) -> str:
        self._take("record", edits, 5.0)
        return "+".join(_names(edits)) or "untouched"

    def propose(self, record: str) -> Agenda:
        kept = () if record == "untouched" else tuple(record.split("+"))
        predicted = self.predicted(kept)
        return Agenda(tuple(proposal(fix, gain) for fix, gain in predicted.items()))

    def measure(self, task: MeasureTask) -> Trial:
        assert task.record == ("+".join(_names(task.base_edits)) or "untouched")
        self._afford(task.limit)
        fix = task.proposal.fix
        self._take(fix, task.base_edits, self.needed_s)
        self.fresh += [fix] * task.is_fresh
        gain = self.gains.get(fix, 1.0)
        is_decided = task.is_fresh or fix not in self.open_at_first
        verdict = judge(gain) if is_decided else TrialVerdict.UNDECIDED
        measured = trial(verdict, gain, self.parity)
        return replace(measured, spent_s=self.needed_s, notes=self._notes(fix))

    def prove(self, state: TuningState, limit: TimeLimit) -> Trial:
        self._afford(limit)
        self._take("proof", edits_of(state.fixes), self.needed_s)
        return replace(trial(judge(self.whole), self.whole), notes=self._notes("proof"))

    def _notes(self, call: str) -> tuple[str, ...]:
        return (INTERRUPTED,) if call == self.cut else ()

    def _afford(self, limit: TimeLimit) -> None:
        if self.needed_s > limit.max_s:
            raise budget_error(self.needed_s, limit.max_s)

    def _take(self, call: str, edits: tuple[Edit, ...], spent_s: float) -> None:
        if self.interrupt(call):
            raise KeyboardInterrupt
        self.now += spent_s
        self.calls.append((call, tuple(_names(edits))))


def _names(edits: tuple[Edit, ...]) -> list[str]:
    return [edit.target.removeprefix("torch.") for edit in edits if isinstance(edit, SetGlobal)]
