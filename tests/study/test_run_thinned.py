"""Recordings of which only sums were kept of many stretches, beside the same with every mark."""

from collections import defaultdict
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from gapless import wire
from gapless.model.recording import Marks, Process, Recording, Sums
from gapless.model.run import Recorded
from gapless.study import study_recording
from gapless.study.recorded.edges import edges, logging_period
from gapless.study.recorded.rows import charged, exposed
from gapless.study.recorded.training import counted, trainings
from gapless.study.recorded.waits import waits
from gapless.study.recorded.workers import worker_use
from tests.study.recording import KINDS, MS, Log, recording

CHARGED = ("observer", "collector", "next", "iter", "close", "checkpoint", "logging")


def life(*logs: Log, backlog: float = 0) -> dict[str, float]:
    one = trainings(recording(*logs))[0]
    row = charged(one, waits(one))
    parts = exposed(row, round(backlog * MS)) if backlog else row.row.parts()
    return {leaf: ns / MS for leaf, ns in parts.items()}


def studied(*logs: Log) -> Recorded:
    made = study_recording(recording(*logs)).recorded
    assert made is not None
    return made


# ── By hand ─────────────────────────────────────────────────────────────────────────────────────


def summed_run() -> Log:
    """Give a run with steps of 10 ms: some noted, 40 in two stretches, some noted."""
    log = Log(end=1000)
    log.fact("loader", 0, None, num_workers=0, batch_size=4)
    log.steps(*range(100, 151, 10))
    log.mark("next", 101, 104, value=0)
    log.mark("next", 111, 114, value=1)
    log.mark("logging", 115, 117)
    for stretch in ((150, 350), (350, 550)):
        log.summed("step", stretch, 20, total=20)
        log.summed("next", stretch, 20, total=60, longest=9)
        log.summed("logging", stretch, 2, total=4)
    log.mark("collector", 200, 205, value=2)
    log.steps(*range(560, 591, 10))
    return log


def test_a_stretch_is_charged_by_its_sums_and_the_rest_of_it_is_steps() -> None:
    assert life(summed_run()) == {
        "set-up": 100,
        "collector": 5,
        "data.main": 126,
        "logging": 10,
        "step": 349,
        "tear-down": 410,
    }


def test_steps_that_were_summed_are_counted_and_none_is_formed_across_them() -> None:
    made = studied(summed_run())
    assert made.steps is not None
    assert (made.steps.count, made.steps.regular, made.steps.noted) == (50, 49, 8)
    assert (made.steps.mean_ns, made.steps.median_ns) == (10 * MS, 10 * MS)
    assert made.steps.p90_ns == 10 * MS
    (process,) = made.timeline.processes
    assert (process.steps, process.mean_ns, process.median_ns) == (50, 10 * MS, 10 * MS)
    assert made.account is not None
    assert (made.account.account.steps, made.account.account.wall_ns) == (49, 490 * MS)
    assert made.steps.samples_per_s == pytest.approx(42 * 4 / 0.49)


def test_waits_that_were_summed_are_waits_of_their_loader() -> None:
    (loader,) = studied(summed_run()).loaders
    assert (loader.waits, loader.wait_ns, loader.longest_ns) == (42, 126 * MS, 9 * MS)
    assert loader.share == pytest.approx(126 / 490)
    assert loader.mean_ns == 3 * MS
    assert sum(loader.stages.values()) == loader.wait_ns


def test_a_backlog_hides_as_much_of_summed_waits_as_of_kept_ones() -> None:
    # Of kept waits of 3 ms it hides 2, of logging of 2 ms all, of the collector's 5 ms 2.
    assert life(summed_run(), backlog=2) == {"collector": 3, "data.main": 42, "step": 445}


def test_a_backlog_hides_so_much_of_each_wait_where_none_was_kept() -> None:
    log = Log(end=1000)
    log.steps(100, 200, 600)
    log.summed("next", (200, 500), 10, total=100)
    log.summed("step", (200, 500), 10, total=10)
    log.summed("logging", (200, 500), 2, total=50)
    assert life(log, backlog=4) == {"data.unstaged": 60, "logging": 42, "step": 398}


