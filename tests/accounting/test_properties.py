"""What must hold of every ledger and account."""

import itertools
import random
import re
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from msgspec.structs import asdict, replace

import gapless.accounting
from gapless.accounting import partition, sum_ledgers
from gapless.accounting.device import devices
from gapless.accounting.host import nesting
from gapless.model import category
from gapless.model.leaf import GROUPS, LEAVES, group_of
from gapless.model.ledger import Ledger
from gapless.model.trace import Events, Int64, Trace
from tests.accounting.drawing import Act, Drawing, DrawnInputs, draw
from tests.accounting.test_oracle import drawings

COLUMNS = ("row", "start", "end", "leaf", "culprit")


def make_ledger(inputs: DrawnInputs) -> Ledger:
    return partition(inputs.trace, inputs.arrivals, inputs.stages)


def sums(ledger: Ledger) -> tuple[dict[str, int], dict[str, int]]:
    totals = sum_ledgers([ledger], [range(len(ledger.rows))])
    return dict(totals.leaves), dict(totals.groups)


def with_events(trace: Trace, rows: Int64, start: Int64, end: Int64) -> Trace:
    """Return a trace with some of its events, at other times."""
    old_events = trace.events
    new_events = Events(
        start=start,
        end=end,
        name=old_events.name[rows],
        category=old_events.category[rows],
        track=old_events.track[rows],
        correlation=old_events.correlation[rows],
        detail=old_events.detail[rows],
    )
    return replace(trace, events=new_events)


def check_same_pieces(first_ledger: Ledger, second_ledger: Ledger, shift: int = 0) -> None:
    for name in COLUMNS:
        offset = shift if name in ("start", "end") else 0
        assert np.array_equal(asdict(first_ledger)[name] + offset, asdict(second_ledger)[name]), (
            name
        )
    for name, column in asdict(first_ledger.facets).items():
        assert np.array_equal(column, asdict(second_ledger.facets)[name]), name


@given(drawings(), st.integers(-(10**15), 10**15))
@settings(max_examples=30)
def test_a_later_trace_has_the_same_ledger(case: tuple[int, Drawing], shift: int) -> None:
    inputs = draw(case[1])
    trace, stages, arrivals = inputs.trace, inputs.stages, inputs.arrivals
    events = trace.events
    all_rows = np.arange(len(events))
    lost = tuple((s + shift, e + shift) for s, e in trace.health.lost)
    shifted = with_events(trace, all_rows, events.start + shift, events.end + shift)
    later = DrawnInputs(
        replace(shifted, health=replace(trace.health, lost=lost)),
        replace(arrivals, last_start=arrivals.last_start + shift),
        replace(stages, start=stages.start + shift, end=stages.end + shift),
        inputs.event_names,
    )
    check_same_pieces(make_ledger(inputs), make_ledger(later), shift)


@given(drawings(), st.randoms(use_true_random=False))
@settings(max_examples=30)
def test_the_order_of_the_file_changes_no_sum(
    case: tuple[int, Drawing], dice: random.Random
) -> None:
    # Waits for data may differ in leaf though they have the same key but for the position.
    waits = [(f.thread, f.start, f.end) for f in case[1].frames if f.tag.startswith("data")]
    assume(len(set(waits)) == len(waits))
    inputs = draw(case[1])
    order = np.array(dice.sample(range(len(inputs.event_names)), len(inputs.event_names)), np.int64)
    new_rows = np.argsort(order)
    events = inputs.trace.events
    trace = with_events(inputs.trace, order, events.start[order], events.end[order])
    stages = replace(
        inputs.stages, wait=new_rows[inputs.stages.wait], culprit=new_rows[inputs.stages.culprit]
    )
    arrivals = replace(inputs.arrivals, event=new_rows[inputs.arrivals.event])
    assert sums(make_ledger(inputs)) == sums(partition(trace, arrivals, stages))


def is_alone(act: Act, other_acts: Iterable[Act]) -> bool:
    return not any(o is not act and o.start < act.end and act.start < o.end for o in other_acts)


@given(drawings(), st.data())
@settings(max_examples=30)
def test_a_kernel_in_two_changes_no_sum(case: tuple[int, Drawing], data: st.DataObject) -> None:
    drawing = case[1]
    # Both halves keep the launch. Without one, the second would count as enqueued where it begins.
    long_acts = [act for act in drawing.acts if act.kind == "compute" and act.call is not None]
    long_acts = [act for act in long_acts if act.end - act.start > 1]
    long_acts = [act for act in long_acts if is_alone(act, drawing.acts)]
    assume(long_acts)
    act = data.draw(st.sampled_from(long_acts))
    middle = data.draw(st.integers(act.start + 1, act.end - 1))
    inputs = draw(drawing)
    trace, row = inputs.trace, inputs.event_names.index(act.id)
    rows = np.append(np.arange(len(inputs.event_names)), row)
    start, end = trace.events.start[rows], trace.events.end[rows]
    start[-1] = end[row] = middle
    halved_inputs = replace(inputs, trace=with_events(trace, rows, start, end))
    assert sums(make_ledger(inputs)) == sums(make_ledger(halved_inputs))


