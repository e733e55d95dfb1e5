"""Edits switched in one process: what may be, what blocks show, who gets fresh processes."""

import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from gapless import wire
from gapless.model.edit import Applicability, Edit, SetArgument, SetEnv, SetGlobal, Skip, Wrap
from gapless.model.recording import Recording
from gapless.model.trial import Method, Trial, TrialVerdict
from gapless.report.sections.trials import side_remarks
from gapless.verify.arms.arm import ArmPlan, make_runner
from gapless.verify.arms.blocks import read_blocks
from gapless.verify.arms.switchable import explain_obstacle
from gapless.verify.budget import TrialBudgetError
from gapless.verify.in_process import choose_mode, conduct_both_ways
from gapless.verify.specs import ArmMode, ArmRun, ArmSpec, Candidate, TrialSettings
from tests.study.recording import Log, recording
from tests.verify.arms import Machine, record_steps

STEPS, SETTLING = 20, 5  # of a block; before it
LOADER = "torch.utils.data.DataLoader"
SKIP = Skip("gc.collect")
TRAINING = """
import gc, torch
torch.set_num_threads(1)
model = torch.nn.Sequential(*[torch.nn.Linear(16, 16) for _ in range(8)])
optimizer = torch.optim.AdamW(model.parameters(), foreach=False)
while True:
    optimizer.zero_grad()
    model(torch.ones(2, 16)).square().mean().backward()
    gc.collect()
    optimizer.step()
"""

LOADING = """
import time, torch
torch.set_num_threads(1)

class Slow(torch.utils.data.Dataset):
    def __len__(self):
        return 400

    def __getitem__(self, index):
        time.sleep(0.005)
        return torch.ones(16)

model = torch.nn.Linear(16, 16)
optimizer = torch.optim.SGD(model.parameters(), 1e-3)
while True:
    for batch in torch.utils.data.DataLoader(Slow(), 4):
        optimizer.zero_grad()
        model(batch).square().mean().backward()
        optimizer.step()
"""


def candidate(name: str, *edits: Edit) -> Candidate:
    return Candidate((name,), name, edits, Applicability.IDENTICAL)


def record_blocks(
    blocks: Sequence[tuple[int, float]],
    *,
    last: int = wire.SWITCH_LAST,
    effects: int = 5,
    memory_peaks: dict[int, int] | None = None,
    losses: dict[int, float] | None = None,
) -> Recording:
    """Return a process of blocks: each a side, and how many ms its steps take."""
    log = Log(end=None)
    now_ms = 500.0
    log.add_mark("step", now_ms - 1, now_ms)
    for number, (side, step_ms) in enumerate(blocks):
        log.add_mark("switch", now_ms, now_ms, subject=side, value=wire.SWITCH_MADE)
        for step in range(SETTLING + STEPS):
            if step == SETTLING:
                log.add_mark("switch", now_ms, now_ms, subject=side, value=wire.SWITCH_SETTLED)
            now_ms += step_ms * (1 + 0.002 * ((step + number) % 3 - 1))
            log.add_mark("step", now_ms - 0.5, now_ms)
    log.add_mark("switch", now_ms, now_ms, subject=blocks[-1][0], value=last)
    log.add_fact("machine", 0, None, cpus_of_machine=2)
    for side, peak in (memory_peaks or {}).items():
        log.add_fact("block", side, None, side=side, memory_peak=peak)
    for number, (side, _) in enumerate(blocks if losses else ()):
        mean = (losses or {}).get(side, 2.0) - 0.01 * number + 0.004 * (number % 3)
        log.add_fact("block loss", number, None, side=side, mean=mean)
    for side in {side for side, _ in blocks if side}:
        log.add_fact("edit", 1000 * side, None, edit=1000 * side, target="x", times=effects)
    log.end = now_ms
    return recording(log, ended_ms=now_ms)


