"""The whole gate: what is compared with what, the arms, their confirmation, the result."""

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from gapless.errors import UsageError
from gapless.gate import judging, revisions
from gapless.gate.baseline import (
    Baseline,
    BaselineSession,
    MachineKind,
    add_session,
    read_baseline,
    read_machine,
    write_baseline,
)
from gapless.gate.budgets import STEP, Budget, BudgetResult, judge_budgets, needs_windows
from gapless.gate.figures import BASE, NEW, ArmFigures
from gapless.gate.judging import Effect, LeafGrowth
from gapless.gate.lines import GrownLine, find_grown_line
from gapless.gate.measuring import (
    ArmRunner,
    Progress,
    SourceSide,
    find_foreign_source,
    run_set,
    run_windows,
)
from gapless.model.leaf import group_of
from gapless.model.recording import Recording

_WINDOWS: Final = 2  # arms of each side that split the account of a regression
_BUDGET_WINDOWS: Final = 3
_BASELINE_ARMS: Final = 5
_LOADING: Final = "data"

Judge = Callable[[Sequence[ArmFigures]], Effect | None]


class GateTask(Struct, frozen=True):
    """What a gate is to decide."""

    command: tuple[str, ...]
    folder: Path
    out: Path  # of the arms' records
    against: str | None  # git:REV, a folder; None: the baseline
    baseline: Path
    budgets: tuple[Budget, ...] = ()
    links: tuple[str, ...] = ()
    target: float = 0.05  # the slow-down that is to be seen
    pairs: tuple[int, int] = (4, 40)
    arm_s: float = 4.0
    budget_s: float = 600.0  # of a set of arms: no turn begins after it
    apart: bool = False  # the arms of a pair do not step in turns


class GateResult(Struct, frozen=True):
    """What a gate found; ``effect`` and what follows it are of the comparison, if there was one."""

    against: str | None  # in words; None: only budgets were judged
    revision: str  # of this side; "": not known
    effect: Effect | None
    is_confirmed: bool  # a second set of arms proved the regression again
    is_suspected: bool  # a first set had
    growths: tuple[LeafGrowth, ...]
    line: GrownLine | None
    anchor: str | None  # what ends a step
    step_ns: tuple[float | None, float | None]  # base, new
    budgets: tuple[BudgetResult, ...]
    arms: tuple[ArmFigures, ...]
    stored: tuple[ArmFigures, ...]  # of the baseline
    confirming_turn: int | None  # the first of the second set; None: there was none
    notes: tuple[str, ...]
    took_s: float

    @property
    def is_red(self) -> bool:
        """Return whether a regression is proven or a budget broken."""
        return self.is_confirmed or any(result.is_broken for result in self.budgets)


class _Comparison(Struct, frozen=True):
    words: str
    sides: tuple[SourceSide, ...]  # that are run
    judge: Judge
    stored: tuple[ArmFigures, ...] = ()  # of the baseline


def decide(task: GateTask, report_progress: Progress) -> GateResult:
    """Compare this source with another, or with the baseline; judge the budgets.

    Raises ``GaplessError`` where a side cannot be measured, ``UsageError`` where there is nothing
    to compare with.
    """
    top = revisions.find_top(task.folder)
    new = SourceSide(NEW, top, task.folder)
    runner = ArmRunner(task.command, task.out, task.arm_s, report_progress, apart=task.apart)
    if task.against is not None:
        with revisions.open_revision(task.against, task.folder, task.links) as revision:
            variables = revisions.map_search_path(top, revision)
            base = SourceSide(BASE, revision.top, revision.folder, variables)
            _check_own_source(runner, base, new)
            comparison = _Comparison(revision.words, (base, new), judging.judge_pairs)
            return _decide(task, _plan(runner, new), comparison, ())
    if not task.baseline.exists() and task.budgets:
        return _decide(task, _plan(runner, new), None, ())
    baseline = read_baseline(task.baseline)
    first = _record_first(runner, new)
    notes = check_baseline(baseline, task.command, read_machine(first))
    return _decide(task, runner.plan_after(first), compare_with(baseline, task, new), notes)


def update(task: GateTask, report_progress: Progress, *, adds: bool) -> Baseline:
    """Record the arms of a baseline and write it; ``adds``: beside the sessions that it holds."""
    side = SourceSide(NEW, revisions.find_top(task.folder), task.folder)
    runner = ArmRunner(task.command, task.out, task.arm_s, report_progress)
    first = _record_first(runner, side)
    machine = read_machine(first)
    old = read_baseline(task.baseline) if adds and task.baseline.exists() else None
    if old is not None:
        check_baseline(old, task.command, machine)
    planned = runner.plan_after(first)
    arms = run_set(planned, (side,), (_BASELINE_ARMS, _BASELINE_ARMS), lambda _: True)
    windows = run_windows(planned, (side,), _WINDOWS)
    session = BaselineSession(
        revisions.describe_head(task.folder),
        tuple(replace(arm, side=BASE) for arm in (*arms, *windows)),
    )
    baseline = add_session(old or Baseline(task.command, machine, ()), session)
    write_baseline(task.baseline, baseline)
    return baseline


def check_baseline(
    baseline: Baseline, command: tuple[str, ...], machine: MachineKind
) -> tuple[str, ...]:
    """Return what differs and may; raise ``UsageError`` where times cannot be compared."""
    if not baseline.machine.is_like(machine):
        msg = (
            f"the baseline is of another machine ({baseline.machine.describe()}; this is "
            f"{machine.describe()}): times of a step cannot be compared; gate against a revision "
            "(--against git:main), or write a baseline here (--update)"
        )
        raise UsageError(msg)
    if baseline.command[1:] != command[1:]:
        words = " ".join(baseline.command)
        msg = f"the baseline is of another command ({words}); --update writes it anew"
        raise UsageError(msg)
    now = dict(machine.versions)
    return tuple(
        f"the baseline was measured with {name} {text}, this is {now[name]}"
        for name, text in baseline.machine.versions
        if name in now and now[name] != text
    )


