"""Run rows of recordings made by hand: every ns to one run leaf."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from gapless import wire
from gapless.accounting.run_row import RUN_LEAVES
from gapless.model.account import Account, RowAccount
from gapless.model.leaf import group_of
from gapless.model.ledger import Row
from gapless.model.recording import StackCount
from gapless.model.run import StepAccount
from gapless.model.study import RunInfo, Study, StudyHealth
from gapless.model.tables import EMPTY_TABLES
from gapless.recorded.loaders.waits import loader_waits
from gapless.recorded.loaders.workers import worker_use
from gapless.recorded.steps.account import StepTotals, step_account
from gapless.recorded.steps.occasions import Occasions, find_occasions, sightings, spreads
from gapless.recorded.steps.rows import charge_training, exposed_leaves
from gapless.recorded.steps.timeline import timeline
from gapless.recorded.training.edges import estimate_noise, find_edges
from gapless.recorded.training.lines import hot_lines
from gapless.recorded.training.processes import Training, counted_steps, trainings
from gapless.study import study_recording
from tests.study.recording import MS, Log, recording


def training(*logs: Log, ended_ms: float | None = 1000, pid: int | None = None) -> Training:
    return trainings(recording(*logs, ended_ms=ended_ms, pid=pid))[0]


def in_ms(leaves: dict[str, int]) -> dict[str, float]:
    return {leaf: ns / MS for leaf, ns in leaves.items()}


def run_leaves(
    *logs: Log, ended_ms: float | None = 1000, pid: int | None = None
) -> dict[str, float]:
    training_process = training(*logs, ended_ms=ended_ms, pid=pid)
    return in_ms(
        charge_training(training_process, loader_waits(training_process)).row.sum_by_leaf()
    )


def r1() -> Log:
    """Return the run of golden vector R1."""
    log = Log()
    log.add_steps(300, 400, 500, 600, 760, 900)
    log.add_fact("loader", 0, ("train.py", 41), num_workers=0)
    log.add_mark("next", 200, 250, value=0)
    log.add_fetch(200, 250, read=1)
    log.rows[-1]["read_wall"] = 50 * MS
    for start, end in ((400, 460), (610, 620)):
        log.add_mark("next", start, end, value=1, subject=1)
    log.add_fact("loader", 1, ("train.py", 42), num_workers=0)
    log.add_mark("collector", 440, 450, value=2)
    log.add_mark("mode", 600, value=0)
    log.add_mark("mode", 700, value=1)
    log.add_mark("checkpoint", 890, 920)
    return log


def test_golden_vector_r1() -> None:
    assert run_leaves(r1()) == {
        "set-up": 250,
        "data.read": 50,
        "data.main": 60,
        "step": 430,
        "evaluation": 90,
        "checkpoint": 30,
        "collector": 10,
        "tear-down": 80,
    }


def test_a_model_in_eval_mode_while_others_step_is_no_evaluation() -> None:
    log = Log()
    log.add_steps(100, 200, 300)
    log.add_mark("mode", 120, value=0, subject=7)
    assert "evaluation" not in run_leaves(log)


def test_a_last_evaluation_lasts_to_the_end() -> None:
    log = Log(end=500)
    log.add_steps(100, 200, 300)
    log.add_mark("mode", 320, value=0)
    assert run_leaves(log)["evaluation"] == 180
    assert run_leaves(log)["tear-down"] == 20


def test_what_the_command_does_after_pythons_exit_functions_is_after_the_last_step() -> None:
    log = Log(end=500)
    log.add_steps(100, 300, 400)
    assert run_leaves(log)["tear-down"] == 100
    assert run_leaves(log, pid=10)["tear-down"] == 600
    assert run_leaves(log, pid=11)["tear-down"] == 100
    log.add_mark("mode", 420, value=0)
    assert run_leaves(log, pid=10)["evaluation"] == 80
    assert run_leaves(log, pid=10)["tear-down"] == 520


def test_what_a_killed_process_did_last_is_unknown() -> None:
    log = Log(end=None)
    log.add_steps(100, 200, 300)
    assert run_leaves(log, ended_ms=400) == {"set-up": 100, "step": 200, "unknown": 100}


def test_the_end_of_an_iteration_and_its_start_are_epoch_turns() -> None:
    log = Log(end=400)
    log.add_steps(100, 200, 300)
    log.add_mark("iter", 110, 120)
    log.add_mark("next", 250, 270, flags=wire.EXHAUSTED)
    log.add_mark("close", 255, 269)
    assert run_leaves(log)["epoch-turn"] == 30


def test_marks_of_other_threads_are_not_charged_but_collections_are() -> None:
    log = Log(end=400)
    log.add_steps(100, 200, 300)
    log.add_mark("checkpoint", 210, 220, thread=9)
    log.add_mark("collector", 230, 240, thread=9)
    assert run_leaves(log) == {"set-up": 100, "step": 190, "collector": 10, "tear-down": 100}


def two_workers() -> list[Log]:
    """Return a loader whose two workers each make one batch of two, the second one late."""
    log = Log(end=400)
    log.add_steps(100, 200, 300)
    log.add_mark("iter", 90, 101, subject=0)
    for position, worker in ((0, 0), (1, 1)):
        log.add_mark("dispatch", 100 + position, value=position << 16 | worker)
    log.add_mark("dispatch", 150, value=2 << 16 | 0)
    log.add_mark("next", 105, 130, value=0)
    log.add_mark("next", 140, 200, value=1)
    log.add_mark("next", 210, 290, value=2)
    first_worker = Log("worker", pid=11, worker=0, loader=0, start=95, end=300)
    first_worker.add_fetch(110, 128, sequence=0, read=6, decode=12)
    first_worker.add_fetch(240, 280, sequence=1, decode=30)
    second_worker = Log("worker", pid=12, worker=1, loader=0, start=95, end=300)
    second_worker.add_fetch(115, 195, sequence=0)
    return [log, first_worker, second_worker]


def pieces(*logs: Log) -> list[tuple[int, str, float, float]]:
    (waits,) = loader_waits(training(*logs))
    columns = waits.pieces
    return [
        (wait, RUN_LEAVES[leaf].removeprefix("data."), start / MS, end / MS)
        for wait, leaf, start, end in zip(
            columns.wait.tolist(),
            columns.leaf.tolist(),
            columns.start.tolist(),
            columns.end.tolist(),
            strict=True,
        )
    ]


def test_waits_are_cut_by_what_the_batch_was_waiting_for() -> None:
    all_pieces = pieces(*two_workers())
    assert [piece for piece in all_pieces if piece[0] == 0] == [
        (0, "start-up", 105, 110),
        (0, "read", 110, 116),
        (0, "decode", 116, 128),
        (0, "hand-over", 128, 130),
    ]
    assert [piece for piece in all_pieces if piece[0] == 2] == [
        (2, "queue", 210, 240),
        (2, "decode", 240, 270),
        (2, "other", 270, 280),
        (2, "hand-over", 280, 290),
    ]


def test_a_fetch_without_stages_is_parted_as_the_others_of_its_loader() -> None:
    second = [piece for piece in pieces(*two_workers()) if piece[0] == 1]
    assert [leaf for _, leaf, _, _ in second] == ["read", "decode", "other", "hand-over"]
    read_ns, decode_ns, other_ns = (end - start for _, _, start, end in second[:3])
    assert (read_ns, decode_ns, other_ns) == pytest.approx(
        (55 * 6 / 58, 55 * 42 / 58, 55 * 10 / 58)
    )


def test_a_wait_for_a_batch_behind_another_is_charged_to_the_stages_of_that() -> None:
    log = Log(end=400)
    log.add_steps(100, 200, 300)
    log.add_mark("iter", 90, 101)
    for position in (0, 1):
        log.add_mark("dispatch", 100, value=position << 16)
    log.add_mark("next", 110, 190, value=1)
    worker = Log("worker", pid=11, worker=0, loader=0, start=95, end=300)
    worker.add_fetch(105, 140, sequence=0, read=35)
    worker.add_fetch(140, 180, sequence=1, decode=40)
    log.add_mark("pin", 181, 189, value=1, thread=5)
    assert pieces(log, worker) == [
        (0, "read", 110, 140),
        (0, "decode", 140, 180),
        (0, "hand-over", 180, 181),
        (0, "pin", 181, 189),
        (0, "hand-over", 189, 190),
    ]


def test_a_batch_that_was_not_dispatched_in_time_waits_for_that() -> None:
    log = Log(end=400)
    log.add_steps(100, 200, 300)
    log.add_mark("iter", 90, 101)
    log.add_mark("dispatch", 100, value=0)
    log.add_mark("dispatch", 150, value=1 << 16)
    log.add_mark("next", 120, 190, value=1)
    worker = Log("worker", pid=11, worker=0, loader=0, start=95, end=300)
    worker.add_fetch(101, 110, sequence=0, read=9)
    worker.add_fetch(160, 185, sequence=1, read=25)
    assert pieces(log, worker) == [
        (0, "dispatch", 120, 150),
        (0, "queue", 150, 160),
        (0, "read", 160, 185),
        (0, "hand-over", 185, 190),
    ]


def test_the_training_process_chooses_before_it_fetches_and_nobody_tells_it_to() -> None:
    log = Log(end=400)
    log.add_steps(100, 200, 300)
    log.add_mark("iter", 90, 101)
    log.add_mark("next", 110, 150, value=0)
    log.add_fetch(130, 148, worker=-1, read=18)
    assert pieces(log) == [
        (0, "other", 110, 130),
        (0, "read", 130, 148),
        (0, "hand-over", 148, 150),
    ]


def test_a_sampler_that_takes_long_is_charged_what_it_took_whoever_makes_the_batches() -> None:
    log = Log(end=400)
    log.add_steps(100, 200, 300)
    log.add_mark("iter", 90, 101)
    log.add_mark("next", 110, 160, value=0)
    log.add_mark("sampler", 112, 130)
    log.add_fetch(131, 148, worker=-1, read=17)
    assert pieces(log) == [
        (0, "other", 110, 112),
        (0, "sampler", 112, 130),
        (0, "other", 130, 131),
        (0, "read", 131, 148),
        (0, "hand-over", 148, 160),
    ]


def test_a_sampler_beside_workers_is_charged_what_follows_the_fetch() -> None:
    log = Log(end=400)
    log.add_steps(100, 200, 300)
    log.add_mark("iter", 90, 101)
    log.add_mark("dispatch", 100, value=0)
    log.add_mark("next", 110, 190, value=0)
    log.add_mark("dispatch", 145, 188, value=1 << 16)
    log.add_mark("sampler", 146, 186)
    worker = Log("worker", pid=11, worker=0, loader=0, start=95, end=300)
    worker.add_fetch(105, 140, sequence=0, read=35)
    assert pieces(log, worker) == [
        (0, "read", 110, 140),
        (0, "hand-over", 140, 146),
        (0, "sampler", 146, 186),
        (0, "hand-over", 186, 190),
    ]


def test_the_first_wait_of_an_iteration_tells_nothing_of_the_others() -> None:
    log = Log(end=600)
    log.add_steps(100, 200, 300, 400, 500)
    log.add_mark("iter", 90, 101)
    for start in (110, 210, 310):
        log.add_mark("next", start, start + 40, value=start // 100 - 1)
    log.add_fetch(130, 150, worker=-1, sequence=0, read=20)
    assert pieces(log)[-2:] == [(2, "read", 310, 330), (2, "other", 330, 350)]
    log.add_fetch(210, 250, worker=-1, sequence=1, read=40)
    assert pieces(log)[-1] == (2, "read", 310, 350)


def test_workers_of_the_next_epoch_are_counted_anew() -> None:
    log = Log(end=600)
    log.add_steps(100, 200, 300, 400, 500)
    workers: list[Log] = []
    for epoch in (0, 1):
        start = 200 * epoch
        log.add_mark("iter", start + 100, start + 105)
        log.add_mark("dispatch", start + 104, value=0)
        log.add_mark("next", start + 110, start + 150, value=0)
        workers.append(
            Log("worker", pid=20 + epoch, worker=0, loader=0, start=start + 101, end=start + 190)
        )
        workers[-1].add_fetch(start + 120, start + 150, sequence=0, read=30)
    assert pieces(log, *workers) == [
        (0, "start-up", 110, 120),
        (0, "read", 120, 150),
        (1, "start-up", 310, 320),
        (1, "read", 320, 350),
    ]


def test_a_batch_made_by_nobody_known_is_unstaged_or_main() -> None:
    log = Log(end=400)
    log.add_steps(100, 200, 300)
    log.add_mark("next", 110, 150, value=0)
    assert [leaf for _, leaf, _, _ in pieces(log)] == ["unstaged"]
    log.add_fact("loader", 0, None, num_workers=0)
    assert [leaf for _, leaf, _, _ in pieces(log)] == ["main"]


def test_steps_outside_windows_are_counted_and_their_leaves_sum() -> None:
    log = Log(end=1000)
    log.add_steps(*range(100, 700, 100))
    log.add_mark("next", 110, 140, value=0)
    log.add_mark("next", 310, 390, value=1)
    log.add_mark("observer", 290, 395, value=wire.OBSERVER_WINDOW)
    training_process = training(log)
    rows = counted_steps(training_process)
    assert rows.tolist() == [True, False, False, True, True]
    step_leaves = charge_training(training_process, loader_waits(training_process)).step_leaves
    assert in_ms(step_leaves) == {"data.unstaged": 30, "step": 270}


def test_a_step_in_which_a_window_was_merely_saved_is_counted_and_pays_for_that() -> None:
    log = Log(end=1000)
    log.add_steps(100, 200, 300)
    log.add_mark("observer", 250, 255, value=wire.OBSERVER_SAVED)
    training_process = training(log)
    assert counted_steps(training_process).all()
    assert in_ms(charge_training(training_process, loader_waits(training_process)).step_leaves) == {
        "observer": 5,
        "step": 195,
    }


def test_without_an_unprofiled_step_all_are_counted() -> None:
    log = Log()
    log.add_steps(100, 200, 300)
    log.add_mark("user-profiler", 50, 400)
    assert counted_steps(training(log)).all()


def test_a_backlog_hides_the_start_of_each_wait() -> None:
    log = Log()
    log.add_steps(100, 200, 300)
    log.add_mark("next", 110, 140, value=0)
    log.add_mark("next", 210, 215, value=1)
    training_process = training(log)
    assert in_ms(
        exposed_leaves(charge_training(training_process, loader_waits(training_process)), 10 * MS)
    ) == {"data.unstaged": 20, "step": 180}


def test_without_a_window_the_step_is_one_part() -> None:
    account = step_account(StepTotals(2, 200, {"step": 150, "data.read": 50}, {}), None)
    assert account.account.leaves == {"idle.data.read": 50, "step": 150}
    assert account.account.groups["step"] == 150
    assert account.refined_by == 0


def test_noise_needs_fifty_steps_and_is_small_for_even_ones() -> None:
    even = np.full(60, 100, np.int64)
    assert estimate_noise(even[:49], None) is None
    assert estimate_noise(even, None) == 0.0
    rough = np.random.default_rng(1).integers(50, 150, 200)
    assert 0.0 < (estimate_noise(rough, None) or 0.0) < 0.2


def windows(backlog: int | None = None, **leaves: int) -> Study:
    """Return the study of windows: one row on a device (or, with cpu=1, of the training thread)."""
    device = None if leaves.pop("cpu", 0) else 0
    leaves_ns = {name.replace("__", "."): ns for name, ns in leaves.items()}
    wall = sum(leaves_ns.values())
    row = RowAccount(Row(0, device, 1, 0, wall, left_out=False), leaves_ns, {})
    leaves_by_group: dict[str, dict[str, int]] = {}
    for leaf, ns in leaves_ns.items():
        leaves_by_group.setdefault(group_of(leaf), {})[leaf] = ns
    groups = {group: sum(below.values()) for group, below in leaves_by_group.items()}
    return Study(
        run=RunInfo(("w.json",), (0,), None, "GPU", ()),
        health=StudyHealth("kineto", 1, 0, 0, False, 1, None, 0, (), ()),  # noqa: FBT003
        steps=None,
        account=Account(wall, 1, leaves_ns, groups, leaves_by_group, (row,)),
        tables=EMPTY_TABLES,
        backlog_ns=backlog,
    )


def account_steps(study: Study, steps: int = 2, **exposed: int) -> StepAccount:
    leaves = {name.replace("__", "."): ns for name, ns in exposed.items()}
    return step_account(StepTotals(steps, sum(leaves.values()), leaves, leaves), study)


def test_a_devices_work_keeps_its_length_and_the_host_gets_what_is_left() -> None:
    account = account_steps(
        windows(busy__math=30, copy__d2h=5, idle__host__python=40, idle__data__main=9),
        step=100,
        data__read=60,
    )
    assert account.account.leaves == {
        "busy.math": 60,
        "copy.d2h": 10,
        "idle.data.read": 60,
        "idle.host.python": 30,
    }
    assert (account.refined_by, account.on_device, account.excess_ns) == (1, True, 0)
    assert account.host_scale == 30 / 80


def test_a_wait_that_the_devices_work_leaves_no_room_for_costs_nothing() -> None:
    account = account_steps(windows(busy__math=95, idle__host__python=5), step=100, data__read=100)
    assert account.account.leaves == {"busy.math": 190, "idle.data.read": 10}
    assert account.hidden_ns == 90


def test_what_no_window_explains_is_unknown() -> None:
    account = account_steps(windows(busy__math=30, idle__host__python=10), step=200)
    assert account.account.leaves == {"busy.math": 60, "idle.host.python": 20, "idle.unknown": 120}
    assert account.excess_ns == 120


def test_lumps_are_those_of_the_run_not_of_the_window() -> None:
    account = account_steps(
        windows(busy__math=30, idle__gc=50, idle__io_main__checkpoint=70, idle__profiler=10),
        step=60,
        collector=4,
        checkpoint=6,
        observer=2,
        **{"epoch-turn": 8},
    )
    assert account.account.leaves == {
        "busy.math": 60,
        "idle.gc": 4,
        "idle.io_main.checkpoint": 6,
        "idle.profiler": 2,
        "idle.data.start-up": 8,
    }


def test_without_a_device_the_windows_part_the_step_in_proportion() -> None:
    account = account_steps(
        windows(cpu=1, busy__math=30, idle__host__python=10, idle__data__main=5),
        step=80,
        data__decode=20,
    )
    assert account.account.leaves == {
        "idle.data.decode": 20,
        "busy.math": 60,
        "idle.host.python": 20,
    }
    assert not account.on_device


@given(
    st.integers(0, 50), st.integers(0, 50), st.integers(0, 200), st.integers(0, 90), st.booleans()
)
def test_the_parts_of_a_step_always_sum_to_it(
    busy: int, host: int, step: int, data: int, cpu: bool
) -> None:
    if not step + data:
        return
    leaves = {"busy__math": busy, "idle__host__python": host, "idle__unknown": 1}
    account = account_steps(windows(**leaves, cpu=int(cpu)), 3, step=step, data__read=data)
    assert sum(account.account.groups.values()) == account.account.wall_ns == step + data
    assert account.hidden_ns >= 0


def test_an_idle_worker_stands_in_no_line() -> None:
    log = Log("worker", worker=0, loader=0)
    loop = ("site-packages/torch/utils/data/_utils/worker.py", 300, "_worker_loop")
    forks = ("train.py", 50, "main")
    waiting = ("multiprocessing/connection.py", 5, "poll")
    log.stacks.append(StackCount("worker", (waiting, loop, forks), 3))
    log.stacks.append(StackCount("worker", (("train.py", 7, "__getitem__"), loop, forks), 1))
    (line,) = hot_lines([log.to_process()])
    assert (line.line, line.function, line.share) == (7, "__getitem__", 0.25)


def test_short_fetches_that_passed_unrecorded_are_parted_as_the_others() -> None:
    log = Log(end=900)
    log.add_steps(100, 200, 300)
    log.add_fact("loader", 0, None, num_workers=0)
    for position, start in enumerate((110, 210, 310, 410)):
        log.add_mark("next", start, start + 20, value=position)
    log.add_fetch(110, 130, sequence=0, decode=15, collate=5)
    assert pieces(log)[2:4] == [(1, "decode", 210, 225), (1, "collate", 225, 230)]


def test_a_worker_that_records_one_fetch_in_several_is_not_called_idle_between() -> None:
    log, worker, _ = two_workers()
    worker.add_fetch(290, 299, sequence=7, decode=9)
    assert next(leaf for wait, leaf, _, _ in pieces(log, worker) if wait == 2) == "unstaged"
    use = worker_use([(log.to_process(), 0)], [(worker.to_process(), 0)], 8)
    assert use is not None
    assert use.fetches == 3
    assert use.busy == pytest.approx((18 + 40 + 9) * 8 / 3 / 189)


def test_a_wait_for_workers_to_start_and_a_turn_of_epochs_are_both_in_the_account() -> None:
    leaves = {"data.start-up": 30, "epoch-turn": 20, "step": 50}
    account = step_account(StepTotals(1, 100, leaves, leaves), None)
    assert (account.account.leaves["idle.data.start-up"], account.account.leaves["step"]) == (
        50,
        50,
    )
    assert account.hidden_ns == 0


def test_clocks_that_overlap_give_no_more_than_the_whole() -> None:
    log = Log("worker", pid=20, worker=0, loader=0)
    log.add_fetch(0, 100, cpu=60 * MS, run_queue=60 * MS)
    use = worker_use([], [(log.to_process(), 0)], 1)
    assert use is not None
    assert (use.on_cpu, use.run_queue, use.blocked) == (0.5, 0.5, 0.0)


def test_a_child_that_only_writes_for_another_is_no_training() -> None:
    log, child = Log(end=900), Log(pid=77, end=900)
    log.add_steps(100, 200, 300)
    child.add_mark("observer", 10, 20)
    assert [
        training_process.process.pid for training_process in trainings(recording(log, child))
    ] == [10]
    assert [training_process.process.pid for training_process in trainings(recording(child))] == [
        77
    ]


def test_the_anchor_is_the_optimizer_called_least_in_the_later_half() -> None:
    log = Log(end=4000)
    log.add_steps(*range(400, 3000, 20), subject=2)
    log.add_steps(*range(505, 3000, 100), subject=3)
    anchor_edges = find_edges(log.to_process())
    assert (anchor_edges.rule, len(anchor_edges.ends)) == ("optimizer", 25)
    log.add_steps(*range(10, 400, 10), subject=1)  # a warm-up of its own
    log.add_fact("optimizer", 1, ("warm.py", 3), **{"class": "torch.optim.sgd.SGD"})
    anchor_edges = find_edges(log.to_process())
    assert len(anchor_edges.ends) == 39 + 25, (
        "a phase before, but not the other one's steps meanwhile"
    )
    assert anchor_edges.anchor == "SGD.step, warm.py:3, then an optimizer"


@pytest.mark.parametrize(
    ("kinds", "rule", "anchor"),
    [
        (("user-step", "step", "backward"), "mark", "gapless.step(), train.py:7"),
        (("step", "backward", "next"), "optimizer", "an optimizer"),
        (("backward", "next", "forward"), "backward", "the backward pass, train.py:7"),
        (("next", "forward"), "loader", "a loader"),
        (("forward",), "forward", "the forward pass of Net, train.py:9"),
    ],
)
def test_steps_are_those_of_the_first_kind_that_is_there(
    kinds: tuple[str, ...], rule: str, anchor: str
) -> None:
    log = Log(end=900)
    log.add_fact("site", 0, ("train.py", 7))
    log.add_fact("module", 0, ("train.py", 9), **{"class": "models.Net"})
    for start in range(100, 800, 100):
        for offset, kind in enumerate(kinds):
            log.add_mark(kind, start + offset, start + offset + 1)
    anchor_edges = find_edges(log.to_process())
    assert (anchor_edges.rule, anchor_edges.anchor, len(anchor_edges.ends)) == (rule, anchor, 7)
    assert anchor_edges.ends[0] == 101 * MS


def test_of_processes_without_ranks_the_one_that_trains_is_looked_at() -> None:
    parent, child = Log(end=4000, pid=1), Log(end=2000, pid=2)
    for start in range(100, 3900, 10):
        parent.add_mark("next", start, start + 5, value=0)
    child.add_steps(*range(100, 1900, 100))
    study = study_recording(recording(parent, child))
    assert study.recorded is not None
    assert study.recorded.steps is not None
    assert study.recorded.steps.count == 18


def test_without_an_optimizer_the_hand_overs_of_the_busiest_loader_are_steps() -> None:
    log = Log(end=900)
    for start in (100, 200, 300):
        log.add_mark("next", start, start + 10, value=0, subject=4)
    log.add_mark("next", 350, 351, value=0, subject=5)
    log.add_mark("next", 400, 410, flags=wire.EXHAUSTED, subject=4)
    anchor_edges = find_edges(log.to_process())
    assert (anchor_edges.rule, [end // MS for end in anchor_edges.ends.tolist()]) == (
        "loader",
        [110, 210, 310],
    )


@pytest.mark.parametrize(("batches", "rule"), [(199, "optimizer"), (200, "loader")])
def test_an_optimizer_that_stopped_before_its_fifth_step_anchors_nothing(
    batches: int, rule: str
) -> None:
    log = Log(end=9000)
    log.add_steps(10, 20, 30, 40)  # the rest is replayed by a CUDA graph
    for index in range(batches):
        log.add_mark("next", 100 + 10 * index, 105 + 10 * index, value=index, subject=4)
    assert find_edges(log.to_process()).rule == rule


def test_without_either_there_are_no_steps() -> None:
    log = Log(end=900)
    log.add_mark("iter", 10, 20)
    assert find_edges(log.to_process()).rule == "none"
    assert study_recording(recording(log)).recorded is not None


def test_steps_are_told_from_those_of_other_threads() -> None:
    log = Log(end=900)
    log.add_steps(100, 200, 300, 400, 500)
    log.add_mark("step", 250, 260, thread=9)
    assert len(find_edges(log.to_process()).ends) == 5


def test_parts_that_are_more_than_the_whole_are_refused() -> None:
    with pytest.raises(AssertionError, match="steps of 10 ns"):
        step_account(StepTotals(1, 10, {"data.read": 20}, {}), None)
    charges = charge_training(training(Log(end=400)), ())
    empty = replace(charges, row=replace(charges.row, end=charges.row.start))
    with pytest.raises(AssertionError, match="lives of 400000000 ns sum to 0 ns"):
        timeline([empty])


def test_an_optimizer_that_was_not_described_is_still_an_anchor() -> None:
    log = Log(end=900)
    log.add_steps(100, 200, 300, subject=8)
    assert find_edges(log.to_process()).anchor == "an optimizer"
    log.add_fact("optimizer", 8, None, **{"class": "torch.optim.adamw.AdamW"})
    assert find_edges(log.to_process()).anchor == "AdamW.step"


def test_an_anchor_is_shown_at_the_line_that_calls_it() -> None:
    log = Log(end=2000)
    log.add_steps(*range(100, 600, 100), subject=1)
    log.add_fact("optimizer", 1, ("train.py", 9), **{"class": "SGD", "stepped_at": ("loop.py", 40)})
    assert find_edges(log.to_process()).anchor == "SGD.step, loop.py:40"
    log.add_steps(*range(600, 1100, 100), subject=2)
    log.add_fact("optimizer", 2, ("train.py", 10), **{"class": "SGD", "stepped_at": ("fit.py", 7)})
    assert find_edges(log.to_process()).anchor == "SGD.step, loop.py:40, then SGD.step, fit.py:7"


def test_phases_that_one_line_steps_are_shown_where_they_were_made() -> None:
    log = Log(end=2000)
    for subject, line in ((1, 9), (2, 10)):
        first = 100 + 500 * (subject - 1)
        log.add_steps(*range(first, first + 500, 100), subject=subject)
        values = {"class": "SGD", "stepped_at": ("loop.py", 40)}
        log.add_fact("optimizer", subject, ("train.py", line), **values)
    edges = find_edges(log.to_process())
    assert edges.anchor == "SGD.step, train.py:9, then SGD.step, train.py:10"
    assert [count for _, count, _ in edges.phases] == [5, 5]


def test_steps_of_no_length_are_none() -> None:
    log = Log(end=900)
    log.add_steps(100, 100)
    recorded = study_recording(recording(log)).recorded
    assert recorded is not None
    assert recorded.steps is None


def test_calls_that_raised_end_no_step() -> None:
    log = Log(end=900)
    log.add_steps(100, 200, 300)
    log.add_mark("step", 350, 360, flags=wire.RAISED)
    assert len(find_edges(log.to_process()).ends) == 3


def test_fetches_without_samples_have_no_cost_a_sample() -> None:
    log = Log(end=900)
    log.add_fetch(10, 20, samples=-1, cpu=5, decode=5)
    use = worker_use([(log.to_process(), 0)], [], 1)
    assert use is not None
    assert (use.samples, use.cpu_per_sample_ns, use.stages) == (None, None, ())


def test_rates_of_ranks_add_up_and_need_every_rank() -> None:
    logs = [Log(rank=rank, pid=10 + rank, end=1000) for rank in (0, 1)]
    for log in logs:
        log.add_fact("loader", 0, None, num_workers=0, batch_size=5)
        for start in range(100, 600, 100):
            log.add_mark("next", start, start + 20, value=start // 100)
            log.add_steps(start + 100)
    recorded = study_recording(recording(*logs)).recorded
    assert recorded is not None
    assert recorded.steps is not None
    assert recorded.steps.samples_per_s == pytest.approx(100)
    logs[1].facts.clear()
    recorded = study_recording(recording(*logs)).recorded
    assert recorded is not None
    assert recorded.steps is not None
    assert recorded.steps.samples_per_s is None


def test_batches_that_the_data_set_makes_itself_have_no_rate_of_samples() -> None:
    log = Log(end=1000)
    log.add_fact("loader", 0, None, num_workers=0, batch_size=None)
    for start in range(100, 600, 100):
        log.add_fetch(start, start + 20, samples=1)
        log.add_mark("next", start, start + 20, value=start // 100)
        log.add_steps(start + 100)
    recorded = study_recording(recording(log)).recorded
    assert recorded is not None
    assert recorded.steps is not None
    assert recorded.steps.samples_per_s is None


def test_lumps_of_a_run_say_how_surely_they_are_known() -> None:
    def spread(*lengths: float, interval: int = 10) -> dict[str, float]:
        return spreads(_checkpoints(*lengths, interval=interval))

    (leaf, even), *remaining = spread(4, 4, 4, 4, 4).items()
    assert (leaf, remaining) == ("idle.io_main.checkpoint", [])
    assert even == pytest.approx(2.13 * 0.1, rel=0.01)  # their count alone is uncertain
    assert spread(2, 4, 6, 3, 5)[leaf] == pytest.approx(2.13 * np.hypot(0.1, 0.1768), rel=0.01)
    assert spread(*[4] * 16, interval=5)[leaf] < even / 3
    assert spread(*[4] * 5, interval=2)[leaf] == 1.0  # all in a fifth of the run
    assert spread(4)[leaf] == spread(4, 4)[leaf] == 1.0  # they may never come back


def _checkpoints(*lengths: float, first_step: int = 10, interval: int = 5) -> dict[str, Occasions]:
    """Return checkpoints of 99 steps, each in one of them."""
    log = Log()
    log.add_steps(*range(10, 1000, 10))
    for index, length in enumerate(lengths):
        start = 10 * first_step + 10 * interval * index + 1
        log.add_mark("checkpoint", start, start + length)
    training_process = training(log, ended_ms=1200)
    return find_occasions(charge_training(training_process, loader_waits(training_process)), 0)


def test_a_period_takes_two_whole_intervals() -> None:
    def period(*lengths: float, first_step: int, interval: int) -> float | None:
        (sighting,) = sightings(
            _checkpoints(*lengths, first_step=first_step, interval=interval)
        ).values()
        return sighting.period

    assert period(4, first_step=1, interval=1) is None  # nor is it the length of the recording
    assert period(4, 4, first_step=1, interval=40) is None
    assert period(4, 4, 4, first_step=1, interval=40) == 40
    assert (
        period(4, 4, first_step=40, interval=40) == 40
    )  # the first came as long after the beginning
    assert period(4, 4, first_step=10, interval=40) is None
    assert period(4, 4, 4, first_step=2, interval=2) is None  # and then for 90 steps no more
    assert period(4, 4, 4, first_step=88, interval=2) is None


def test_what_is_seen_before_the_second_step_alone_is_no_evaluation_of_the_loop() -> None:
    (sighting,) = sightings(_checkpoints(4, first_step=1)).values()
    assert (sighting.at_start, sighting.count, sighting.each_ns) == (True, 1, 4 * MS)
    (sighting,) = sightings(_checkpoints(4, first_step=20)).values()
    assert not sighting.at_start


def test_a_regular_lump_is_surely_known_from_three_on() -> None:
    (even_spread,) = spreads(_checkpoints(4, 4, 4, first_step=32, interval=32)).values()
    assert even_spread < 0.05
    (late_spread,) = spreads(_checkpoints(4, 4, 4, first_step=1, interval=40)).values()
    assert late_spread == pytest.approx(
        1 - 98 / 120, abs=0.02
    )  # three in 98 steps, where 40 lie between


def test_of_several_ranks_the_first_tells_how_often_something_comes() -> None:
    logs = [Log(rank=rank, pid=10 + rank, end=1000) for rank in (0, 1)]
    for log in logs:
        log.add_steps(*range(100, 1000, 10))
        log.add_mark("checkpoint", 101, 104)
    recorded = study_recording(recording(*logs)).recorded
    assert recorded is not None
    assert recorded.steps is not None
    (sighting,) = recorded.steps.sightings.values()
    assert (sighting.count, sighting.period, sighting.at_start) == (1, None, True)
    assert recorded.steps.spreads == {}
