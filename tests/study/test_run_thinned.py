"""Recordings of which only sums were kept of many stretches, beside the same with every mark."""

from collections import defaultdict

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from msgspec.structs import asdict, replace

from gapless import wire
from gapless.model.recording import Marks, Process, Recording, Sums
from gapless.model.run import RecordedRun
from gapless.recorded.loaders.waits import loader_waits
from gapless.recorded.loaders.workers import worker_use
from gapless.recorded.steps.rows import charge_training, exposed_leaves
from gapless.recorded.training.edges import find_edges, logging_period
from gapless.recorded.training.processes import counted_steps, trainings
from gapless.study import study_recording
from tests.study.recording import KINDS, MS, Log, recording

CHARGED = ("observer", "collector", "next", "iter", "close", "checkpoint", "logging")


def life(*logs: Log, backlog: float = 0) -> dict[str, float]:
    training = trainings(recording(*logs))[0]
    row = charge_training(training, loader_waits(training))
    leaves_ns = exposed_leaves(row, round(backlog * MS)) if backlog else row.row.sum_by_leaf()
    return {leaf: ns / MS for leaf, ns in leaves_ns.items()}


def study_run(*logs: Log) -> RecordedRun:
    recorded = study_recording(recording(*logs)).recorded
    assert recorded is not None
    return recorded


# ── By hand ─────────────────────────────────────────────────────────────────────────────────────


def log_with_sums() -> Log:
    """Return a run with steps of 10 ms: some noted, 40 in two stretches, some noted."""
    log = Log(end=1000)
    log.add_fact("loader", 0, None, num_workers=0, batch_size=4)
    log.add_steps(*range(100, 151, 10))
    log.add_mark("next", 101, 104, value=0)
    log.add_mark("next", 111, 114, value=1)
    log.add_mark("logging", 115, 117)
    for stretch in ((150, 350), (350, 550)):
        log.add_mark_sum("step", stretch, 20, total=20)
        log.add_mark_sum("next", stretch, 20, total=60, longest=9)
        log.add_mark_sum("logging", stretch, 2, total=4)
    log.add_mark("collector", 200, 205, value=2)
    log.add_steps(*range(560, 591, 10))
    return log


def test_a_stretch_is_charged_by_its_sums_and_the_rest_of_it_is_steps() -> None:
    assert life(log_with_sums()) == {
        "set-up": 100,
        "collector": 5,
        "data.main": 126,
        "logging": 10,
        "step": 349,
        "tear-down": 410,
    }


def test_steps_that_were_summed_are_counted_and_none_is_formed_across_them() -> None:
    run = study_run(log_with_sums())
    assert run.steps is not None
    assert (run.steps.count, run.steps.regular, run.steps.noted) == (50, 49, 8)
    assert (run.steps.mean_ns, run.steps.median_ns) == (10 * MS, 10 * MS)
    assert run.steps.p90_ns == 10 * MS
    (process,) = run.timeline.processes
    assert (process.steps, process.mean_ns, process.median_ns) == (50, 10 * MS, 10 * MS)
    assert run.account is not None
    assert (run.account.account.steps, run.account.account.wall_ns) == (49, 490 * MS)
    assert run.steps.samples_per_s == pytest.approx(42 * 4 / 0.49)


def test_waits_that_were_summed_are_waits_of_their_loader() -> None:
    (loader,) = study_run(log_with_sums()).loaders
    assert (loader.waits, loader.wait_ns, loader.longest_ns) == (42, 126 * MS, 9 * MS)
    assert loader.share == pytest.approx(126 / 490)
    assert loader.mean_ns == 3 * MS
    assert sum(loader.stages.values()) == loader.wait_ns


def test_a_backlog_hides_as_much_of_summed_waits_as_of_kept_ones() -> None:
    # Of kept waits of 3 ms it hides 2, of logging of 2 ms all, of the collector's 5 ms 2.
    assert life(log_with_sums(), backlog=2) == {"collector": 3, "data.main": 42, "step": 445}


