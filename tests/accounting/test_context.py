"""What a frame is charged as because of where it stands."""

import numpy as np
import pytest

from gapless.accounting import partition, sum_ledgers
from gapless.accounting.device.activities import collect_activities
from gapless.accounting.device.sync_debt import find_debts
from gapless.accounting.device.windows import device_windows
from gapless.accounting.host.context import refine_tags
from gapless.accounting.host.host import prepare_host
from gapless.accounting.host.threads import sort_threads
from gapless.model.leaf import LEAVES
from tests.accounting.drawing import US, Act, Call, Drawing, Frame, Kind, SyncRecord, draw


def leaves_by_name(drawing: Drawing) -> dict[str, str]:
    """Return the leaf of each event by name."""
    inputs = draw(drawing)
    host_threads = sort_threads(inputs.trace)
    tags = refine_tags(host_threads, collect_activities(inputs.trace, host_threads))
    return {
        name: LEAVES[leaf]
        for name, leaf in zip(inputs.event_names, tags.leaf.tolist(), strict=True)
    }


def account_leaves(drawing: Drawing) -> dict[str, int]:
    inputs = draw(drawing)
    return dict(sum_ledgers([partition(inputs.trace, inputs.arrivals, inputs.stages)]).leaves)


def copy(kind: Kind, start: int, end: int, call: tuple[int, int]) -> Act:
    return Act("copy", start * US, end * US, Call(call[0] * US, call[1] * US, id="call"), kind)


@pytest.mark.parametrize(
    ("call", "blocks"),
    [
        ((0, 41), True),  # longer than 40 µs, and ends with the copy
        ((0, 40), False),
        ((20, 75), True),
        ((20, 74), False),  # ends more than 25 µs before the copy
    ],
)
def test_a_copy_blocks_if_its_long_call_ends_with_it(call: tuple[int, int], blocks: bool) -> None:
    end = 60 if call[1] < 60 else 100
    leaves = leaves_by_name(Drawing([copy("d2h", 10, end, call)], steps=[0, 200 * US]))
    assert (leaves["call"] == "idle.sync.return") is blocks


def test_only_what_launches_a_copy_to_the_device_is_its_host_part() -> None:
    frames = [
        Frame("to", 0, 30 * US, id="around"),
        Frame("to", 40 * US, 50 * US, id="later"),
        Frame("to", 5 * US, 20 * US, "b", id="elsewhere"),
        Frame("op", 1 * US, 29 * US, id="op", name="aten::copy_"),
    ]
    leaves = leaves_by_name(Drawing([copy("h2d", 15, 90, (10, 14))], frames, [0, 200 * US]))
    assert (leaves["around"], leaves["op"]) == ("idle.h2d.host", "idle.h2d.host")
    assert (leaves["later"], leaves["elsewhere"]) == ("idle.host.dispatch", "idle.host.dispatch")


@pytest.mark.parametrize(("end", "leaf"), [(95, "idle.h2d.host"), (30, "idle.sync.return")])
def test_the_synchronize_that_ends_a_blocking_copy_is_part_of_it(end: int, leaf: str) -> None:
    frames = [
        Frame("to", 0, 120 * US),
        Frame("sync", 96 * US, 110 * US, id="inside"),
        Frame("sync", 130 * US, 140 * US, id="outside"),
    ]
    leaves = leaves_by_name(Drawing([copy("h2d", 15, 100, (10, end))], frames, [0, 200 * US]))
    assert (leaves["inside"], leaves["outside"]) == (leaf, "idle.sync.return")


def alloc(name: str, start: int, frame_id: str) -> Frame:
    return Frame("alloc", start, start + 1, id=frame_id, name=name)


def test_an_allocation_after_a_free_in_its_operator_is_a_retry() -> None:
    frames = [
        Frame("op", 0, 30),
        alloc("cudaMalloc", 1, "first"),
        alloc("cudaFree", 3, "free"),
        alloc("cudaMalloc", 5, "again"),
        Frame("op", 40, 60),
        alloc("cudaMalloc", 41, "malloc"),
        alloc("cudaFree", 43, "after"),
        alloc("cudaFree", 70, "bare"),
        alloc("cudaMalloc", 72, "bare again"),
        Frame("op", 80, 90),  # the last event of the file
        alloc("cuMemRelease", 81, "release"),
        alloc("cuMemUnmap", 83, "unmap"),
        alloc("cudaHostFree", 85, "host"),
    ]
    leaves = leaves_by_name(Drawing([Act("k", 0, 5, None)], frames, [0, 100]))
    for frame_id in ("first", "free", "again"):
        assert leaves[frame_id] == "idle.alloc.retry"
    for frame_id in ("malloc", "after", "bare", "bare again", "release", "unmap"):
        assert leaves[frame_id] == "idle.alloc", frame_id
    assert leaves["host"] == "idle.alloc.host"


