"""Waits of one device for another of the same process."""

import pytest
from msgspec.structs import replace

from gapless.accounting import partition, sum_ledgers
from gapless.model.leaf import LEAF
from gapless.model.ledger import Ledger
from tests.accounting.drawing import US, Act, Call, Drawing, Frame, SyncRecord, culprit_names, draw

# Device 1 works until 400; device 0 is done at 100, and its next work K2, launched at 20, waits for
# an event (call 12 recorded it, call 15 waits for it) that device 1 reaches at 300, after M.
RECORD = Frame("op", 12, 13, name="cudaEventRecord", category=4, correlation=1012)
WAIT = Frame("op", 15, 16, name="cudaStreamWaitEvent", category=4, correlation=1015)
FIRST_ACT = Act("K1", 10, 100, Call(0, 1), device=0)
NEXT_ACT = Act("K2", 310, 360, Call(20, 21), device=0)
M = Act("M", 50, 300, Call(5, 6), device=1, stream=9)
WAIT_RECORD = SyncRecord(
    100, 310, 1015, device=0, name="Stream Wait Event", wait_event=1012, wait_stream=9
)


def scale_drawing(drawing: Drawing) -> Drawing:
    """Let a unit of the drawing be a microsecond."""

    def scale_call(launch: Call | None) -> Call | None:
        return launch and replace(launch, start=launch.start * US, end=launch.end * US)

    return replace(
        drawing,
        acts=[
            replace(a, start=a.start * US, end=a.end * US, call=scale_call(a.call))
            for a in drawing.acts
        ],
        frames=[replace(f, start=f.start * US, end=f.end * US) for f in drawing.frames],
        steps=[(0, 500 * US)],
    )


def measure_waits(
    *syncs: SyncRecord, acts: tuple[Act, ...] = (FIRST_ACT, NEXT_ACT, M)
) -> tuple[Ledger, dict[str, int]]:
    drawing = scale_drawing(Drawing(acts, [RECORD, WAIT], syncs=syncs))
    inputs = draw(drawing)
    ledger = partition(inputs.trace)
    rows = [index for index, row in enumerate(ledger.rows) if row.device == 0]
    leaves = sum_ledgers([ledger], [rows]).leaves
    names = ("idle.device.peer", "idle.device.wait")
    figures = {name: leaves.get(name, 0) // US for name in names}
    figures["blamed"] = sum(ledger.culprit == inputs.event_names.index("M"))
    assert culprit_names(ledger, "idle.device.peer", inputs.event_names) <= {"M"}
    return ledger, figures


def test_a_recorded_wait_is_the_other_devices_time() -> None:
    ledger, figures = measure_waits(WAIT_RECORD)
    assert figures == {"idle.device.peer": 200, "idle.device.wait": 10, "blamed": 2}
    assert ledger.group_leaf()[ledger.leaf == LEAF["idle.device.peer"]].size == 1


def test_without_its_record_a_wait_is_unknown() -> None:
    assert measure_waits()[1]["idle.device.wait"] == 210


@pytest.mark.parametrize(
    "sync",
    [
        replace(WAIT_RECORD, correlation=999),  # no call of that number
        replace(WAIT_RECORD, wait_event=999),
        replace(WAIT_RECORD, wait_stream=8),  # nothing of another device on that stream
        replace(WAIT_RECORD, wait_stream=-1),
        replace(WAIT_RECORD, stream=8),  # nothing enqueued behind it
        replace(WAIT_RECORD, name="Stream Sync"),
    ],
)
def test_records_that_tell_nothing_explain_nothing(sync: SyncRecord) -> None:
    assert measure_waits(sync)[1] == {"idle.device.peer": 0, "idle.device.wait": 210, "blamed": 1}


def test_an_event_that_was_reached_before_explains_nothing() -> None:
    early = replace(M, end=90)
    assert measure_waits(WAIT_RECORD, acts=(FIRST_ACT, NEXT_ACT, early))[1]["idle.device.peer"] == 0


def test_what_the_other_device_waited_for_is_charged_in_its_place() -> None:
    late = replace(M, id="M", start=250, call=Call(5, 200))  # until 200 the host was launching it
    _, figures = measure_waits(WAIT_RECORD, acts=(FIRST_ACT, NEXT_ACT, late))
    assert figures["idle.device.peer"] == 50
    assert figures["idle.device.wait"] == 10


def test_of_several_waits_the_longest_counts() -> None:
    short = Act("S", 40, 200, Call(4, 5), device=2, stream=5)
    short_record = replace(WAIT_RECORD, wait_stream=5)
    assert (
        measure_waits(short_record, WAIT_RECORD, acts=(FIRST_ACT, NEXT_ACT, M, short))[1][
            "idle.device.peer"
        ]
        == 200
    )