def turns(b_ms: float, c_ms: float, after_c_ms: float = 10.0) -> list[tuple[int, float]]:
    later = [(1, b_ms), (0, after_c_ms), (2, c_ms), (0, after_c_ms)]
    return [(0, 10.0)] * 3 + [(1, b_ms), (0, 10.0), (2, c_ms), (0, after_c_ms), *later * 3]


def turns_of_b(b_ms: float) -> list[tuple[int, float]]:
    return [block for block in turns(b_ms, 10.0) if block[0] < 2]


def try_both(
    blocks: Recording | None,
    candidates: tuple[Candidate, ...],
    mode: ArmMode = ArmMode.FRESH_FIRST,
) -> tuple[Trial, Machine]:
    """Try candidates on a machine whose fresh sides are all a tenth faster."""
    machine = Machine({"A": 10.0, "B": 9.0, "C": 9.0})

    def run(spec: ArmSpec) -> ArmRun:
        return ArmRun(blocks, 0) if spec.switched else machine.run(spec)

    settings = TrialSettings("01", ("python",), clock=machine.clock, windows=False, mode=mode)
    trial = conduct_both_ways(candidates, settings, run, lambda _: None)
    return trial, machine


@pytest.mark.parametrize(
    ("edit", "can_switch"),
    [
        (SKIP, True),
        (SetGlobal("torch.set_num_threads", 1), True),
        (SetGlobal("torch.backends.cudnn.benchmark", value=True), False),
        (SetArgument("torch.optim.AdamW", "fused", value=True), True),
        (SetArgument("torch.optim.AdamW", "lr", 0.1), False),
        (SetArgument("torch.optim.Optimizer.zero_grad", "set_to_none", value=True), True),
        (SetArgument(LOADER, "num_workers", 2), True),
        (SetArgument(LOADER, "batch_size", 2), False),
        (SetEnv("OMP_NUM_THREADS", "1"), False),
        (SetArgument(LOADER, "persistent_workers", value=True), True),
        (Wrap("torch.nn.Module", "autocast"), True),
        (Wrap("torch.nn.Module", "channels-last"), True),
        (Wrap("torch.optim.Optimizer", "grad-scaler"), True),
        (Wrap("torch.nn.Module", "compile"), False),
        (Wrap(LOADER, "device-prefetcher"), True),
    ],
)
def test_what_is_made_at_the_start_cannot_be_switched(edit: Edit, *, can_switch: bool) -> None:
    assert (explain_obstacle((SKIP, edit)) is None) == can_switch


def test_what_acts_at_epoch_turns_alone_is_not_seen_in_blocks() -> None:
    why = explain_obstacle((SetArgument(LOADER, "persistent_workers", value=True),))
    assert why == "persistent_workers acts at epoch turns, which blocks leave out"


def test_blocks_tell_each_side_against_its_unedited_neighbours() -> None:
    trial, machine = try_both(
        record_blocks(turns(8.0, 10.0)), (candidate("b", SKIP), candidate("c", SKIP))
    )
    assert not machine.specs, "no fresh process was started"
    faster, same = trial.sides
    assert faster.speedup is not None
    assert same.speedup is not None
    assert faster.speedup.low <= 1.25 <= faster.speedup.high
    assert (faster.verdict, same.verdict) == (TrialVerdict.CONFIRMED, TrialVerdict.NOTHING)
    assert (faster.step_ns, trial.step_ns) == (pytest.approx(8e6, rel=0.01), 10_000_000)
    assert {side.method for side in trial.sides} == {Method.IN_PROCESS}
    assert trial.order == "AAABACABACABACABACA"
    assert [arm.side for arm in trial.arms] == list(trial.order)


def test_what_stays_different_after_switching_back_gets_fresh_processes() -> None:
    trial, machine = try_both(
        record_blocks(turns(8.0, 9.0, after_c_ms=9.3)), (candidate("b", SKIP), candidate("c", SKIP))
    )
    assert machine.specs
    assert trial.sides[1].method is Method.FRESH
    assert trial.sides[1].name == "C"
    assert any("fresh processes for c: unedited steps were -" in note for note in trial.notes)


