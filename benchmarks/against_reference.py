"""Compare the account with a small reference written from the same definition, on random traces.

``python -m benchmarks.against_reference --reference attribution.py --count 1000 --seed 1`` draws
small traces, charges each by both, and compares leaves by window, refilled time, groups and blamed
events. It prints counts as JSON and exits with 1 on any difference. The reference is a file that
need not be part of this repository.
"""

import argparse
import importlib.util
import itertools
import json
import random
import sys
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from msgspec.structs import replace

from gapless.accounting import partition
from gapless.model.leaf import LEAVES, group_of
from tests.accounting.drawing import Act, Call, Drawing, DrawnInputs, Frame, draw

TICKS = (1, 500, 5_000, 11_000, 37_000, 400_000)  # ns: small, and beside each of the constants
N_TICKS = 240  # ticks
MAX_ACTIVITIES = 16  # activities, about
TAGS = (
    *("op",) * 8,
    *("to", "to", "h2d", "sync", "sync", "alloc", "gc", "compile", "data", "data0", "io"),
    *("comm", "opt", "py", "py", "profiler", "cpu-node", "cpu-node"),
)
STAGES = ("read", "decode", "collate")


@dataclass(frozen=True)
class LedgerSum:
    """What two implementations must agree on."""

    bounds: list[int]
    leaves: list[dict[str, int]]
    groups: dict[str, int]
    refilled: dict[str, int]
    blamed: dict[str, list[str]]