def test_a_backlog_hides_so_much_of_each_wait_where_none_was_kept() -> None:
    log = Log(end=1000)
    log.add_steps(100, 200, 600)
    log.add_mark_sum("next", (200, 500), 10, total=100)
    log.add_mark_sum("step", (200, 500), 10, total=10)
    log.add_mark_sum("logging", (200, 500), 2, total=50)
    assert life(log, backlog=4) == {"data.unstaged": 60, "logging": 42, "step": 398}


def test_parts_of_a_stretch_are_never_more_than_it() -> None:
    log = Log(end=1000)
    log.add_steps(100, 200, 300)
    log.add_mark_sum("next", (200, 260), 5, total=90)
    log.add_mark_sum("step", (200, 260), 3, total=3)
    log.add_mark_sum("collector", (200, 260), 3, total=30, thread=7)
    log.add_mark("checkpoint", 205, 215)
    assert life(log) == {
        "set-up": 100,
        "collector": 30,
        "data.unstaged": 20,
        "checkpoint": 10,
        "step": 140,
        "tear-down": 700,
    }


def test_a_summed_end_of_an_iteration_is_an_epoch_turn_and_other_threads_are_not_charged() -> None:
    log = Log(end=1000)
    log.add_steps(100, 200, 500)
    log.add_mark_sum("step", (200, 400), 9, total=9)
    log.add_mark_sum("next", (200, 400), 4, total=8, flags=wire.EXHAUSTED)
    log.add_mark_sum("iter", (200, 400), 4, total=12)
    log.add_mark_sum("next", (200, 400), 40, total=80, thread=8)
    log.add_mark_sum("checkpoint", (200, 400), 1, total=50, thread=8)
    assert life(log) == {"set-up": 100, "epoch-turn": 20, "step": 380, "tear-down": 500}
    (loader,) = study_run(log).loaders or (None,)
    assert loader is not None
    assert (loader.waits, loader.iterations, loader.restart_ns) == (0, 4, 12 * MS)