def test_a_machine_that_wanders_is_no_drift() -> None:
    unedited = [123, 121, 150, 113, 99, 95, 94, 95, 102, 132, 123]  # measured beside other work
    sides = [(1, 122), (2, 19), (1, 97), (2, 24), (1, 91), (2, 25), (1, 102), (2, 26)]
    pairs = zip(sides, unedited[3:], strict=True)
    later = [block for side, ms in pairs for block in (side, (0, ms))]
    blocks = record_blocks([*((0, ms) for ms in unedited[:3]), *later])
    trial, machine = try_both(blocks, (candidate("b", SKIP), candidate("c", SKIP)))
    assert not machine.specs
    assert [side.verdict for side in trial.sides] == [
        TrialVerdict.UNDECIDED,
        TrialVerdict.CONFIRMED,
    ]


def test_peak_memory_is_shown_where_both_are_known() -> None:
    blocks = record_blocks(turns(8.0, 10.0), memory_peaks={0: 300, 1: 200})
    trial, _ = try_both(blocks, (candidate("b", SKIP), candidate("c", SKIP)))
    assert [side.memory_peaks for side in trial.sides] == [(300, 200), None]


@pytest.mark.parametrize("applicability", [Applicability.IDENTICAL, Applicability.RISKY])
def test_losses_that_jump_while_an_edit_is_on_are_seen(applicability: Applicability) -> None:
    blocks = record_blocks(turns(8.0, 8.0), losses={0: 2.0, 1: 2.0, 2: 2.5})
    sides = [Candidate((name,), name, (SKIP,), applicability) for name in "bc"]
    trial, machine = try_both(blocks, tuple(sides))
    may_change = applicability is Applicability.RISKY
    same, jumping = trial.sides
    assert (same.method, same.parity_note) == (
        Method.IN_PROCESS,
        "loss 1.913 in its blocks, 1.914 around them",
    )
    remarks = " ".join(side_remarks(trial, same))
    assert "losses not compared one by one · in one process: 4 blocks" in remarks
    assert "· loss 1.913 in its blocks, 1.914 around them" in remarks
    assert bool(machine.specs) != may_change, "what ought to change no result gets fresh processes"
    assert jumping.method is (Method.IN_PROCESS if may_change else Method.FRESH)
    words = "loss 2.395 in its blocks, 1.893 around them"
    assert (jumping.parity_note == words) == may_change
    assert (f"fresh processes for c: {words}" in trial.notes) != may_change


@pytest.mark.parametrize(
    ("blocks", "why"),
    [
        (None, "nothing could be switched"),
        (record_blocks(turns_of_b(8.0), effects=0), "it took no effect"),
        (
            record_blocks([*turns_of_b(8.0), (1, 8.0)], last=wire.SWITCH_NOT_FINITE),
            "the loss was no finite number",
        ),
    ],
)
def test_a_side_that_fails_in_one_process_gets_fresh_ones(
    blocks: Recording | None, why: str
) -> None:
    trial, machine = try_both(blocks, (candidate("b", SKIP),))
    assert machine.specs
    assert [side.method for side in trial.sides] == [Method.FRESH]
    assert any(note.startswith(f"fresh processes for b: {why}") for note in trial.notes)


def test_the_way_can_be_forced() -> None:
    candidates = (candidate("b", SKIP), candidate("c", SetArgument(LOADER, "batch_size", 1)))
    trial, machine = try_both(None, candidates, ArmMode.FRESH)
    assert {side.method for side in trial.sides} == {Method.FRESH}
    blocks = record_blocks(turns_of_b(8.0))
    trial, machine = try_both(blocks, candidates, ArmMode.SWITCHED)
    assert not machine.specs
    assert [side.name for side in trial.sides] == ["B"]
    assert "not tried in one process: c: DataLoader takes batch_size when it is made" in trial.notes