def load_reference(path: Path) -> ModuleType:
    """Import the reference from its file."""
    spec = importlib.util.spec_from_file_location("reference", path)
    if spec is None or spec.loader is None:
        sys.exit(f"{path} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules["reference"] = module
    spec.loader.exec_module(module)
    return module


# ── Drawing ─────────────────────────────────────────────────────────────────────────────────────


def is_drawn(dice: random.Random, share: float) -> bool:
    """Say yes in a share of all cases."""
    return dice.random() < share


def draw_nested(dice: random.Random, lo: int, hi: int, depth: int) -> list[tuple[int, int]]:
    """Draw intervals that nest, within ``[lo, hi)``."""
    out: list[tuple[int, int]] = []
    position = lo
    while position < hi - 1 and is_drawn(dice, 0.75):
        start = position + dice.randrange(0, max(1, (hi - position) // 3))
        end = min(hi, start + dice.randrange(1, max(2, hi - lo)))
        if end > start:
            out.append((start, end))
            out += draw_nested(dice, start, end, depth - 1) if depth else []
        position = end + dice.choice((0, 0, 1, 3))
    return out


def draw_frames(dice: random.Random, tick: int) -> list[Frame]:
    """Draw the frames of one to three threads; some cross, as damaged records do."""
    out: list[Frame] = []
    kinds = dice.sample(TAGS, dice.randrange(3, 14))
    for thread in ("m", "b", "c")[: dice.choice((1, 1, 2, 2, 3))]:
        lo, hi = sorted((dice.randrange(N_TICKS), dice.randrange(N_TICKS)))
        spans = draw_nested(dice, 0 if thread == "m" else lo, N_TICKS if thread == "m" else hi, 3)
        if is_drawn(dice, 0.3):
            begin = dice.randrange(N_TICKS)
            spans.append((begin, begin + dice.randrange(1, 60)))
        dice.shuffle(spans)
        for s, e in spans[: dice.randrange(1, 16)]:
            out.append(draw_frame(dice, dice.choice(kinds), (s * tick, e * tick), thread, len(out)))
    return out


def draw_frame(
    dice: random.Random, tag: str, span: tuple[int, int], thread: str, number: int
) -> Frame:
    """Draw one frame; a wait for a batch may know what its worker did."""
    stages: list[tuple[int, int, str]] = []
    if tag in ("data", "data0") and is_drawn(dice, 0.5):
        for stage in STAGES:
            s = span[0] + dice.randrange(-5, 10) * (span[1] - span[0]) // 10
            stages.append((s, s + 1 + dice.randrange((span[1] - span[0]) // 2 + 1), stage))
    return Frame(tag, *span, thread, f"f{number}", tuple(stages))


def draw_acts(dice: random.Random, tick: int, threads: list[str]) -> list[Act]:
    """Draw activities that follow their launches, each stream in order, with few exceptions."""
    out: list[Act] = []
    free: dict[int, int] = {}
    early, unrecorded = dice.choice((0, 0, 0.1)), dice.choice((0, 0.05, 0.3))
    lengths, pauses = dice.choice(((1, 2), (1, 2, 5, 20), (5, 60))), dice.choice((3, 10, 40))
    kinds = dice.choice((("compute",), ("compute", "compute", "comm", "h2d", "d2h", "p2p")))
    position = 0
    while position < N_TICKS and len(out) < MAX_ACTIVITIES:
        position += dice.randrange(pauses)
        call = Call(
            position * tick, (position + dice.choice((1, 1, 2, 4, 12))) * tick, id=f"c{len(out)}"
        )
        call = replace(call, thread=dice.choice(threads))
        size, stream = dice.choice((1, 1, 1, 1, 1, 3)), dice.choice((7, 7, 7, 20, 21))
        recorded = not is_drawn(dice, unrecorded)
        for _ in range(size):
            begin = max(free.get(stream, 0), draw_lag(dice, call, tick, early))
            end = begin + dice.choice(lengths) * tick
            free[stream] = end + dice.choice((0, 0, tick))
            act = Act(f"k{len(out):03d}", begin, end, call if recorded else None, stream=stream)
            late = dice.randrange(begin, end + 3) if is_drawn(dice, 0.5) else None
            if size == 1:
                kind = dice.choice(kinds)
                act = replace(act, kind=kind, last_rank=late if kind == "comm" else None)
            out.append(replace(act, graph=f"g{position}" if size > 1 and recorded else ""))
        position = call.end // tick if is_drawn(dice, 0.7) else position + 1
    return out


def draw_lag(dice: random.Random, call: Call, tick: int, early: float) -> int:
    """Draw when a device begins what a call launched, were it free."""
    if is_drawn(dice, early):
        return call.start - dice.choice((1, tick // 2, tick))
    begin = dice.choice((call.start, call.end, call.end, call.end))
    return begin + dice.choice((0, 1, tick, tick, 2 * tick, 9 * tick))


def draw_waits(
    dice: random.Random, tick: int, activities: list[Act], threads: list[str]
) -> list[Frame]:
    """Draw what waits for activities: synchronisations, frees, copies that block."""
    out: list[Frame] = []
    for number, act in enumerate(activities):
        if is_drawn(dice, 0.35):
            start = max(0, act.end - dice.choice((1, 3, 10, 60)) * tick)
            end = act.end + dice.choice((0, 1, tick, tick, -1, 3 * tick))
            tag, thread = dice.choice(("sync", "sync", "sync", "alloc")), dice.choice(threads)
            out.append(Frame(tag, start, max(end, start + 1), thread, f"w{number}"))
    return out


def draw_blocking(dice: random.Random, tick: int, act: Act) -> Act:
    """Make some copies block: their call ends with them."""
    if act.kind not in ("h2d", "d2h") or act.call is None or is_drawn(dice, 0.6):
        return act
    end = act.end + dice.choice((0, tick, -tick))
    return replace(act, call=replace(act.call, end=max(end, act.call.start + 1)))


def draw_trace(seed: int) -> Drawing:
    """Draw one trace."""
    dice = random.Random(seed)
    tick = dice.choice(TICKS)
    threads = ["m", *dice.sample(["b", "c"], dice.randrange(2))]
    device = [draw_blocking(dice, tick, act) for act in draw_acts(dice, tick, threads)]
    host = draw_frames(dice, tick) + draw_waits(dice, tick, device, threads)
    cuts = sorted(dice.sample(range(N_TICKS), dice.choice((2, 2, 3, 4, 6))))
    gap = dice.choice((0, 0, 2))
    steps = [
        (a * tick, (b - gap if b - gap > a else b) * tick) for a, b in itertools.pairwise(cuts)
    ]
    overhead: list[tuple[int, int]] = []
    for _ in range(dice.choice((0, 0, 1, 3))):
        begin = dice.randrange(N_TICKS)
        overhead.append((begin * tick, (begin + dice.choice((1, 3, 15))) * tick))
    return Drawing(device, host, steps, overhead)


# ── Both sides ──────────────────────────────────────────────────────────────────────────────────


def charge_by_reference(reference: ModuleType, trace_drawing: Drawing) -> LedgerSum:
    """Charge a drawing by the reference."""
    calls: dict[int, Any] = {}
    activities = [to_reference_act(reference, act, calls) for act in trace_drawing.acts]
    activities.sort(key=lambda act: (act.s, act.stream, act.id))
    bounds, rows = reference.ledger(
        activities,
        [to_reference_frame(reference, frame) for frame in trace_drawing.frames],
        None,
        "m",
        list(trace_drawing.overhead),
        list(trace_drawing.steps),
    )
    leaves = [
        coarse_sums(reference.account([p for p in rows if lo <= p.start < hi]))
        for lo, hi in itertools.pairwise(bounds)
    ]
    groups: Counter[str] = Counter()
    blamed: dict[str, set[str]] = {}
    for piece in rows:
        busy = piece.leaf.startswith("busy")  # its classes, the observer's too, are no matter here
        groups["busy" if busy else reference.group(piece)] += piece.end - piece.start
        blamed.setdefault(coarse_leaf(piece.leaf), set()).add(piece.culprit)
    refilled = coarse_sums(reference.account([p for p in rows if p.refill]))
    return LedgerSum(
        bounds, leaves, dict(groups), refilled, {k: sorted(v) for k, v in blamed.items()}
    )


def to_reference_frame(reference: ModuleType, frame: Frame) -> Any:  # noqa: ANN401
    """Make a frame of the reference's own kind."""
    tag, workers = ("data", 0) if frame.tag == "data0" else (frame.tag, 1)
    return reference.Frame(
        tag, frame.start, frame.end, frame.thread, frame.id, workers, frame.stages
    )


def to_reference_act(reference: ModuleType, act: Act, calls: dict[int, Any]) -> Any:  # noqa: ANN401
    """Make an activity of the reference's own kind; those of one graph launch share the call."""
    call = act.call
    if call is not None and id(call) not in calls:
        calls[id(call)] = reference.Frame("op", call.start, call.end, call.thread, call.id)
    kind = {"compute": "tc_math", "h2d": "pinned"}.get(act.kind, "")
    return reference.Act(
        act.id,
        act.start,
        act.end,
        None if call is None else calls[id(call)],
        act.kind,
        kind,
        act.stream,
        act.graph,
        act.last_rank,
    )


def charge_by_gapless(trace_drawing: Drawing) -> LedgerSum:
    """Charge a drawing by gapless."""
    drawn: DrawnInputs = draw(trace_drawing)
    ledger = partition(drawn.trace, drawn.arrivals, drawn.stages)
    leaves: list[Counter[str]] = [Counter() for _ in ledger.rows]
    groups: Counter[str] = Counter()
    refilled: Counter[str] = Counter()
    blamed: dict[str, set[str]] = {}
    by_group = ledger.group_leaf()
    for index in range(len(ledger)):
        length, leaf = int(ledger.end[index] - ledger.start[index]), LEAVES[int(ledger.leaf[index])]
        culprit = int(ledger.culprit[index])
        leaves[int(ledger.row[index])][coarse_leaf(leaf)] += length
        group = "busy" if leaf.startswith("busy") else group_of(LEAVES[int(by_group[index])])
        groups[group] += length
        blamed.setdefault(coarse_leaf(leaf), set()).add(
            drawn.event_names[culprit] if culprit >= 0 else ""
        )
        if ledger.facets.refill[index] >= 0:
            refilled[coarse_leaf(leaf)] += length
    return LedgerSum(
        [ledger.rows[0].start, *(row.end for row in ledger.rows)],
        [dict(counter) for counter in leaves],
        dict(groups),
        dict(refilled),
        {leaf: sorted(culprits) for leaf, culprits in blamed.items()},
    )


def coarse_sums(sums: Mapping[str, int]) -> dict[str, int]:
    """Sum leaves that only one side tells apart: classes of busy time, kinds of allocation."""
    out: Counter[str] = Counter()
    for leaf, ns in sums.items():
        out[coarse_leaf(leaf)] += ns
    return dict(out)


def coarse_leaf(leaf: str) -> str:
    """Name a leaf as coarsely as the reference does."""
    for head in ("busy", "idle.alloc", "idle.io_main"):
        if leaf.startswith(head):
            return head
    return leaf


def differences(reference: ModuleType, trace_drawing: Drawing) -> dict[str, Any]:
    """Return what the two sides say where they differ."""
    reference_sum, gapless_sum = (
        charge_by_reference(reference, trace_drawing),
        charge_by_gapless(trace_drawing),
    )
    return {
        name: {"reference": vars(reference_sum)[name], "gapless": vars(gapless_sum)[name]}
        for name in vars(reference_sum)
        if vars(reference_sum)[name] != vars(gapless_sum)[name]
    }


def main() -> None:
    """Compare as many drawings as asked for and print the counts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--reference", type=Path, required=True)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--show", type=int, default=3, help="how many differences to print")
    options = parser.parse_args()
    reference = load_reference(options.reference)
    start_s, leaves, different = time.perf_counter(), Counter[str](), list[dict[str, Any]]()
    for number in range(options.count):
        seed = options.seed * 1_000_003 + number
        trace_drawing = draw_trace(seed)
        differing = differences(reference, trace_drawing)
        leaves.update(leaf for window in charge_by_gapless(trace_drawing).leaves for leaf in window)
        if differing:
            different.append({"seed": seed, **differing})
    out = {
        "count": options.count,
        "seed": options.seed,
        "different": len(different),
        "seconds": round(time.perf_counter() - start_s, 1),
        "traces_with_leaf": dict(leaves.most_common()),
        "first": different[: options.show],
    }
    print(json.dumps(out, indent=1))
    sys.exit(1 if different else 0)


if __name__ == "__main__":
    main()
