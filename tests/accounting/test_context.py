"""What a frame is charged as because of where it stands."""

import numpy as np
import pytest

from gapless.accounting import account, partition
from gapless.accounting.activities import activities
from gapless.accounting.context import in_context
from gapless.accounting.debt import debts
from gapless.accounting.host import host
from gapless.accounting.threads import threads
from gapless.accounting.windows import windows
from gapless.model.leaf import LEAVES
from tests.accounting.drawing import US, Act, Call, Drawing, Frame, Kind, Synced, draw


def tagged(drawing: Drawing) -> dict[str, str]:
    """Give the leaf of each event by name."""
    drawn = draw(drawing)
    side = threads(drawn.trace)
    found = in_context(side, activities(drawn.trace, side))
    return {who: LEAVES[leaf] for who, leaf in zip(drawn.who, found.leaf.tolist(), strict=True)}


def leaves(drawing: Drawing) -> dict[str, int]:
    drawn = draw(drawing)
    return dict(account([partition(drawn.trace, drawn.arrivals, drawn.stages)]).leaves)


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
    found = tagged(Drawing([copy("d2h", 10, end, call)], steps=[0, 200 * US]))
    assert (found["call"] == "idle.sync.return") is blocks


def test_only_what_launches_a_copy_to_the_device_is_its_host_part() -> None:
    frames = [
        Frame("to", 0, 30 * US, id="around"),
        Frame("to", 40 * US, 50 * US, id="later"),
        Frame("to", 5 * US, 20 * US, "b", id="elsewhere"),
        Frame("op", 1 * US, 29 * US, id="op", name="aten::copy_"),
    ]
    found = tagged(Drawing([copy("h2d", 15, 90, (10, 14))], frames, [0, 200 * US]))
    assert (found["around"], found["op"]) == ("idle.h2d.host", "idle.h2d.host")
    assert (found["later"], found["elsewhere"]) == ("idle.host.dispatch", "idle.host.dispatch")


@pytest.mark.parametrize(("end", "leaf"), [(95, "idle.h2d.host"), (30, "idle.sync.return")])
def test_the_synchronize_that_ends_a_blocking_copy_is_part_of_it(end: int, leaf: str) -> None:
    frames = [
        Frame("to", 0, 120 * US),
        Frame("sync", 96 * US, 110 * US, id="inside"),
        Frame("sync", 130 * US, 140 * US, id="outside"),
    ]
    found = tagged(Drawing([copy("h2d", 15, 100, (10, end))], frames, [0, 200 * US]))
    assert (found["inside"], found["outside"]) == (leaf, "idle.sync.return")


def alloc(name: str, at: int, who: str) -> Frame:
    return Frame("alloc", at, at + 1, id=who, name=name)


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
    found = tagged(Drawing([Act("k", 0, 5, None)], frames, [0, 100]))
    for who in ("first", "free", "again"):
        assert found[who] == "idle.alloc.retry"
    for who in ("malloc", "after", "bare", "bare again", "release", "unmap"):
        assert found[who] == "idle.alloc", who
    assert found["host"] == "idle.alloc.host"


def test_a_free_outside_any_operator_taints_no_other() -> None:
    frames = [alloc("cudaFree", 0, "bare"), alloc("cudaMalloc", 11, "malloc"), Frame("op", 10, 20)]
    drawn = Drawing([], frames)
    assert tagged(drawn)["malloc"] == "idle.alloc"


def test_overhead_holds_a_silent_training_thread_without_any_frame() -> None:
    drawing = Drawing([Act("k", 50, 60, Call(40, 41, "b"))], steps=[0, 60], overhead=[(10, 30)])
    assert leaves(drawing)["idle.profiler"] == 20


def test_overhead_holds_another_thread_only_inside_a_frame() -> None:
    frames = [Frame("op", 5, 45, "b"), Frame("op", 70, 75, "b"), Frame("op", 1, 99, "m")]
    drawing = Drawing(
        [Act("k", 50, 60, Call(40, 44, "b")), Act("l", 90, 100, Call(80, 85, "b"))],
        frames,
        [0, 100],
        overhead=[(10, 30), (76, 79), (40, 50)],
    )
    drawn = draw(drawing)
    ledger = partition(drawn.trace)
    assert account([ledger]).leaves["idle.profiler"] == 20  # the second lies between b's frames
    assert [(note.what, note.count) for note in ledger.notes] == []


def test_overhead_that_held_nobody_is_a_note() -> None:
    frames = [Frame("op", 5, 15), Frame("op", 12, 13, "b")]
    drawn = draw(Drawing([Act("k", 0, 9, None)], frames, [0, 30], overhead=[(10, 20)]))
    notes = partition(drawn.trace).notes
    assert [(note.what, note.count) for note in notes] == [
        ("profiler overhead events that held no thread", 1)
    ]


def owed(frames: list[Frame], syncs: list[Synced]) -> list[int]:
    """Give the debts of device 0, on which stream 7 runs 10-100 and stream 20 runs 20-60."""
    acts = [Act("a", 10, 100, Call(0, 1)), Act("b", 20, 60, Call(2, 3), stream=20)]
    drawn = draw(Drawing(acts, frames, [0, 200], syncs=syncs))
    side = threads(drawn.trace)
    found = activities(drawn.trace, side)
    bounds = windows(np.array([0, 200]), found)
    return [debt.amount for debt in debts(host(side, found), found, bounds)]


SYNC = Frame("sync", 30, 105, correlation=500)


@pytest.mark.parametrize(
    ("sync", "amount"),
    [
        (Synced(30, 60, 500, stream=20), 30),
        (Synced(30, 60, 500, stream=7), 70),
        (Synced(30, 60, 500, stream=3, wait_stream=20, name="Event Sync"), 30),
        (Synced(30, 100, 500, stream=7, name="Context Sync"), 70),
        (Synced(30, 60, 501, stream=20), 70),  # of another call
        (Synced(30, 60, 500, stream=-1), 70),
        (Synced(30, 60, 500, stream=20, device=-1), 30),
    ],
)
def test_a_sync_covers_the_stream_that_its_record_names(sync: Synced, amount: int) -> None:
    assert owed([SYNC], [sync]) == [amount]


def test_a_sync_of_another_device_covers_nothing_here() -> None:
    assert owed([SYNC], [Synced(30, 60, 500, stream=7, device=1)]) == []
    assert owed([SYNC], [Synced(30, 60, 500, stream=9, device=0)]) == []


def test_stages_without_length_say_nothing() -> None:
    frames = [Frame("data", 0, 40, stages=((5, 5, "read"),))]
    drawing = Drawing([Act("k", 50, 60, Call(40, 41))], frames, [0, 60])
    assert leaves(drawing)["idle.data.unstaged"] == 40


def test_lost_spans_are_unknown_where_nothing_is_open() -> None:
    frames = [Frame("op", 10, 20), Frame("op", 60, 65, "b"), Frame("op", 90, 95, "b")]
    acts = [Act("k", 50, 60, Call(40, 41)), Act("l", 96, 100, Call(91, 92, "b"))]
    whole = leaves(Drawing(acts, frames, [0, 100]))
    some = leaves(Drawing(acts, frames, [0, 100], lost=((0, 30), (70, 80))))
    assert "idle.unknown" not in whole
    assert some["idle.unknown"] == 20 + 10
    assert some["idle.host.dispatch"] == whole["idle.host.dispatch"]
    assert some["idle.host.engine"] == whole["idle.host.engine"] - 10