def test_a_free_outside_any_operator_taints_no_other() -> None:
    frames = [alloc("cudaFree", 0, "bare"), alloc("cudaMalloc", 11, "malloc"), Frame("op", 10, 20)]
    drawing = Drawing([], frames)
    assert leaves_by_name(drawing)["malloc"] == "idle.alloc"


def test_overhead_holds_a_silent_training_thread_without_any_frame() -> None:
    drawing = Drawing([Act("k", 50, 60, Call(40, 41, "b"))], steps=[0, 60], overhead=[(10, 30)])
    assert account_leaves(drawing)["idle.profiler"] == 20


def test_overhead_holds_another_thread_only_inside_a_frame() -> None:
    frames = [Frame("op", 5, 45, "b"), Frame("op", 70, 75, "b"), Frame("op", 1, 99, "m")]
    drawing = Drawing(
        [Act("k", 50, 60, Call(40, 44, "b")), Act("l", 90, 100, Call(80, 85, "b"))],
        frames,
        [0, 100],
        overhead=[(10, 30), (76, 79), (40, 50)],
    )
    inputs = draw(drawing)
    ledger = partition(inputs.trace)
    assert sum_ledgers([ledger]).leaves["idle.profiler"] == 20  # the second lies between b's frames
    assert [(note.what, note.count) for note in ledger.notes] == []


def test_overhead_that_held_nobody_is_a_note() -> None:
    frames = [Frame("op", 5, 15), Frame("op", 12, 13, "b")]
    inputs = draw(Drawing([Act("k", 0, 9, None)], frames, [0, 30], overhead=[(10, 20)]))
    notes = partition(inputs.trace).notes
    assert [(note.what, note.count) for note in notes] == [
        ("profiler overhead events that held no thread", 1)
    ]


def debt_amounts(frames: list[Frame], syncs: list[SyncRecord]) -> list[int]:
    """Return the debts of device 0, on which stream 7 runs 10-100 and stream 20 runs 20-60."""
    acts = [Act("a", 10, 100, Call(0, 1)), Act("b", 20, 60, Call(2, 3), stream=20)]
    inputs = draw(Drawing(acts, frames, [0, 200], syncs=syncs))
    host_threads = sort_threads(inputs.trace)
    collected = collect_activities(inputs.trace, host_threads)
    bounds = device_windows(np.array([0, 200]), collected)
    return [
        debt.amount for debt in find_debts(prepare_host(host_threads, collected), collected, bounds)
    ]


SYNC = Frame("sync", 30, 105, correlation=500)


@pytest.mark.parametrize(
    ("sync", "amount"),
    [
        (SyncRecord(30, 60, 500, stream=20), 30),
        (SyncRecord(30, 60, 500, stream=7), 70),
        (SyncRecord(30, 60, 500, stream=3, wait_stream=20, name="Event Sync"), 30),
        (SyncRecord(30, 100, 500, stream=7, name="Context Sync"), 70),
        (SyncRecord(30, 60, 501, stream=20), 70),  # of another call
        (SyncRecord(30, 60, 500, stream=-1), 70),
        (SyncRecord(30, 60, 500, stream=20, device=-1), 30),
    ],
)
def test_a_sync_covers_the_stream_that_its_record_names(sync: SyncRecord, amount: int) -> None:
    assert debt_amounts([SYNC], [sync]) == [amount]


def test_a_sync_of_another_device_covers_nothing_here() -> None:
    assert debt_amounts([SYNC], [SyncRecord(30, 60, 500, stream=7, device=1)]) == []
    assert debt_amounts([SYNC], [SyncRecord(30, 60, 500, stream=9, device=0)]) == []


def test_stages_without_length_say_nothing() -> None:
    frames = [Frame("data", 0, 40, stages=((5, 5, "read"),))]
    drawing = Drawing([Act("k", 50, 60, Call(40, 41))], frames, [0, 60])
    assert account_leaves(drawing)["idle.data.unstaged"] == 40


def test_lost_spans_are_unknown_where_nothing_is_open() -> None:
    frames = [Frame("op", 10, 20), Frame("op", 60, 65, "b"), Frame("op", 90, 95, "b")]
    acts = [Act("k", 50, 60, Call(40, 41)), Act("l", 96, 100, Call(91, 92, "b"))]
    complete = account_leaves(Drawing(acts, frames, [0, 100]))
    partial = account_leaves(Drawing(acts, frames, [0, 100], lost=((0, 30), (70, 80))))
    assert "idle.unknown" not in complete
    assert partial["idle.unknown"] == 20 + 10
    assert partial["idle.host.dispatch"] == complete["idle.host.dispatch"]
    assert partial["idle.host.engine"] == complete["idle.host.engine"] - 10
