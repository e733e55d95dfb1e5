"""What a replay of a loader's queue is made of, from a recorded run."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from gapless import wire
from gapless.accounting.intervals import overlap, union
from gapless.model.facts import Facts, Loader
from gapless.model.machine import Constants
from gapless.model.recording import Recording
from gapless.model.run import Recorded
from gapless.model.trace import Int64
from gapless.replay.asrun import fitted
from gapless.replay.service import Inputs, Rows
from gapless.study.recorded.batches import Columns, fetched
from gapless.study.recorded.edges import Bool, fact_of, kind_of
from gapless.study.recorded.machine import within
from gapless.study.recorded.passing import Handed, passed
from gapless.study.recorded.sampler import sampling
from gapless.study.recorded.training import Training, regular, steppers, trainings
from gapless.study.recorded.turns import lengths_of, middle_of, turning, turns_of
from gapless.study.recorded.unrecorded import Taken, lengths, parted, shares
from gapless.study.recorded.values import whole
from gapless.study.recorded.waits import Matched, matched

_ENOUGH: Final = 40  # hand-overs: with fewer, those after a gap are taken too
_WORK: Final = ("busy.", "copy.", "comm.", "idle.device.gap")  # of a device
_PER_CENT: Final = 100.0


def feedings(
    recording: Recording, facts: Facts, recorded: Recorded | None, constants: Constants | None
) -> tuple[Inputs, ...]:
    """Give what is known of each loader that feeds the training, of the first rank's process."""
    every = trainings(recording)
    chosen = steppers(every) or every
    if not chosen:
        return ()
    used, delayed = (_sampled(recording, chosen[0], name) for name in ("cpu", "run_queue"))
    found = [
        replace(
            _inputs(chosen[0], (facts, loader), recorded, constants), used=used, delayed=delayed
        )
        for loader in facts.loaders
        if loader.trains
    ]
    found = [fitted(one) for one in found]
    return tuple(one for one in found if len(one.rows))


def _inputs(
    training: Training,
    of: tuple[Facts, Loader],
    recorded: Recorded | None,
    constants: Constants | None,
) -> Inputs:
    facts, loader = of
    numbers = _alike(training, loader.id)
    pairs = [matched(training, one) for one in numbers]
    handed = _together([_handed(one) for one in pairs])
    pin, own = _pinned(training, numbers), _fetches(training, numbers)
    dispatch = _dispatch(training, numbers)
    _, steady = _rows(training, numbers, handed, loader)
    way = passed(handed, steady, (middle_of(pin) or 0, dispatch), _anew(loader))
    passing = (way.transit or 0) + (middle_of(way.hand) or 0) + (middle_of(pin) or 0)
    handed = _completed(handed, loader, own, passing)
    rows, kept = _rows(training, numbers, handed, loader)
    return Inputs(
        loader=loader,
        machine=facts.machine,
        rows=rows,
        local_ranks=facts.world.local_ranks or facts.world.ranks,
        others=recorded.others.cores if recorded is not None and recorded.others else 0.0,
        on_device=facts.machine.device is not None,
        device_ns=_device(recorded, loader, facts.world.steps),
        hand=way.hand if loader.num_workers else np.empty(0, np.int64),
        dispatch=dispatch,
        sampler=_sampler(training, numbers, handed.take(kept)),
        transit=way.transit if loader.num_workers else None,
        first=way.first,
        pin=pin if loader.pin_memory else np.empty(0, np.int64),
        turns=turns_of(training, numbers, pairs, rows),
        samples=_samples(own),
        tensors=_tensors(training, numbers),
        stages=_stages(own),
        constants=constants,
    )


def _sampled(recording: Recording, training: Training, name: str) -> float | None:
    """Give the mean of a per cent that was sampled of a training process while it stepped."""
    series = recording.samples.series.get(f"process.{training.process.pid}.{name}")
    if series is None or training.span is None:
        return None
    at, percent = np.asarray(series[0]), np.asarray(series[1])
    inside = percent[within(at, training.span)]
    return float(inside.mean()) / _PER_CENT if len(inside) else None


def _anew(loader: Loader) -> int:
    """Count the first batches of an iteration that come from processes that were just started."""
    return 0 if loader.persistent_workers else loader.num_workers


def _alike(training: Training, loader: int) -> list[int]:
    """Give the loaders that one line made with the same settings."""
    process = training.process
    kind = kind_of(process, loader)
    ids = [one.id for one in process.facts if one.noun == "loader"]
    return [one for one in ids if kind_of(process, one) == kind]


def _handed(one: Matched) -> Handed:
    fetch, found = one.made.fetch, one.fetches
    known = fetch >= 0
    at = np.where(known, fetch, 0)

    def of(column: Int64) -> Int64:
        return np.where(known, column[at], -1) if len(column) else np.full(len(at), -1)

    wall = of(found.end - found.start)
    cpu, queue = of(found.cpu), of(found.run_queue)
    on = np.where(cpu >= 0, np.minimum(cpu, wall), wall)  # not observed: all of it may have run
    queue = np.clip(queue, 0, wall - on)
    return Handed(
        one.ask,
        one.got,
        one.position,
        np.where(known, on, -1),
        np.where(known, queue, -1),
        np.where(known, wall - on - queue, -1),
        of(found.start),
        of(found.end),
        one.made.dispatched,
    )


