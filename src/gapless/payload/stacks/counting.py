"""Counts of sampled stacks, until they are written: of each how often, and for how long."""

from __future__ import annotations

from typing import Any

from ... import wire
from ..process_state import keep

MAX_STACKS = 2000  # different stacks that are counted between two reports
MAX_CODES = 20_000

_IMPORTLIB = "<frozen importlib"


class _Stacks:
    """What was counted since it was written last, and the code that was seen."""

    def __init__(self) -> None:
        self.fork()

    def fork(self) -> None:
        """Forget all, and the code that was seen."""
        # By id of the code and line of each frame: looks, ns on a processor, ns off it, and these
        # by kind; of all of it, ns in which the step was late.
        self.counts: dict[tuple[int, ...], list[Any]] = {}
        # By id; kept alive: to hash the codes themselves would take long. None: it is left out of
        # stacks, which are of a hundred frames soon where modules import one another.
        self.codes: dict[int, Any] = {}
        self.living: list[Any] = []
        self.rest = [0, 0, 0]  # the first three, of stacks that are not kept
        # Of the step that is late now, behind this edge: if no other edge comes, it was none.
        self.late_counts: dict[tuple[int, ...], list[Any]] = {}
        self.late_edge: int | None = None


stacks = keep(_Stacks())


def add(
    frames: list[tuple[Any, int]],
    elapsed_ns: int,
    waits: str | None,
    *,
    late_edge: int | None = None,
) -> None:
    """Count a stack (code and line, the innermost first) for some time.

    ``waits``: what for it was off the processor, or which device for. ``late_edge``: the number of
    the edge behind which a step is late.
    """
    if late_edge != stacks.late_edge:
        join_late()
        stacks.late_edge = late_edge
    entry = _entry(frames, stacks.counts if late_edge is None else stacks.late_counts)
    amounts = stacks.rest if entry is None else entry
    amounts[0] += 1
    amounts[1 if waits is None else 2] += elapsed_ns
    if late_edge is not None and entry is not None:
        entry[4] += elapsed_ns
    if waits is not None and entry is not None:
        entry[3][waits] = entry[3].get(waits, 0) + elapsed_ns


def join_late() -> None:
    """Count what was seen in the step that was late as the training's: the step has ended."""
    for key, amounts in stacks.late_counts.copy().items():
        entry = stacks.counts.setdefault(key, amounts)
        if entry is not amounts:
            entry[:3] = [amount + late for amount, late in zip(entry[:3], amounts[:3])]
            entry[4] += amounts[4]
            for kind, waited_ns in amounts[3].items():
                entry[3][kind] = entry[3].get(kind, 0) + waited_ns
    stacks.late_counts.clear()


def take(limit: int, *, is_late: bool = False) -> dict[str, Any]:
    """Return what was counted, as it is written, and count anew: the longest stacks, the rest.

    ``is_late``: what was seen in the step that is late, which is left out else.
    """
    counts = stacks.late_counts if is_late else stacks.counts
    ranked = sorted(counts.copy().items(), key=lambda item: (-sum(item[1][1:3]), -item[1][0]))
    longest = []
    for key, amounts in ranked[:limit]:
        frames = [
            [code.co_filename, line, _name(code)]
            for number, line in zip(key[::2], key[1::2])
            if (code := stacks.codes.get(number)) is not None
        ]
        if 2 * len(frames) == len(key):  # else the thread that looks has just forgotten some
            count, ran_ns, off_ns, kinds, late_ns = amounts
            longest.append([count, frames, ran_ns, off_ns, kinds, late_ns])
    for _, amounts in ranked[limit:]:
        _add_to_rest(amounts)
    looks = sum(amounts[0] for _, amounts in ranked)
    taken = {"stacks": longest, "looks": looks, "rest": [*stacks.rest]}
    counts.clear()
    stacks.rest[:] = [0, 0, 0]
    return taken


def forget() -> None:
    """Forget all, and the code that was seen."""
    stacks.fork()


def _entry(
    frames: list[tuple[Any, int]], counts: dict[tuple[int, ...], list[Any]]
) -> list[Any] | None:
    """Return what is counted of a stack; None where there are too many."""
    stack: list[int] = []
    if len(stacks.codes) > MAX_CODES:
        _begin_anew()
    for code, line in frames:
        number = id(code)
        if number not in stacks.codes:
            left_out = code.co_filename.startswith(_IMPORTLIB)
            stacks.codes[number] = None if left_out else code
            if left_out:
                stacks.living.append(code)
        if stacks.codes[number] is not None:
            stack += (number, line)
        if len(stack) >= 2 * wire.MAX_FRAMES:
            break
    key = tuple(stack)
    entry = counts.get(key)
    if entry is None and key and len(counts) < MAX_STACKS:
        entry = counts[key] = [0, 0, 0, {}, 0]
    return entry


def _begin_anew() -> None:
    """Forget code that is made anew again and again; what was counted stays in the rest."""
    join_late()
    for amounts in stacks.counts.values():
        _add_to_rest(amounts)
    stacks.counts.clear()
    stacks.codes.clear()
    stacks.living.clear()


def _add_to_rest(amounts: list[Any]) -> None:
    for index in range(len(stacks.rest)):
        stacks.rest[index] += amounts[index]


def _name(code: Any) -> str:
    """Return the name of a function, with its class where Python knows it (3.11)."""
    return getattr(code, "co_qualname", code.co_name).replace("<locals>.", "")
