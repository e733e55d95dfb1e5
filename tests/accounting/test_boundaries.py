"""Which side of each limit of the definition an instant falls on."""

import pytest

from gapless.accounting import partition, sum_ledgers
from gapless.model.leaf import LEAVES
from tests.accounting.drawing import US, Act, Call, Drawing, Frame, draw

MS = 1000 * US


def account_leaves(acts: list[Act], frames: tuple[Frame, ...] = (), end: int = 0) -> dict[str, int]:
    inputs = draw(Drawing(acts, frames, [0, end or max(act.end for act in acts)]))
    return dict(sum_ledgers([partition(inputs.trace, inputs.arrivals, inputs.stages)]).leaves)


@pytest.mark.parametrize(
    ("gap", "leaf"), [(20 * US, "idle.device.gap"), (20 * US + 1, "idle.device.wait")]
)
def test_a_gap_of_20_us_is_between_queued_kernels(gap: int, leaf: str) -> None:
    acts = [Act("a", 0, 100, Call(0, 1)), Act("b", 100 + gap, 200 + gap, Call(2, 3))]
    assert account_leaves(acts)[leaf] == gap


@pytest.mark.parametrize(
    ("lag", "leaf"), [(100 * US, "idle.launch.latency"), (100 * US + 1, "idle.device.wait")]
)
def test_a_launch_takes_up_to_100_us(lag: int, leaf: str) -> None:
    assert account_leaves([Act("a", 3 + lag, 4 + lag, Call(2, 3))])[leaf] == lag


@pytest.mark.parametrize(
    ("returned", "leaf"), [(100, "idle.device.gap"), (101, "idle.launch.latency")]
)
def test_a_launch_that_returned_as_the_device_fell_idle_was_in_time(
    returned: int, leaf: str
) -> None:
    acts = [Act("a", 0, 100, Call(0, 1)), Act("b", 110, 120, Call(90, returned))]
    assert account_leaves(acts)[leaf] == 110 - returned


@pytest.mark.parametrize(("silence", "framed"), [(5 * MS, True), (5 * MS + 1, False)])
def test_a_silence_of_more_than_5_ms_is_unframed(silence: int, framed: bool) -> None:
    frames = (Frame("op", 0, 10), Frame("op", 10 + silence, 20 + silence))
    leaves = account_leaves(
        [Act("a", 30 + silence, 40 + silence, Call(15 + silence, 16 + silence))], frames
    )
    assert leaves["idle.host.python" if framed else "idle.host.unframed"] == silence


@pytest.mark.parametrize(
    ("call", "blocks"),
    [
        ((10, 75), True),  # returns 25 µs before the copy ends
        ((10, 74.999), False),
        ((59, 99), False),  # 40 µs long
        ((59, 99.001), True),
    ],
)
def test_a_call_blocks_above_40_us_and_within_25_us_of_the_end(
    call: tuple[float, float], blocks: bool
) -> None:
    start, end = (round(edge * US) for edge in call)
    acts = [
        Act("copy", 70 * US, 100 * US, Call(start, end), "h2d"),
        Act("next", 110 * US, 120 * US, Call(105 * US, 109 * US)),
    ]
    assert ("idle.h2d.host" in account_leaves(acts)) is blocks


@pytest.mark.parametrize(("launched", "drained"), [(9, 50), (10, 10)])
def test_a_step_waits_for_what_was_launched_before_it(launched: int, drained: int) -> None:
    acts = [Act("k", 20, 50, Call(launched, launched + 1))]
    rows = partition(draw(Drawing(acts, steps=[0, 10, 60])).trace).rows
    assert [row.end for row in rows] == [drained, 60]


def refill(acts: list[Act], *frames: Frame) -> int:
    return account_leaves(acts, frames, 500).get("idle.sync.refill", 0)


K = Act("K", 10, 100, Call(0, 1))
NEXT = Act("N", 400, 500, Call(395, 399))


@pytest.mark.parametrize(("end", "debt"), [(99, 0), (100, 70), (101, 70)])
def test_a_sync_covers_a_stream_that_ran_dry_by_its_end(end: int, debt: int) -> None:
    assert refill([K, NEXT], Frame("sync", 30, end)) == debt


@pytest.mark.parametrize(("launched", "debt"), [(29, 70), (30, 0)])
def test_a_sync_covers_what_was_enqueued_before_it(launched: int, debt: int) -> None:
    late = Act("K", 35, 100, Call(launched, launched + 1))
    early = Act("A", 10, 35, Call(0, 1))
    paid_ns = refill([early, late, NEXT], Frame("sync", 30, 105))
    assert paid_ns == (debt or 5)  # else only what the first ran after the sync began


@pytest.mark.parametrize(("start", "debt"), [(99, 1), (100, 0)])
def test_a_free_is_a_sync_if_the_device_runs_dry_inside(start: int, debt: int) -> None:
    assert refill([K, NEXT], Frame("alloc", start, 110)) == debt


@pytest.mark.parametrize(("start", "debt"), [(100, 90), (99, 1 + 30)])
def test_a_free_that_is_no_sync_counts_nothing(start: int, debt: int) -> None:
    # Where the free is a sync, what it covered is not covered again by the sync after it.
    second = Act("B", 10, 140, Call(2, 3), stream=20)
    frames = (Frame("alloc", start, 110), Frame("sync", 50, 145, "b"))
    assert refill([K, second, NEXT], *frames) == debt


@pytest.mark.parametrize(("start", "debt"), [(49, 0), (50, 50)])
def test_syncs_that_began_before_the_first_window_leave_no_debt(start: int, debt: int) -> None:
    acts = [Act("A", 10, 50, Call(0, 1)), Act("K", 50, 100, Call(41, 42)), NEXT]
    inputs = draw(Drawing(acts, [Frame("sync", start, 105)], [40, 500]))
    ledger = partition(inputs.trace)
    assert ledger.rows[0].start == 50
    assert sum_ledgers([ledger]).leaves.get("idle.sync.refill", 0) == debt


@pytest.mark.parametrize(("start", "leaf"), [(59, "collate"), (60, "hand-over")])
def test_a_batch_is_handed_over_from_the_end_of_its_last_stage(start: int, leaf: str) -> None:
    frames = (Frame("data", start, start + 1, stages=((0, 60, "collate"),)),)
    leaves = account_leaves([Act("k", 90, 95, Call(80, 81))], frames)
    assert leaves[f"idle.data.{leaf}"] == 1


@pytest.mark.parametrize(
    ("call_start", "copies"), [(9, False), (10, True), (29, True), (30, False)]
)
def test_an_operator_holds_the_launches_from_its_start_to_before_its_end(
    call_start: int, copies: bool
) -> None:
    acts = [Act("copy", 100, 120, Call(call_start, call_start + 1), "h2d")]
    ledger = partition(draw(Drawing(acts, [Frame("to", 10, 30)], [0, 120])).trace)
    under = ledger.facets.under[ledger.facets.under >= 0]
    assert ({LEAVES[int(leaf)] for leaf in under} == {"idle.h2d.host"}) is copies


@pytest.mark.parametrize(("start", "is_held"), [(19, False), (20, True), (29, True)])
def test_overhead_may_touch_the_frames_around_it(start: int, is_held: bool) -> None:
    frames = [Frame("op", 0, 20), Frame("op", 40, 50)]
    drawing = Drawing([Act("k", 60, 70, Call(55, 56))], frames, [0, 70], [(start, 40)])
    leaves = sum_ledgers([partition(draw(drawing).trace)]).leaves
    assert ("idle.profiler" in leaves) is is_held
