"""What must hold of every ledger and account."""

import itertools
import random
import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import gapless.accounting
from gapless.accounting import account, devices, nesting, partition
from gapless.model import category
from gapless.model.leaf import GROUPS, LEAVES, group_of
from gapless.model.ledger import Ledger
from gapless.model.trace import Events, Int64, Trace
from tests.accounting.drawing import Act, Drawing, Drawn, draw
from tests.accounting.test_oracle import drawings

COLUMNS = ("row", "start", "end", "leaf", "culprit")


def charged(drawn: Drawn) -> Ledger:
    return partition(drawn.trace, drawn.arrivals, drawn.stages)


def sums(ledger: Ledger) -> tuple[dict[str, int], dict[str, int]]:
    made = account([ledger], [range(len(ledger.rows))])
    return dict(made.leaves), dict(made.groups)


def with_events(trace: Trace, rows: Int64, start: Int64, end: Int64) -> Trace:
    """Give a trace with some of its events, at other times."""
    old = trace.events
    new = Events(
        start=start,
        end=end,
        name=old.name[rows],
        category=old.category[rows],
        track=old.track[rows],
        correlation=old.correlation[rows],
        detail=old.detail[rows],
    )
    return replace(trace, events=new)


def same_pieces(one: Ledger, other: Ledger, shift: int = 0) -> None:
    for name in COLUMNS:
        by = shift if name in ("start", "end") else 0
        assert np.array_equal(vars(one)[name] + by, vars(other)[name]), name
    for name, column in vars(one.facets).items():
        assert np.array_equal(column, vars(other.facets)[name]), name


@given(drawings(), st.integers(-(10**15), 10**15))
@settings(max_examples=60)
def test_a_later_trace_has_the_same_ledger(drawn: tuple[int, Drawing], shift: int) -> None:
    made = draw(drawn[1])
    trace, stages, arrivals = made.trace, made.stages, made.arrivals
    events = trace.events
    every = np.arange(len(events))
    lost = tuple((s + shift, e + shift) for s, e in trace.health.lost)
    moved = with_events(trace, every, events.start + shift, events.end + shift)
    later = Drawn(
        replace(moved, health=replace(trace.health, lost=lost)),
        replace(arrivals, last=arrivals.last + shift),
        replace(stages, start=stages.start + shift, end=stages.end + shift),
        made.who,
    )
    same_pieces(charged(made), charged(later), shift)


@given(drawings(), st.randoms(use_true_random=False))
@settings(max_examples=60)
def test_the_order_of_the_file_changes_no_sum(
    drawn: tuple[int, Drawing], dice: random.Random
) -> None:
    # Waits for data may differ in leaf though they have the same key but for the position.
    waits = [(f.thread, f.start, f.end) for f in drawn[1].frames if f.tag.startswith("data")]
    assume(len(set(waits)) == len(waits))
    made = draw(drawn[1])
    order = np.array(dice.sample(range(len(made.who)), len(made.who)), np.int64)
    place = np.argsort(order)
    events = made.trace.events
    trace = with_events(made.trace, order, events.start[order], events.end[order])
    stages = replace(made.stages, wait=place[made.stages.wait], culprit=place[made.stages.culprit])
    arrivals = replace(made.arrivals, event=place[made.arrivals.event])
    assert sums(charged(made)) == sums(partition(trace, arrivals, stages))


def alone(act: Act, others: Iterable[Act]) -> bool:
    return not any(o is not act and o.start < act.end and act.start < o.end for o in others)


@given(drawings(), st.data())
@settings(max_examples=80)
def test_a_kernel_in_two_changes_no_sum(drawn: tuple[int, Drawing], data: st.DataObject) -> None:
    given_ = drawn[1]
    # Both halves keep the launch. Without one, the second would count as enqueued where it begins.
    long = [act for act in given_.acts if act.kind == "compute" and act.call is not None]
    long = [act for act in long if act.end - act.start > 1]
    long = [act for act in long if alone(act, given_.acts)]
    assume(long)
    act = data.draw(st.sampled_from(long))
    middle = data.draw(st.integers(act.start + 1, act.end - 1))
    made = draw(given_)
    trace, here = made.trace, made.who.index(act.id)
    rows = np.append(np.arange(len(made.who)), here)
    start, end = trace.events.start[rows], trace.events.end[rows]
    start[-1] = end[here] = middle
    halved = replace(made, trace=with_events(trace, rows, start, end))
    assert sums(charged(made)) == sums(charged(halved))