def compare_with(baseline: Baseline, task: GateTask, new: SourceSide) -> _Comparison:
    """Return the comparison with a stored baseline."""
    sessions = [session.step_times for session in baseline.sessions]
    stored = tuple(arm for session in baseline.sessions for arm in session.arms)

    def judge(arms: Sequence[ArmFigures]) -> Effect | None:
        return judging.judge_against_sessions(sessions, [arm.step_ns for arm in arms])

    words = f"{task.baseline.name}, {len(sessions)} session{'s' * (len(sessions) > 1)}"
    return _Comparison(words, (new,), judge, stored)


def _record_first(runner: ArmRunner, side: SourceSide) -> Recording:
    runner.report_progress("first arm, not counted: how long a start and a step take")
    return runner.record(side, 0)


def _plan(runner: ArmRunner, side: SourceSide) -> ArmRunner:
    return runner.plan_after(_record_first(runner, side))


def _check_own_source(runner: ArmRunner, base: SourceSide, new: SourceSide) -> None:
    """Raise ``UsageError`` if the base side imports the source of the new one."""
    runner.report_progress("does the other revision train, and on its own source?")
    file = find_foreign_source(runner.record(base, 0), base, new)
    if file is not None:
        msg = (
            f"the base revision imported {file} of this source, not its own (installed with pip "
            "-e?): both sides would be the same; start it with PYTHONPATH=src, which is moved to "
            "the other revision, or use a stored baseline"
        )
        raise UsageError(msg)


def _decide(
    task: GateTask, runner: ArmRunner, comparison: _Comparison | None, notes: tuple[str, ...]
) -> GateResult:
    start_s = time.monotonic()
    new = SourceSide(NEW, revisions.find_top(task.folder), task.folder)
    sides = comparison.sides if comparison else (new,)
    first = _run(task, runner, sides, comparison, 0)
    arms, effect, second_effect = first, comparison and comparison.judge(first), None
    is_suspected = effect is not None and effect.is_slower
    confirming_turn = 1 + max(arm.turn for arm in first) if is_suspected else None
    if comparison and effect and confirming_turn is not None:
        runner.report_progress("slower: a second set of arms is to confirm it")
        second = _run(task, runner, sides, comparison, confirming_turn)
        second_effect = comparison.judge(second)
        arms = (*first, *second)
        if second_effect is not None:
            effect = judging.combine(effect, second_effect, comparison.judge(arms))
    is_confirmed = second_effect is not None and second_effect.is_slower
    if runner.why_apart and len(sides) > 1:
        notes = (*notes, f"the arms of a pair ran one after the other: {runner.why_apart}")
    windows = ()
    if is_confirmed:
        windows = run_windows(runner, sides, _WINDOWS)
    if needs_windows(task.budgets):
        missing = _BUDGET_WINDOWS - sum(arm.side == NEW for arm in windows)
        windows = (*windows, *run_windows(runner, (new,), missing))
    arms = (*arms, *windows)
    result = GateResult(
        against=comparison and comparison.words,
        revision=revisions.describe_head(task.folder),
        effect=effect,
        is_confirmed=is_confirmed,
        is_suspected=is_suspected,
        growths=(),
        line=None,
        anchor=arms[0].anchor,
        step_ns=(None, None),
        budgets=judge_budgets(task.budgets, [arm for arm in arms if arm.side == NEW]),
        arms=arms,
        stored=comparison.stored if comparison else (),
        confirming_turn=confirming_turn,
        notes=notes,
        took_s=time.monotonic() - start_s,
    )
    return explain(result)


def explain(result: GateResult) -> GateResult:
    """Return a result with the step times of both sides, and what grew if it is slower."""
    arms = (*result.stored, *result.arms)
    step_ns = _mean_step(arms, BASE), _mean_step(arms, NEW)
    if not result.is_confirmed:
        return replace(result, step_ns=step_ns)
    growths = judging.find_growths(arms)
    largest = growths[0] if growths else None
    line = None
    if largest is not None:
        loads = name_group(largest.leaf) == _LOADING
        line = find_grown_line(arms, loads=loads, growth_ns=largest.delta_ns)
        line = line or find_grown_line(arms, loads=not loads, growth_ns=largest.delta_ns)
    return replace(result, step_ns=step_ns, growths=growths, line=line)


def name_group(leaf: str) -> str:
    """Return the group of a leaf; that of the part of a step that no window split is "step"."""
    return STEP if leaf == STEP else group_of(leaf)


def _run(
    task: GateTask,
    runner: ArmRunner,
    sides: tuple[SourceSide, ...],
    comparison: _Comparison | None,
    first: int,
) -> tuple[ArmFigures, ...]:
    start_s = time.monotonic()

    def is_done(arms: Sequence[ArmFigures]) -> bool:
        effect = comparison.judge(arms) if comparison else None
        is_fine = comparison is None or (effect is not None and effect.visible <= task.target)
        return is_fine or time.monotonic() - start_s > task.budget_s

    return run_set(runner, sides, task.pairs, is_done, first)


def _mean_step(arms: Sequence[ArmFigures], side: str) -> float | None:
    times = [arm.step_ns for arm in arms if arm.side == side and not arm.windowed]
    return sum(times) / len(times) if times else None