def test_parts_of_a_stretch_are_never_more_than_it() -> None:
    log = Log(end=1000)
    log.steps(100, 200, 300)
    log.summed("next", (200, 260), 5, total=90)
    log.summed("step", (200, 260), 3, total=3)
    log.summed("collector", (200, 260), 3, total=30, thread=7)
    log.mark("checkpoint", 205, 215)
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
    log.steps(100, 200, 500)
    log.summed("step", (200, 400), 9, total=9)
    log.summed("next", (200, 400), 4, total=8, flags=wire.EXHAUSTED)
    log.summed("iter", (200, 400), 4, total=12)
    log.summed("next", (200, 400), 40, total=80, thread=8)
    log.summed("checkpoint", (200, 400), 1, total=50, thread=8)
    assert life(log) == {"set-up": 100, "epoch-turn": 20, "step": 380, "tear-down": 500}
    (loader,) = studied(log).loaders or (None,)
    assert loader is not None
    assert (loader.waits, loader.iterations, loader.restart_ns) == (0, 4, 12 * MS)


def test_summed_calls_count_when_the_anchor_is_chosen() -> None:
    log = Log(end=2000)
    log.steps(100, 200, 300, 700, 800, subject=1)
    log.steps(105, 205, 305, 705, 805, subject=2)
    log.summed("step", (305, 650), 30, subject=1)
    log.summed("step", (305, 650), 60, subject=2)
    found = edges(log.process())
    assert (found.count, found.many.tolist()) == (35, [1, 1, 31, 1])
    assert found.noted.tolist() == [True, True, False, True]
    assert [end // MS for end in found.ends.tolist()] == [100, 200, 300, 700, 800]


def test_a_stretch_at_the_end_ends_the_last_step() -> None:
    log = Log(end=2000)
    log.steps(100, 200, 300)
    log.summed("step", (300, 500), 2)
    found = edges(log.process())
    assert (found.count, found.many.tolist()) == (5, [1, 1, 2])
    assert int(found.ends[-1]) == 500 * MS
    assert life(log) == {"set-up": 100, "step": 400, "tear-down": 1500}


def test_steps_before_the_first_kept_one_are_counted_and_belong_to_set_up() -> None:
    log = Log(end=900)
    log.summed("step", (50, 100), 4)
    log.steps(200, 300)
    log.summed("next", (50, 100), 4, total=4)
    log.mark("next", 150, 160, value=4)
    found = edges(log.process())
    assert (found.count, found.many.tolist()) == (6, [1])
    assert life(log)["set-up"] == 200 - 14
    (process,) = studied(log).timeline.processes
    assert (process.first_step_ns, process.first_batch_ns, process.to_first_batch_ns) == (None,) * 3


def test_a_run_of_sums_alone_has_a_mean_step() -> None:
    log = Log(end=900)
    log.summed("step", (100, 300), 20)
    log.summed("step", (300, 500), 20)
    made = studied(log)
    assert made.steps is not None
    assert (made.steps.count, made.steps.noted, made.steps.mean_ns) == (40, 0, 10 * MS)
    assert made.timeline.processes[0].first_step_ns is None


def test_hand_overs_that_were_summed_are_steps_where_no_optimizer_was_seen() -> None:
    log = Log(end=900)
    for at in (100, 200, 300):
        log.mark("next", at, at + 10, value=at // 100)
    log.summed("next", (310, 600), 8, total=16)
    log.summed("next", (310, 600), 1, total=16, flags=wire.EXHAUSTED)
    log.mark("next", 690, 700, value=12)
    found = edges(log.process())
    assert (found.rule, found.count, found.many.tolist()) == ("loader", 12, [1, 1, 9])


def test_an_evaluation_in_which_some_step_was_summed_is_none() -> None:
    log = Log(end=900)
    log.steps(100, 200, 700, 800)
    log.mark("mode", 210, value=0)
    log.mark("mode", 500, value=1)
    log.mark("mode", 710, value=0)
    log.mark("mode", 730, value=1)
    log.summed("next", (215, 400), 8, total=80)
    assert life(log)["evaluation"] == 290 - 80 + 20
    log.summed("step", (400, 650), 8)  # after the model was told to train, at 500
    assert life(log)["evaluation"] == 290 - 80 + 20
    log.summed("step", (215, 400), 8)
    assert life(log)["evaluation"] == 20


def test_a_window_in_a_stretch_leaves_its_steps_uncounted() -> None:
    log = summed_run()
    log.mark("observer", 300, 310, value=wire.OBSERVER_WINDOW)
    one = trainings(recording(log))[0]
    assert counted(one).tolist() == [True] * 5 + [False] + [True] * 3
    made = studied(log).steps
    assert made is not None
    assert (made.count, made.regular) == (50, 8)


def test_calls_of_a_logger_that_were_summed_lie_in_no_period() -> None:
    log = Log(end=1000)
    log.steps(*range(100, 200, 10))
    log.summed("step", (190, 400), 50)
    log.steps(*range(410, 500, 10))
    for at in (105, 145, 185, 425):
        log.mark("logging", at, at + 1)
    process = log.process()
    assert logging_period(process, edges(process)) == 4


# ── Loaders with workers ────────────────────────────────────────────────────────────────────────


def pooled(sums: float | None = None) -> list[Log]:
    """Give a loader of two workers, of whose eight batches the middle four may be summed."""
    log = Log(end=1000)
    log.steps(*range(100, 901, 100))
    log.fact("loader", 0, None, num_workers=2)
    log.mark("iter", 10, 12)
    workers = [Log("worker", pid=20 + at, worker=at, loader=0, start=5) for at in (0, 1)]
    for position in range(8):
        at = 110 + 100 * position
        workers[position % 2].fetch(
            at + 5, at + 45, sequence=position // 2, decode=30, collate=10, cpu=20 * MS
        )
        log.mark("dispatch", at, value=position << 16 | position % 2)
        log.mark("next", at + 1, at + 50, value=position)
    if sums is not None:
        stretch = (300, 700)
        gone = [mark for mark in log.marks if 300 * MS < mark[5] <= 700 * MS]
        log.marks = [mark for mark in log.marks if mark not in gone]
        for kind, total in (("step", 4), ("next", 4 * 49), ("dispatch", 0)):
            log.summed(kind, stretch, 4, total=total, longest=total / 4)
        for one in workers:
            many = [row for row in one.rows if 300 * MS < row["end"] < 700 * MS]
            one.rows = [row for row in one.rows if row not in many]
            span = many[0]["start"] / MS, many[-1]["end"] / MS
            one.fetches(span, 2, 80, cpu=40 * MS, decode=60, collate=20)
    return [log, *workers]


def test_batches_after_a_gap_are_matched_where_workers_take_turns() -> None:
    whole, thinned = (waits(trainings(recording(*pooled(sums)))[0])[0] for sums in (None, 1))
    assert (len(whole.start), len(thinned.start)) == (8, 4)
    last = [
        [(one.pieces.leaf[row], one.pieces.start[row]) for row in np.flatnonzero(mine)]
        for one in (whole, thinned)
        for mine in [one.pieces.wait == len(one.start) - 1]
    ]
    assert last[0] == last[1]
    first, second = life(*pooled()), life(*pooled(1))
    for leaves in (first, second):  # the workers' first fetches are shared out among the summed
        leaves["data.queue"] += leaves.pop("data.start-up")
    assert first == pytest.approx(second)


def test_batches_after_a_gap_are_matched_by_nobody_where_workers_took_no_turns() -> None:
    log, *workers = pooled(1)
    log.mark("dispatch", 901, value=8 << 16 | 1)  # the second time in a row
    made = waits(trainings(recording(log, *workers))[0])[0]
    after = {int(leaf) for leaf in made.pieces.leaf[made.pieces.wait >= 2]}
    before = {int(leaf) for leaf in made.pieces.leaf[made.pieces.wait < 2]}
    assert after <= before  # shared out as those before the gap


def test_a_wait_for_a_worker_whose_fetches_were_summed_is_shared_out_as_others() -> None:
    log, *workers = pooled()
    first = workers[0]
    first.rows[1]["decode_wall"], first.rows[1]["collate_wall"] = 0, 40 * MS
    plain = life(log, *workers)
    gone = first.rows.pop(1)
    first.fetches((gone["start"] / MS, gone["end"] / MS), 1, 40)
    shared = life(log, *workers)
    assert shared["data.decode"] > plain["data.decode"]
    assert sum(shared.values()) == sum(plain.values())
    assert shared["data.hand-over"] == pytest.approx(plain["data.hand-over"])


def test_iterations_that_were_summed_do_not_mix_their_batches() -> None:
    log, *workers = pooled(1)
    log.summed("iter", (300, 700), 1, total=1)
    for one in workers:  # positions and sequences begin anew in the stretch
        for row in one.rows[1:]:
            row["sequence"] -= 1
    again = [mark for mark in log.marks if mark[4] > 700 * MS and mark[6] >= 0]
    log.marks = [mark for mark in log.marks if mark not in again]
    for kind, flags, subject, thread, start, end, value in again:
        less = 2 << 16 if kind == KINDS["dispatch"] else 2
        log.marks.append((kind, flags, subject, thread, start, end, value - less))
    made = waits(trainings(recording(log, *workers))[0])[0]
    assert made.first.tolist() == [True, False, False, False]
    assert life(log, *workers)["data.decode"] == pytest.approx(life(*pooled())["data.decode"])


def test_workers_are_described_by_all_that_they_fetched() -> None:
    whole, thinned = (
        worker_use([], [(one.process(), 0) for one in pooled(s)[1:]], 8) for s in (None, 1)
    )
    assert whole is not None
    assert thinned is not None
    assert thinned == whole
    assert (whole.fetches, whole.staged, whole.fetch_median_ns) == (8, 8, 40 * MS)


def test_workers_that_record_one_fetch_in_several_are_as_busy_between_gaps() -> None:
    log = Log("worker", pid=20, worker=0, loader=0)
    for sequence in (0, 4, 8):
        log.fetch(100 + 10 * sequence, 105 + 10 * sequence, sequence=sequence)
    log.fetches((200, 300), 3, 15)
    log.fetch(300, 305, sequence=60)
    found = worker_use([], [(log.process(), 0)], 4 * 7)
    assert found is not None
    assert found.busy == pytest.approx((4 * 5 + 15) * 4 / 205)


def test_workers_of_whose_fetches_only_sums_were_kept_have_no_median() -> None:
    log = Log("worker", pid=20, worker=0, loader=0)
    log.fetches((100, 200), 10, 50, random=1, looked=2)
    found = worker_use([], [(log.process(), 0)], 10)
    assert found is not None
    assert (found.fetches, found.fetch_median_ns, found.busy) == (10, None, 0.5)
    assert (found.random, found.on_cpu, found.stages) == (True, None, ())
    made = studied(Log(), log)
    assert made.loaders == ()


# ── Any run, thinned here ───────────────────────────────────────────────────────────────────────


def thinned(process: Process, stretches: list[tuple[int, int]], rare: set[str]) -> Process:
    """Sum the marks that end in some stretches, but for those of rare kinds."""
    rows = sorted(
        zip(*(vars(process.marks)[name].tolist() for name in wire.MARK_FIELDS), strict=True),
        key=lambda row: (row[5], -row[4]),
    )
    kept, sums = list[tuple[int, ...]](), list[list[int]]()
    own = exclusive(rows)
    at = 0
    for start, end in stretches:
        inside = [n for n, row in enumerate(rows) if start < row[5] <= end]
        many = [n for n in inside if wire.MARKS_NAMES[rows[n][0]] not in rare]
        before = [row[5] for row in rows if row[5] <= start]
        begin = max(before, default=rows[many[0]][4] if many else start)
        groups = defaultdict[tuple[int, ...], list[int]](list)
        for n in many:
            groups[rows[n][:4]].append(n)
        over = max((rows[n][5] for n in inside), default=end)
        for key, members in groups.items():
            total = sum(own[n] for n in members)
            longest = max(rows[n][5] - rows[n][4] for n in members)
            sums.append([*key, begin, over, len(members), total, longest, -1])
        kept += rows[at : inside[0]] if inside else []
        kept += [rows[n] for n in inside if n not in many]
        at = inside[-1] + 1 if inside else at
    kept += rows[at:]
    table = np.array(kept, np.int64).reshape(-1, 7)
    marks = Marks(**{name: table[:, n] for n, name in enumerate(wire.MARK_FIELDS)})
    columns = np.array(sums, np.int64).reshape(-1, len(wire.MARK_SUM_FIELDS))
    named = {name: columns[:, n] for n, name in enumerate(wire.MARK_SUM_FIELDS)}
    return replace(process, marks=marks, mark_sums=Sums(named))


def exclusive(rows: list[tuple[int, ...]]) -> list[int]:
    """Give the length of each mark less the charged ones directly inside."""
    charged = [wire.MARKS_NAMES[row[0]] in CHARGED for row in rows]
    found: list[int] = []
    for n, row in enumerate(rows):
        covered = 0
        reach = row[4]
        inner = [
            other
            for m, other in enumerate(rows)
            if m != n and charged[m] and row[4] <= other[4] and other[5] <= row[5]
        ]
        for other in sorted(inner, key=lambda one: one[4]):
            covered += max(0, other[5] - max(reach, other[4]))
            reach = max(reach, other[5])
        found.append(row[5] - row[4] - covered)
    return found


PARTS = ("next", "collector", "checkpoint", "logging", "iter", "dispatch", "sync", "nothing")


@st.composite
def logs(draw: st.DrawFn) -> Log:
    """Draw a training: steps of several parts each, some of which hold a collection."""
    log = Log(end=None)
    for number in (0, 1):
        log.fact("optimizer", number, ("train.py", number))
    at, position = 10, 0
    for _ in range(draw(st.integers(4, 25))):
        for _ in range(draw(st.integers(0, 3))):
            kind, length = draw(st.sampled_from(PARTS)), draw(st.integers(1, 9))
            if kind != "nothing":
                subject = draw(st.integers(0, 1)) if kind == "next" else 0
                if draw(st.booleans()) and length > 2 and kind != "collector":
                    log.mark("collector", at + 1, at + 2)
                log.mark(kind, at, at + length, value=position << 16, subject=subject)
                position += 1
            at += length + draw(st.integers(0, 3))
        log.steps(at + 1)
        at += 1 + draw(st.integers(0, 4))
        if draw(st.booleans()):
            log.steps(at + 1, subject=1)
            at += 2
    log.end = at + 5
    return log


@settings(max_examples=40, deadline=None)
@given(logs(), st.data())
def test_any_run_that_was_thinned_has_the_account_of_the_whole(
    log: Log, data: st.DataObject
) -> None:
    process = log.process()
    marks = process.marks
    steps = [marks.end[(marks.kind == wire.STEP) & (marks.subject == n)] for n in (0, 1)]
    # The first and the last step of each optimizer are kept, so that all others lie between.
    steps = [one for one in steps if len(one)]
    first, last = max(int(one[0]) for one in steps), min(int(one[-1]) for one in steps)
    ends = [end for end in np.unique(np.concatenate(steps)).tolist() if first <= end < last]
    borders = sorted(data.draw(st.sets(st.sampled_from(ends or [0]), max_size=8)))
    # What lies in a kept mark is kept, too: else it would be counted in both.
    rare = data.draw(st.sampled_from([set[str](), {"collector"}, {"collector", "iter"}]))
    part = thinned(process, list(zip(borders[::2], borders[1::2], strict=False)), rare)
    whole = recording(log)
    assume(edges(part).anchor == edges(process).anchor)
    assert accounts(replace(whole, processes=(part,))) == accounts(whole)


def accounts(told: Recording) -> object:
    """Give what thinning leaves as it is."""
    made = study_recording(told).recorded
    assert made is not None
    steps = made.steps
    anchored = None if steps is None else (steps.count, steps.regular, steps.mean_ns, steps.anchor)
    return (
        made.timeline.wall_ns,
        made.timeline.leaves,
        made.timeline.processes[0].stepping,
        anchored,
        None if made.account is None else made.account.account.leaves,
        {one.id: (one.waits, one.longest_ns, one.iterations) for one in made.loaders},
    )