def test_a_kernel_without_a_launch_counts_as_enqueued_where_it_begins() -> None:
    def ends(*acts: Act) -> list[int]:
        return [row.end for row in charged(draw(Drawing(acts, steps=[0, 1, 2]))).rows]

    assert ends(Act("k", 0, 3, None)) == [3, 3]
    assert ends(Act("k", 0, 2, None), Act("k again", 2, 3, None)) == [2, 2]


@given(drawings())
@settings(max_examples=60)
def test_pieces_tile_each_row(drawn: tuple[int, Drawing]) -> None:
    ledger = charged(draw(drawn[1]))
    for at, row in enumerate(ledger.rows):
        mine = ledger.row == at
        starts, ends = ledger.start[mine].tolist(), ledger.end[mine].tolist()
        assert all(start < end for start, end in zip(starts, ends, strict=True))
        assert all(end == start for end, start in zip(ends[:-1], starts[1:], strict=True))
        assert (starts[:1], ends[-1:]) == (([row.start], [row.end]) if starts else ([], []))
        assert starts or row.start == row.end


@given(drawings())
@settings(max_examples=60)
def test_small_batches_give_the_same_ledger(drawn: tuple[int, Drawing]) -> None:
    made = draw(drawn[1])
    with pytest.MonkeyPatch.context() as patch:
        whole = charged(made)
        patch.setattr(devices, "_BATCH", 1)
        patch.setattr(nesting, "_BATCH", 2)
        same_pieces(whole, charged(made))


@given(drawings())
@settings(max_examples=40)
def test_the_account_is_the_sum_of_the_ledger(drawn: tuple[int, Drawing]) -> None:
    ledger = charged(draw(drawn[1]))
    made = account([ledger, ledger])
    counted = [row for row in ledger.rows if not row.left_out]
    assert made.wall_ns == 2 * sum(row.end - row.start for row in counted)
    assert made.wall_ns == sum(made.leaves.values()) == sum(made.groups.values())
    assert made.steps == 2 * len(counted)
    assert len(made.rows) + len(made.left_out) == 2 * len(ledger.rows)
    for group, parts in made.parts.items():
        assert sum(parts.values()) == made.groups[group]


def test_every_leaf_has_a_group() -> None:
    assert {group_of(leaf) for leaf in LEAVES} == set(GROUPS)
    with pytest.raises(KeyError, match="belongs to no group"):
        group_of("asleep.at.work")


def test_every_leaf_that_the_code_names_is_a_leaf() -> None:
    folder = Path(next(iter(gapless.accounting.__path__)))
    text = "".join(path.read_text(encoding="utf-8") for path in folder.glob("*.py"))
    named = set(re.findall(r'"((?:busy|idle|copy|comm)\.[\w.]+)"', text))
    assert named - set(LEAVES) == {"idle.io_main"}  # a prefix
    assert len(named) > 40


def test_a_sum_that_does_not_add_up_is_refused() -> None:
    ledger = charged(draw(Drawing([Act("k", 0, 10, None)], steps=[0, 10])))
    torn = replace(ledger, end=ledger.end - 1)
    with pytest.raises(AssertionError, match="sums to 9 ns"):
        account([torn])


def test_points_and_shadows_are_no_activities() -> None:
    drawn = draw(Drawing([Act("k", 2, 8, None), Act("point", 9, 9, None)], steps=[0, 10]))
    kinds = drawn.trace.events.category
    assert (kinds == category.KERNEL).sum() == 2
    assert sums(charged(drawn))[0]["idle.unrecorded"] == 2
    kinds[kinds == category.KERNEL] = category.GPU_USER_ANNOTATION
    assert charged(drawn).rows[0].device is None


def test_windows_follow_one_another() -> None:
    drawn = draw(Drawing([Act("k", 0, 35, None)], steps=[0, 10, 20, 30]))
    rows = charged(drawn).rows
    assert [(row.start, row.end) for row in rows] == list(itertools.pairwise([0, 35, 35, 35]))
    assert [row.left_out for row in rows] == [True, False, False]
