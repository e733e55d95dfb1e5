"""What stands out of a run before its account: who else was at the machine, a slow beginning."""

from collections.abc import Iterator
from typing import Final

from gapless.model.rhythm import Phase
from gapless.model.run import LoaderUse, ProcessTime, Recorded
from gapless.report.numbers import percent, span, unit_for
from gapless.report.text import clean

_TAKEN: Final = 0.1  # of the processors: less of others is only among the machine's series
_STOLEN: Final = 0.02
_UNSTEADY: Final = 0.25  # of the usual step: by so much the usual step itself is uncertain
_KINDS: Final = 3  # times as long: steps of more than one kind
_SLOW: Final = 10  # times what is usual
_LONG: Final = 0.2  # of the life of the process
_LEAST: Final = 1e10  # ns: imports and a device take seconds
_MOST: Final = 0.5  # of the waits for a loader
_FEW: Final = 3  # optimizers, loaders that are named


def notable_lines(recorded: Recorded) -> Iterator[str]:
    """Say what a reader must know before the account."""
    yield from _others(recorded)
    phases = tuple(phase_lines(recorded))
    yield from phases or _varying(recorded)
    first = recorded.timeline.leading()
    if first is not None:
        yield from _beginning(first, recorded)
    for one in recorded.loaders[:1]:
        yield from _first_batches(one)


def _others(recorded: Recorded) -> Iterator[str]:
    """Say how much of the processors others had."""
    taken = recorded.others
    if taken is None or not taken.processors:
        return
    whole = taken.processors
    told = [
        f"{words} {cores:.2g} of {whole} processors ({percent(cores / whole)})"
        for words, cores, least in (
            ("other processes took", taken.cores, _TAKEN),
            ("the hypervisor gave away", taken.stolen or 0.0, _STOLEN),
        )
        if cores / whole >= least
    ]
    if told:
        yield (
            f"not alone: {', '.join(told)} on average; what ran on the CPU may be slower here than "
            "it has to be"
        )


def _varying(recorded: Recorded) -> Iterator[str]:
    """Say that steps vary, and whether that is the machine's doing or belongs to the training."""
    steps = recorded.steps
    if steps is None:
        return
    noise = steps.noise or 0.0
    if noise < _UNSTEADY and steps.p90_ns < _KINDS * steps.p10_ns:
        return
    unit = unit_for(steps.p90_ns)
    lengths = f"{unit.of(steps.p10_ns)} to {unit.of(steps.p90_ns)} {unit.name} (p10, p90)"
    if any(True for _ in _others(recorded)) or _held(recorded):
        yield f"steps take {lengths}, while the machine was not theirs alone: gains are rough"
    elif recorded.others is None:
        yield f"steps take {lengths}: whether others used the machine meanwhile was not recorded"
    else:
        yield (
            f"steps take {lengths}, and nothing else used the machine: they differ by themselves "
            f"({_why(recorded)})"
        )


def phase_lines(recorded: Recorded) -> Iterator[str]:
    """Say which phases there are, one after the other, where the largest one is not nearly all."""
    steps = recorded.steps
    if steps is None or not steps.phases:
        return
    whole = sum(one.wall_ns for one in steps.phases)
    if max(one.wall_ns for one in steps.phases) > (1 - _LONG) * whole:
        return
    told = [f"{one.count:,} steps{_each(one)} ({clean(one.anchor)})" for one in steps.phases[:_FEW]]
    rest = len(steps.phases) - _FEW
    more = f", then {rest} more" if rest > 0 else ""
    yield f"{len(steps.phases)} phases: {', then '.join(told)}{more}; other figures are of all"


def _each(one: Phase) -> str:
    """Give the usual step of a phase."""
    return "" if one.median_ns is None else f" of {span(one.median_ns)}"


def _why(recorded: Recorded) -> str:
    """Say what steps of one training differ in as a rule."""
    known = None if recorded.account is None else recorded.account.account
    if known is not None and known.groups.get("data", 0) >= _LONG * known.wall_ns:
        return "by how long they wait for data, at least"
    return "lengths of samples or episodes, steps of several kinds"


def _held(recorded: Recorded) -> bool:
    """Tell whether others computed on a device, or something held its clock back."""
    devices = recorded.devices_seen
    return any(
        (one.others or 0.0) >= _TAKEN or any(share >= _TAKEN for share in one.held.values())
        for one in devices
    )


def _beginning(one: ProcessTime, recorded: Recorded) -> Iterator[str]:
    """Say that the first step came late, and what of that was its first batch."""
    first, steps = one.first_step_ns, recorded.steps
    if first is None:
        yield from _unbegun(one)
        return
    if steps is None or first < max(_LEAST, _LONG * one.wall_ns):
        return
    if first < _SLOW * steps.median_ns:
        return
    share = percent(first / one.wall_ns)
    batch = one.first_batch_ns or 0
    waited = (
        f"; {span(batch)} of that it waited for the first batch" if batch >= _LONG * first else ""
    )
    yield f"the first step was done after {span(first)}, {share} of the whole{waited}"


def _unbegun(one: ProcessTime) -> Iterator[str]:
    """Say how long a process that never stepped waited for data."""
    waited = sum(ns for leaf, ns in one.leaves.items() if leaf.startswith("data."))
    if waited >= _LONG * one.wall_ns:
        none = ", and no batch came" if one.to_first_batch_ns is None else ""
        yield f"{span(waited)} of {span(one.wall_ns)} it waited for data{none}"


def _first_batches(one: LoaderUse) -> Iterator[str]:
    """Say that a loader was waited for at the beginning of its iterations above all."""
    if one.first_ns is None or one.iterations < 2 or (one.share or 0.0) < _TAKEN:  # noqa: PLR2004
        return
    share = one.first_ns * one.iterations / max(1, one.wait_ns)
    if share >= _MOST and one.first_ns * one.waits >= _SLOW * one.wait_ns:
        yield (
            f"{_name(one)}: the first batch of an iteration takes {span(one.first_ns)} (the mean "
            f"of {one.iterations:,}), {percent(min(1.0, share))} of all waiting for this loader"
        )


def optimizer_lines(recorded: Recorded) -> Iterator[str]:
    """Name the optimizers beside the one that ends a step."""
    named = [
        f"{clean(one.name)}.step{_place(one.file, one.line)} {one.calls:,} times"
        for one in recorded.optimizers[:_FEW]
    ]
    if len(recorded.optimizers) > _FEW:
        named.append(f"{len(recorded.optimizers) - _FEW} more")
    if named:
        yield f"other optimizers, within these steps: {' · '.join(named)}"


def shares_of(loaders: tuple[LoaderUse, ...]) -> str:
    """Share the waits in steps out among several loaders; nothing where it is one."""
    waited = [(one, one.share) for one in loaders if one.share]
    whole = sum(share for _, share in waited)
    if len(waited) < 2 or not whole:  # noqa: PLR2004 - one has all of it
        return ""
    told = [f"{_name(one)} {percent(share / whole)}" for one, share in waited[:_FEW]]
    rest = len(waited) - _FEW
    return " · ".join([*told, *([f"{rest} more loaders"] if rest > 0 else [])])


def _name(one: LoaderUse) -> str:
    return _place(one.file, one.line).lstrip() or f"loader {one.id}"


def _place(file: str | None, line: int | None) -> str:
    name = clean((file or "").replace("\\", "/").rpartition("/")[2])
    return f" {name}:{line}" if name else ""