def test_summed_calls_count_when_the_anchor_is_chosen() -> None:
    log = Log(end=2000)
    log.add_steps(100, 200, 300, 700, 800, subject=1)
    log.add_steps(105, 205, 305, 705, 805, subject=2)
    log.add_mark_sum("step", (305, 650), 30, subject=1)
    log.add_mark_sum("step", (305, 650), 60, subject=2)
    anchor_edges = find_edges(log.to_process())
    assert (anchor_edges.count, anchor_edges.step_counts.tolist()) == (35, [1, 1, 31, 1])
    assert anchor_edges.is_single.tolist() == [True, True, False, True]
    assert [end // MS for end in anchor_edges.ends.tolist()] == [100, 200, 300, 700, 800]


def test_a_stretch_at_the_end_ends_the_last_step() -> None:
    log = Log(end=2000)
    log.add_steps(100, 200, 300)
    log.add_mark_sum("step", (300, 500), 2)
    anchor_edges = find_edges(log.to_process())
    assert (anchor_edges.count, anchor_edges.step_counts.tolist()) == (5, [1, 1, 2])
    assert int(anchor_edges.ends[-1]) == 500 * MS
    assert life(log) == {"set-up": 100, "step": 400, "tear-down": 1500}


def test_steps_before_the_first_kept_one_are_counted_and_belong_to_set_up() -> None:
    log = Log(end=900)
    log.add_mark_sum("step", (50, 100), 4)
    log.add_steps(200, 300)
    log.add_mark_sum("next", (50, 100), 4, total=4)
    log.add_mark("next", 150, 160, value=4)
    anchor_edges = find_edges(log.to_process())
    assert (anchor_edges.count, anchor_edges.step_counts.tolist()) == (6, [1])
    assert life(log)["set-up"] == 200 - 14
    (process,) = study_run(log).timeline.processes
    assert (process.first_step_ns, process.first_batch_ns, process.to_first_batch_ns) == (None,) * 3


def test_a_run_of_sums_alone_has_a_mean_step() -> None:
    log = Log(end=900)
    log.add_mark_sum("step", (100, 300), 20)
    log.add_mark_sum("step", (300, 500), 20)
    run = study_run(log)
    assert run.steps is not None
    assert (run.steps.count, run.steps.noted, run.steps.mean_ns) == (40, 0, 10 * MS)
    assert run.timeline.processes[0].first_step_ns is None


def test_hand_overs_that_were_summed_are_steps_where_no_optimizer_was_seen() -> None:
    log = Log(end=900)
    for start in (100, 200, 300):
        log.add_mark("next", start, start + 10, value=start // 100)
    log.add_mark_sum("next", (310, 600), 8, total=16)
    log.add_mark_sum("next", (310, 600), 1, total=16, flags=wire.EXHAUSTED)
    log.add_mark("next", 690, 700, value=12)
    anchor_edges = find_edges(log.to_process())
    assert (anchor_edges.rule, anchor_edges.count, anchor_edges.step_counts.tolist()) == (
        "loader",
        12,
        [1, 1, 9],
    )


def test_an_evaluation_in_which_some_step_was_summed_is_none() -> None:
    log = Log(end=900)
    log.add_steps(100, 200, 700, 800)
    log.add_mark("mode", 210, value=0)
    log.add_mark("mode", 500, value=1)
    log.add_mark("mode", 710, value=0)
    log.add_mark("mode", 730, value=1)
    log.add_mark_sum("next", (215, 400), 8, total=80)
    assert life(log)["evaluation"] == 290 + 20  # with the waits for its own batches
    log.add_mark_sum("step", (400, 650), 8)  # after the model was told to train, at 500
    assert life(log)["evaluation"] == 290 + 20
    log.add_mark_sum("step", (215, 400), 8)
    assert life(log)["evaluation"] == 20


def test_a_window_in_a_stretch_leaves_its_steps_uncounted() -> None:
    log = log_with_sums()
    log.add_mark("observer", 300, 310, value=wire.OBSERVER_WINDOW)
    training = trainings(recording(log))[0]
    assert counted_steps(training).tolist() == [True] * 5 + [False] + [True] * 3
    steps = study_run(log).steps
    assert steps is not None
    assert (steps.count, steps.regular) == (50, 8)


def test_calls_of_a_logger_that_were_summed_lie_in_no_period() -> None:
    log = Log(end=1000)
    log.add_steps(*range(100, 200, 10))
    log.add_mark_sum("step", (190, 400), 50)
    log.add_steps(*range(410, 500, 10))
    for start in (105, 145, 185, 425):
        log.add_mark("logging", start, start + 1)
    process = log.to_process()
    assert logging_period(process, find_edges(process)) == 4


# ── Loaders with workers ────────────────────────────────────────────────────────────────────────


def pool_logs(sums: float | None = None) -> list[Log]:
    """Return a loader of two workers, of whose eight batches the middle four may be summed."""
    log = Log(end=1000)
    log.add_steps(*range(100, 901, 100))
    log.add_fact("loader", 0, None, num_workers=2)
    log.add_mark("iter", 10, 12)
    workers = [Log("worker", pid=20 + index, worker=index, loader=0, start=5) for index in (0, 1)]
    for position in range(8):
        start = 110 + 100 * position
        workers[position % 2].add_fetch(
            start + 5, start + 45, sequence=position // 2, decode=30, collate=10, cpu=20 * MS
        )
        log.add_mark("dispatch", start, value=position << 16 | position % 2)
        log.add_mark("next", start + 1, start + 50, value=position)
    if sums is not None:
        stretch = (300, 700)
        dropped_marks = [mark for mark in log.marks if 300 * MS < mark[5] <= 700 * MS]
        log.marks = [mark for mark in log.marks if mark not in dropped_marks]
        for kind, total in (("step", 4), ("next", 4 * 49), ("dispatch", 0)):
            log.add_mark_sum(kind, stretch, 4, total=total, longest=total / 4)
        for worker in workers:
            dropped_rows = [row for row in worker.rows if 300 * MS < row["end"] < 700 * MS]
            worker.rows = [row for row in worker.rows if row not in dropped_rows]
            span = dropped_rows[0]["start"] / MS, dropped_rows[-1]["end"] / MS
            worker.add_fetch_sum(span, 2, 80, cpu=40 * MS, decode=60, collate=20)
    return [log, *workers]


def test_batches_after_a_gap_are_matched_where_workers_take_turns() -> None:
    full_waits, thinned_waits = (
        loader_waits(trainings(recording(*pool_logs(sums)))[0])[0] for sums in (None, 1)
    )
    assert (len(full_waits.start), len(thinned_waits.start)) == (8, 4)
    last_pieces = [
        [(waits.pieces.leaf[row], waits.pieces.start[row]) for row in np.flatnonzero(is_last)]
        for waits in (full_waits, thinned_waits)
        for is_last in [waits.pieces.wait == len(waits.start) - 1]
    ]
    assert last_pieces[0] == last_pieces[1]
    full_leaves, thinned_leaves = life(*pool_logs()), life(*pool_logs(1))
    for leaves in (
        full_leaves,
        thinned_leaves,
    ):  # the workers' first fetches are shared out among the summed
        leaves["data.queue"] += leaves.pop("data.start-up")
    assert full_leaves == pytest.approx(thinned_leaves)


def test_batches_after_a_gap_are_matched_by_nobody_where_workers_took_no_turns() -> None:
    log, *workers = pool_logs(1)
    log.add_mark("dispatch", 901, value=8 << 16 | 1)  # the second time in a row
    waits = loader_waits(trainings(recording(log, *workers))[0])[0]
    leaves_after = {int(leaf) for leaf in waits.pieces.leaf[waits.pieces.wait >= 2]}
    leaves_before = {int(leaf) for leaf in waits.pieces.leaf[waits.pieces.wait < 2]}
    assert leaves_after <= leaves_before  # shared out as those before the gap


def test_a_wait_for_a_worker_whose_fetches_were_summed_is_shared_out_as_others() -> None:
    log, *workers = pool_logs()
    worker = workers[0]
    worker.rows[1]["decode_wall"], worker.rows[1]["collate_wall"] = 0, 40 * MS
    noted_leaves = life(log, *workers)
    fetch_row = worker.rows.pop(1)
    worker.add_fetch_sum((fetch_row["start"] / MS, fetch_row["end"] / MS), 1, 40)
    summed_leaves = life(log, *workers)
    assert summed_leaves["data.decode"] > noted_leaves["data.decode"]
    assert sum(summed_leaves.values()) == sum(noted_leaves.values())
    assert summed_leaves["data.hand-over"] == pytest.approx(noted_leaves["data.hand-over"])


def test_iterations_that_were_summed_do_not_mix_their_batches() -> None:
    log, *workers = pool_logs(1)
    log.add_mark_sum("iter", (300, 700), 1, total=1)
    for worker in workers:  # positions and sequences begin anew in the stretch
        for row in worker.rows[1:]:
            row["sequence"] -= 1
    restarted = [mark for mark in log.marks if mark[4] > 700 * MS and mark[6] >= 0]
    log.marks = [mark for mark in log.marks if mark not in restarted]
    for kind, flags, subject, thread, start, end, value in restarted:
        offset = 2 << 16 if kind == KINDS["dispatch"] else 2
        log.marks.append((kind, flags, subject, thread, start, end, value - offset))
    waits = loader_waits(trainings(recording(log, *workers))[0])[0]
    assert waits.is_first.tolist() == [True, False, False, False]
    assert life(log, *workers)["data.decode"] == pytest.approx(life(*pool_logs())["data.decode"])


def test_workers_are_described_by_all_that_they_fetched() -> None:
    full_use, thinned_use = (
        worker_use([], [(log.to_process(), 0) for log in pool_logs(sums)[1:]], 8)
        for sums in (None, 1)
    )
    assert full_use is not None
    assert thinned_use is not None
    assert thinned_use == full_use
    assert (full_use.fetches, full_use.staged, full_use.fetch_median_ns) == (8, 8, 40 * MS)


def test_workers_that_record_one_fetch_in_several_are_as_busy_between_gaps() -> None:
    log = Log("worker", pid=20, worker=0, loader=0)
    for sequence in (0, 4, 8):
        log.add_fetch(100 + 10 * sequence, 105 + 10 * sequence, sequence=sequence)
    log.add_fetch_sum((200, 300), 3, 15)
    log.add_fetch(300, 305, sequence=60)
    use = worker_use([], [(log.to_process(), 0)], 4 * 7)
    assert use is not None
    assert use.busy == pytest.approx((4 * 5 + 15) * 4 / 205)


def test_workers_of_whose_fetches_only_sums_were_kept_have_no_median() -> None:
    log = Log("worker", pid=20, worker=0, loader=0)
    log.add_fetch_sum((100, 200), 10, 50, random=1, looked=2)
    use = worker_use([], [(log.to_process(), 0)], 10)
    assert use is not None
    assert (use.fetches, use.fetch_median_ns, use.busy) == (10, None, 0.5)
    assert (use.random, use.on_cpu, use.stages) == (True, None, ())
    run = study_run(Log(), log)
    assert run.loaders == ()


# ── Any run, thinned here ───────────────────────────────────────────────────────────────────────


def thin_process(process: Process, stretches: list[tuple[int, int]], rare: set[str]) -> Process:
    """Sum the marks that end in some stretches, but for those of rare kinds."""
    rows = sorted(
        zip(*(asdict(process.marks)[name].tolist() for name in wire.MARK_FIELDS), strict=True),
        key=lambda row: (row[5], -row[4]),
    )
    kept_rows, sums = list[tuple[int, ...]](), list[list[int]]()
    own_ns = exclusive_lengths(rows)
    next_row = 0
    for start, end in stretches:
        inside = [n for n, row in enumerate(rows) if start < row[5] <= end]
        dropped = [n for n in inside if wire.MARKS_NAMES[rows[n][0]] not in rare]
        earlier_ends = [row[5] for row in rows if row[5] <= start]
        begin = max(earlier_ends, default=rows[dropped[0]][4] if dropped else start)
        groups = defaultdict[tuple[int, ...], list[int]](list)
        for n in dropped:
            groups[rows[n][:4]].append(n)
        over = max((rows[n][5] for n in inside), default=end)
        for key, members in groups.items():
            total = sum(own_ns[n] for n in members)
            longest = max(rows[n][5] - rows[n][4] for n in members)
            sums.append([*key, begin, over, len(members), total, longest, -1])
        kept_rows += rows[next_row : inside[0]] if inside else []
        kept_rows += [rows[n] for n in inside if n not in dropped]
        next_row = inside[-1] + 1 if inside else next_row
    kept_rows += rows[next_row:]
    table = np.array(kept_rows, np.int64).reshape(-1, 7)
    marks = Marks(**{name: table[:, n] for n, name in enumerate(wire.MARK_FIELDS)})
    columns = np.array(sums, np.int64).reshape(-1, len(wire.MARK_SUM_FIELDS))
    sum_columns = {name: columns[:, n] for n, name in enumerate(wire.MARK_SUM_FIELDS)}
    return replace(process, marks=marks, mark_sums=Sums(sum_columns))


def exclusive_lengths(rows: list[tuple[int, ...]]) -> list[int]:
    """Return the length of each mark less the charged ones directly inside."""
    is_charged = [wire.MARKS_NAMES[row[0]] in CHARGED for row in rows]
    lengths: list[int] = []
    for n, row in enumerate(rows):
        covered_ns = 0
        reach = row[4]
        nested = [
            nested_row
            for m, nested_row in enumerate(rows)
            if m != n and is_charged[m] and row[4] <= nested_row[4] and nested_row[5] <= row[5]
        ]
        for nested_row in sorted(nested, key=lambda mark_row: mark_row[4]):
            covered_ns += max(0, nested_row[5] - max(reach, nested_row[4]))
            reach = max(reach, nested_row[5])
        lengths.append(row[5] - row[4] - covered_ns)
    return lengths


MARK_KINDS = ("next", "collector", "checkpoint", "logging", "iter", "dispatch", "sync", "nothing")


@st.composite
def logs(draw: st.DrawFn) -> Log:
    """Draw a training: steps of several parts each, some of which hold a collection."""
    log = Log(end=None)
    for number in (0, 1):
        log.add_fact("optimizer", number, ("train.py", number))
    now_ms, position = 10, 0
    for _ in range(draw(st.integers(4, 25))):
        for _ in range(draw(st.integers(0, 3))):
            kind, length = draw(st.sampled_from(MARK_KINDS)), draw(st.integers(1, 9))
            if kind != "nothing":
                subject = draw(st.integers(0, 1)) if kind == "next" else 0
                if draw(st.booleans()) and length > 2 and kind != "collector":
                    log.add_mark("collector", now_ms + 1, now_ms + 2)
                log.add_mark(kind, now_ms, now_ms + length, value=position << 16, subject=subject)
                position += 1
            now_ms += length + draw(st.integers(0, 3))
        log.add_steps(now_ms + 1)
        now_ms += 1 + draw(st.integers(0, 4))
        if draw(st.booleans()):
            log.add_steps(now_ms + 1, subject=1)
            now_ms += 2
    log.end = now_ms + 5
    return log


@settings(max_examples=40, deadline=None)
@given(logs(), st.data())
def test_any_run_that_was_thinned_has_the_account_of_the_whole(
    log: Log, data: st.DataObject
) -> None:
    process = log.to_process()
    marks = process.marks
    steps = [marks.end[(marks.kind == wire.STEP) & (marks.subject == n)] for n in (0, 1)]
    # The first and the last step of each optimizer are kept, so that all others lie between.
    steps = [optimizer_ends for optimizer_ends in steps if len(optimizer_ends)]
    first_end, last_end = (
        max(int(optimizer_ends[0]) for optimizer_ends in steps),
        min(int(optimizer_ends[-1]) for optimizer_ends in steps),
    )
    ends = [end for end in np.unique(np.concatenate(steps)).tolist() if first_end <= end < last_end]
    borders = sorted(data.draw(st.sets(st.sampled_from(ends or [0]), max_size=8)))
    # What lies in a kept mark is kept, too: else it would be counted in both.
    rare = data.draw(st.sampled_from([set[str](), {"collector"}, {"collector", "iter"}]))
    reduced = thin_process(process, list(zip(borders[::2], borders[1::2], strict=False)), rare)
    full_run = recording(log)
    assume(find_edges(reduced).anchor == find_edges(process).anchor)
    assert accounts(replace(full_run, processes=(reduced,))) == accounts(full_run)


def accounts(run: Recording) -> object:
    """Return what thinning leaves as it is."""
    recorded = study_recording(run).recorded
    assert recorded is not None
    steps = recorded.steps
    step_facts = (
        None if steps is None else (steps.count, steps.regular, steps.mean_ns, steps.anchor)
    )
    return (
        recorded.timeline.wall_ns,
        recorded.timeline.leaves,
        recorded.timeline.processes[0].stepping,
        step_facts,
        None if recorded.account is None else recorded.account.account.leaves,
        {
            loader.id: (loader.waits, loader.longest_ns, loader.iterations)
            for loader in recorded.loaders
        },
    )