def _completed(handed: Handed, loader: Loader, own: Columns, passing: int) -> Handed:
    """Give fetches that were not recorded the length that the waits for their batches tell."""
    if not loader.num_workers or loader.in_order is False:
        return handed
    names = ("ask", "got", "position", "told", "begun", "ready")
    taken = Taken(**{name: vars(handed)[name] for name in names})
    found = lengths(taken, loader.num_workers, passing)
    parts = parted(found, shares(own["wall"], own["cpu"], own["run_queue"]))
    on, queue, off = (
        np.where(found >= 0, one, seen)
        for one, seen in zip(parts, (handed.on, handed.queue, handed.off), strict=True)
    )
    return replace(handed, on=on, queue=queue, off=off)


def _together(parts: Sequence[Handed]) -> Handed:
    names = tuple(vars(parts[0]))
    every = {name: np.concatenate([vars(one)[name] for one in parts]) for name in names}
    return Handed(**every).take(np.argsort(every["ask"], kind="stable"))


def _rows(
    training: Training, numbers: Sequence[int], handed: Handed, loader: Loader
) -> tuple[Rows, Int64]:
    """Give the rows of steps that no profiler touched, and which hand-overs they are.

    After a gap workers have run ahead: as many as fill their queue are left out, if others remain.
    """
    if len(handed.ask) < 2:  # noqa: PLR2004 - between fewer lies no step
        return _no_rows(), np.empty(0, np.int64)
    before, ask, got = handed.got[:-1], handed.ask[1:], handed.got[1:]
    inside = overlap(regular(training), before, got) == got - before
    position = handed.position
    follows = (position[1:] == position[:-1] + 1) | (position[1:] == 0)
    fits = inside & follows
    ahead = loader.num_workers * (loader.prefetch_factor or 2)
    late = fits & (_since_gap(fits) >= ahead)
    chosen = np.flatnonzero(late if late.sum() >= _ENOUGH else fits)
    turn = overlap(union(*turning(training, numbers)), before, ask)[chosen]
    steady = chosen + 1
    rows = Rows(
        host=np.maximum((ask - before)[chosen] - turn, 0),
        turn=turn,
        wait=(got - ask)[chosen],
        on=handed.on[steady],
        queue=handed.queue[steady],
        off=handed.off[steady],
        position=handed.position[steady],
    )
    return rows, steady


def _no_rows() -> Rows:
    return Rows(*(np.empty(0, np.int64) for _ in range(7)))


def _since_gap(fits: Bool) -> Int64:
    """Count for each row those before it without a gap."""
    at = np.arange(len(fits))
    return at - np.maximum.accumulate(np.where(fits, -1, at))


def _pinned(training: Training, numbers: Sequence[int]) -> Int64:
    return lengths_of(training, numbers, wire.PIN)


def _dispatch(training: Training, numbers: Sequence[int]) -> int:
    return middle_of(lengths_of(training, numbers, wire.DISPATCH)) or 0


def _sampler(training: Training, numbers: Sequence[int], handed: Handed) -> int:
    """Give how long samples were chosen in the wait for a batch, mean."""
    chosen = overlap(sampling(training, numbers), handed.ask, handed.got)
    return round(float(chosen.mean())) if len(chosen) else 0


def _fetches(training: Training, numbers: Sequence[int]) -> Columns:
    found = [fetched(training.process, one) for one in numbers]
    found += [
        fetched(worker, worker.loader)
        for worker in training.workers
        if worker.loader is not None and worker.loader in numbers
    ]
    return {name: np.concatenate([one[name] for one in found]) for name in found[0]}


def _samples(own: Columns) -> float | None:
    rows = own["samples"] > 0
    many = int(own["count"][rows].sum())
    return float(own["samples"][rows].sum()) / many if many else None


def _tensors(training: Training, numbers: Sequence[int]) -> int | None:
    facts = (fact_of(training.process, "batch", one) for one in numbers)
    return next((whole(one.values.get("tensors")) for one in facts if one is not None), None)


def _stages(own: Columns) -> Mapping[str, tuple[float, float]]:
    """Give the share of each stage in a fetch's time on a processor, and off it."""
    rows = own["detailed"] > 0
    wall = {one: int(own[f"{one}_wall"][rows].clip(0).sum()) for one in wire.STAGES}
    ran = {one: int(own[f"{one}_cpu"][rows].clip(0).sum()) for one in wire.STAGES}
    off = {one: max(0, wall[one] - ran[one]) for one in wire.STAGES}
    whole, beside = max(1, sum(ran.values())), max(1, sum(off.values()))
    return {one: (ran[one] / whole, off[one] / beside) for one in wire.STAGES if wall[one]}


def _device(recorded: Recorded | None, loader: Loader, steps: int) -> float | None:
    """Give what a device works on for each batch, in ns, if windows saw it at work."""
    known = recorded.account if recorded is not None else None
    if known is None or not known.on_device or not known.refined_by or not known.account.steps:
        return None
    work = sum(ns for leaf, ns in known.account.leaves.items() if leaf.startswith(_WORK))
    each = max(1.0, loader.batches / steps) if steps else 1.0
    return work / known.account.steps / each