@pytest.mark.slow
def test_a_training_is_switched_while_it_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    plan = ArmPlan((sys.executable, "-c", TRAINING), tmp_path / "arms")
    edits: tuple[tuple[Edit, ...], ...] = (
        (SKIP,),
        (SetArgument("torch.optim.AdamW", "fused", value=True),),
        (Wrap("torch.nn.Module", "autocast", {"dtype": "bfloat16"}),),
        (Wrap("torch.nn.Module", "no-such-part"),),
    )
    run = make_runner(plan)(ArmSpec("A", 0, (), 10**9, 90.0, switched=edits))
    assert (run.failure, run.code) == (None, 0)
    assert run.recording is not None
    steps = read_blocks(run.recording, [1, 1, 1, 1])
    assert steps is not None
    assert [len(steps.pairs(side)) >= 2 for side in range(5)] == [False, True, True, True, False]
    assert steps.obstacles.keys() == {4}
    speedup = steps.speedup(1)
    assert speedup is not None
    assert {side for side, _ in steps.losses} == {0, 1, 2, 3}
    assert speedup.low > 1.5, "collections of all objects take most of these steps"


@pytest.mark.slow
def test_a_second_loader_feeds_a_training_while_it_is_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    plan = ArmPlan((sys.executable, "-c", LOADING), tmp_path / "arms")
    edits = tuple((SetArgument(LOADER, "num_workers", workers),) for workers in (2, 1))
    run = make_runner(plan)(ArmSpec("A", 0, (), 10**9, 90.0, switched=edits))
    assert (run.failure, run.code) == (None, 0)
    assert run.recording is not None
    steps = read_blocks(run.recording, [1, 1])
    assert steps is not None
    assert not steps.obstacles
    speedup = steps.speedup(1)
    assert speedup is not None
    assert speedup.low > 1.3, "two workers sleep at the same time, and beside the training"
    assert len(steps.pairs(2)) >= 2, "workers that are forked later leave the first ones alone"


@pytest.mark.parametrize(
    ("edit", "budget_s", "way"),
    [
        (SKIP, 600.0, "fresh"),
        (SKIP, 2.0, "in process"),
        (SetGlobal("torch.backends.cudnn.benchmark", value=True), 600.0, "fresh"),
        (SetGlobal("torch.backends.cudnn.benchmark", value=True), 2.0, "refused"),
    ],
)
def test_the_budget_decides_the_way_where_the_user_does_not(
    edit: Edit, budget_s: float, way: str
) -> None:
    side = Candidate(("x",), "", (edit,), Applicability.IDENTICAL)
    settings = TrialSettings("01", ("python",), budget_s=budget_s)
    slow_start = record_steps([100.0] * 40, start=5000.0)
    if way == "refused":
        with pytest.raises(TrialBudgetError):
            choose_mode((side,), settings, slow_start)
        return
    chosen = choose_mode((side,), settings, slow_start)
    assert chosen.mode is (ArmMode.FRESH if way == "fresh" else ArmMode.FRESH_FIRST)


def test_what_cannot_be_switched_must_fit_beside_what_can() -> None:
    slow_start = record_steps([100.0] * 40, start=5000.0)
    edits = SKIP, SetGlobal("torch.backends.cudnn.benchmark", value=True)
    sides = tuple(Candidate((str(edit),), "", (edit,), Applicability.IDENTICAL) for edit in edits)
    roomy, tight = (TrialSettings("01", ("python",), budget_s=seconds) for seconds in (50.0, 4.0))
    assert choose_mode(sides, roomy, slow_start).mode is ArmMode.FRESH
    with pytest.raises(TrialBudgetError):
        choose_mode(sides, tight, slow_start)
