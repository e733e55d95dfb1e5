"""Drawn traces, charged by gapless and instant by instant by the definition."""

import itertools

from hypothesis import given, settings
from hypothesis import strategies as st

from gapless.accounting import partition
from gapless.model.leaf import LEAVES
from gapless.model.ledger import Ledger
from tests.accounting.drawing import Act, Call, Drawing, Frame, Kind, draw
from tests.accounting.oracle import Charge, Oracle

LENGTH = 60  # ticks
TICKS = (1, 1_000, 10_000, 1_000_000)  # ns
TAGS = (
    *("op", "to", "cpu-node", "sync", "alloc", "free", "gc", "compile", "data", "data0"),
    *("io", "h2d", "comm", "opt", "py", "profiler", "range"),
)
STAGES = ("read", "decode", "collate")
THREADS = ("m", "m", "b", "c")


@st.composite
def frames(draw_: st.DrawFn, tick: int) -> list[Frame]:
    tags = draw_(st.lists(st.sampled_from(TAGS), min_size=1, max_size=8))
    drawn_frames: list[Frame] = []
    for number in range(draw_(st.integers(0, 12))):
        tag = draw_(st.sampled_from(tags))
        start, length = draw_(st.integers(0, LENGTH)), draw_(st.integers(0, 25))
        stages: list[tuple[int, int, str]] = []
        if tag.startswith("data") and draw_(st.booleans()):
            for stage in STAGES:
                s = start + draw_(st.integers(-4, 12))
                stages.append((s * tick, (s + draw_(st.integers(0, 8))) * tick, stage))
        thread = draw_(st.sampled_from(THREADS))
        end = (start + length) * tick
        drawn_frames.append(Frame(tag, start * tick, end, thread, f"f{number}", tuple(stages)))
    return drawn_frames


@st.composite
def acts(draw_: st.DrawFn, tick: int) -> list[Act]:
    drawn_acts: list[Act] = []
    kinds: tuple[Kind, ...] = ("compute", "compute", "comm", "h2d", "d2h", "p2p")
    lag = st.sampled_from((0, 0, 0, 1, 2, 12, -1))
    device_digits = draw_(st.sampled_from(("0", "01")))  # one device or two
    for launch in range(draw_(st.integers(0, 6))):
        start, length = draw_(st.integers(0, LENGTH - 5)), draw_(st.integers(1, 9))
        thread = draw_(st.sampled_from(THREADS))
        call = Call(start * tick, (start + length) * tick, thread, id=f"c{launch}")
        size, recorded = draw_(st.sampled_from((1, 1, 1, 3))), draw_(st.integers(0, 5)) > 0
        stream, device = (
            draw_(st.sampled_from((7, 7, 20))),
            int(draw_(st.sampled_from(device_digits))),
        )
        begin = start + draw_(st.sampled_from((0, length, length))) + draw_(lag)
        for _ in range(size):
            end = begin + draw_(st.integers(1, 20 if size == 1 else 4))
            kind = draw_(st.sampled_from(kinds)) if size == 1 else "compute"
            late = draw_(st.none() | st.integers(begin, end + 2)) if kind == "comm" else None
            drawn_acts.append(
                Act(
                    f"k{len(drawn_acts)}",
                    begin * tick,
                    end * tick,
                    call if recorded else None,
                    kind,
                    stream=stream,
                    graph=f"g{launch}" if size > 1 and recorded else "",
                    last_rank=None if late is None else late * tick,
                    device=device,
                )
            )
            begin = end + draw_(st.integers(0, 2))
    return drawn_acts


@st.composite
def waits(draw_: st.DrawFn, tick: int, device: list[Act]) -> list[Frame]:
    """Draw what waits for activities: synchronisations, and frees that do so inside."""
    wait_frames: list[Frame] = []
    for act in device:
        if draw_(st.integers(0, 3)) == 0:
            start = max(0, act.end - draw_(st.integers(1, 9)) * tick)
            tag = draw_(st.sampled_from(("sync", "sync", "free")))
            end = act.end + draw_(st.sampled_from((0, 0, 1, 2))) * tick
            wait_frames.append(Frame(tag, start, max(end, start), id=f"w{len(wait_frames)}"))
    return wait_frames


@st.composite
def steps(draw_: st.DrawFn, tick: int) -> list[tuple[int, int]]:
    cuts = sorted(draw_(st.sets(st.integers(0, LENGTH), min_size=2, max_size=4)))
    gap = draw_(st.sampled_from((0, 0, 1)))
    return [(a * tick, max(a + 1, b - gap) * tick) for a, b in itertools.pairwise(cuts)]


@st.composite
def drawings(draw_: st.DrawFn) -> tuple[int, Drawing]:
    tick = draw_(st.sampled_from(TICKS))
    moment = st.integers(0, LENGTH)
    spans = draw_(st.lists(st.tuples(moment, st.integers(1, 8)), max_size=2))
    gaps = draw_(st.lists(st.tuples(moment, st.integers(1, 8)), max_size=1))
    device = draw_(acts(tick))
    drawing = Drawing(
        device,
        draw_(frames(tick)) + draw_(waits(tick, device)),
        draw_(steps(tick)),
        overhead=[(s * tick, (s + e) * tick) for s, e in spans],
        lost=tuple((s * tick, (s + e) * tick) for s, e in gaps),
    )
    return tick, drawing


def timeline(ledger: Ledger, device: int, tick: int, event_names: tuple[str, ...]) -> list[Charge]:
    """Return what gapless charges each tick of a device with."""
    charges: list[Charge] = []
    for index, row in enumerate(ledger.row.tolist()):
        if ledger.rows[row].device != device:
            continue
        culprit, refill = int(ledger.culprit[index]), int(ledger.facets.refill[index])
        leaf = LEAVES[int(ledger.leaf[index])]
        charge = Charge(
            "busy" if leaf.startswith("busy") else leaf,
            event_names[culprit] if culprit >= 0 else "",
            event_names[refill] if refill >= 0 else "",
        )
        charges += [charge] * (int(ledger.end[index] - ledger.start[index]) // tick)
    return charges


def check_drawing(tick: int, drawing: Drawing) -> None:
    inputs = draw(drawing)
    ledger = partition(inputs.trace, inputs.arrivals, inputs.stages)
    for device in sorted({act.device for act in drawing.acts}):
        oracle = Oracle(drawing, tick, device)
        rows = [row for row in ledger.rows if row.device == device]
        assert [rows[0].start, *(row.end for row in rows)] == oracle.bounds
        expected = [charge._replace(is_loading=False) for charge in oracle.ticks]
        assert timeline(ledger, device, tick, inputs.event_names) == expected


@given(drawings())
@settings(max_examples=160)
def test_each_instant_is_charged_by_the_definition(case: tuple[int, Drawing]) -> None:
    check_drawing(*case)