def test_a_kernel_without_a_launch_counts_as_enqueued_where_it_begins() -> None:
    def ends(*acts: Act) -> list[int]:
        return [row.end for row in make_ledger(draw(Drawing(acts, steps=[0, 1, 2]))).rows]

    assert ends(Act("k", 0, 3, None)) == [3, 3]
    assert ends(Act("k", 0, 2, None), Act("k again", 2, 3, None)) == [2, 2]


@given(drawings())
@settings(max_examples=30)
def test_pieces_tile_each_row(case: tuple[int, Drawing]) -> None:
    ledger = make_ledger(draw(case[1]))
    for index, row in enumerate(ledger.rows):
        in_row = ledger.row == index
        starts, ends = ledger.start[in_row].tolist(), ledger.end[in_row].tolist()
        assert all(start < end for start, end in zip(starts, ends, strict=True))
        assert all(end == start for end, start in zip(ends[:-1], starts[1:], strict=True))
        assert (starts[:1], ends[-1:]) == (([row.start], [row.end]) if starts else ([], []))
        assert starts or row.start == row.end


@given(drawings())
@settings(max_examples=30)
def test_small_batches_give_the_same_ledger(case: tuple[int, Drawing]) -> None:
    inputs = draw(case[1])
    with pytest.MonkeyPatch.context() as patch:
        full_ledger = make_ledger(inputs)
        patch.setattr(devices, "_BATCH", 1)
        patch.setattr(nesting, "_BATCH", 2)
        check_same_pieces(full_ledger, make_ledger(inputs))


@given(drawings())
@settings(max_examples=30)
def test_the_account_is_the_sum_of_the_ledger(case: tuple[int, Drawing]) -> None:
    ledger = make_ledger(draw(case[1]))
    totals = sum_ledgers([ledger, ledger])
    counted_rows = [row for row in ledger.rows if not row.left_out]
    assert totals.wall_ns == 2 * sum(row.end - row.start for row in counted_rows)
    assert totals.wall_ns == sum(totals.leaves.values()) == sum(totals.groups.values())
    assert totals.steps == 2 * len(counted_rows)
    assert len(totals.rows) + len(totals.left_out) == 2 * len(ledger.rows)
    for group, parts in totals.parts.items():
        assert sum(parts.values()) == totals.groups[group]


def test_every_leaf_has_a_group() -> None:
    assert {group_of(leaf) for leaf in LEAVES} == set(GROUPS)
    with pytest.raises(KeyError, match="belongs to no group"):
        group_of("asleep.at.work")


def test_every_leaf_that_the_code_names_is_a_leaf() -> None:
    folder = Path(next(iter(gapless.accounting.__path__)))
    text = "".join(path.read_text(encoding="utf-8") for path in folder.rglob("*.py"))
    leaf_names = set(re.findall(r'"((?:busy|idle|copy|comm)\.[\w.]+)"', text))
    assert leaf_names - set(LEAVES) == {"idle.io_main"}  # a prefix
    assert len(leaf_names) > 40


def test_a_sum_that_does_not_add_up_is_refused() -> None:
    ledger = make_ledger(draw(Drawing([Act("k", 0, 10, None)], steps=[0, 10])))
    torn = replace(ledger, end=ledger.end - 1)
    with pytest.raises(AssertionError, match="sums to 9 ns"):
        sum_ledgers([torn])


def test_points_and_shadows_are_no_activities() -> None:
    inputs = draw(Drawing([Act("k", 2, 8, None), Act("point", 9, 9, None)], steps=[0, 10]))
    kinds = inputs.trace.events.category
    assert (kinds == category.KERNEL).sum() == 2
    assert sums(make_ledger(inputs))[0]["idle.unrecorded"] == 2
    kinds[kinds == category.KERNEL] = category.GPU_USER_ANNOTATION
    assert make_ledger(inputs).rows[0].device is None


def test_windows_follow_one_another() -> None:
    inputs = draw(Drawing([Act("k", 0, 35, None)], steps=[0, 10, 20, 30]))
    rows = make_ledger(inputs).rows
    assert [(row.start, row.end) for row in rows] == list(itertools.pairwise([0, 35, 35, 35]))
    assert [row.left_out for row in rows] == [True, False, False]
