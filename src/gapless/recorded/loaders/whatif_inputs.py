"""The inputs for a replay of a loader's queue, from a recorded run."""

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
from msgspec.structs import asdict, replace

from gapless import wire
from gapless.accounting.intervals import overlap, union
from gapless.model.facts import Facts, Loader
from gapless.model.machine import Constants
from gapless.model.recording import Recording
from gapless.model.run import RecordedRun
from gapless.model.trace import Int64
from gapless.recorded.loaders.batches import Columns, gather_fetches
from gapless.recorded.loaders.hand_over import HandOvers, measure_hand_overs
from gapless.recorded.loaders.iterations import mark_lengths, measure_turns, median_of, turn_spans
from gapless.recorded.loaders.sampler import sampling_lane
from gapless.recorded.loaders.unrecorded import (
    OrderedHandOvers,
    cpu_shares,
    infer_lengths,
    split_lengths,
)
from gapless.recorded.loaders.waits import MatchedWaits, match_waits
from gapless.recorded.machine.samples import samples_within
from gapless.recorded.training.edges import Bool, fact_of, loader_kind
from gapless.recorded.training.processes import Training, counted_lane, select_steppers, trainings
from gapless.recorded.values import as_int
from gapless.replay.loader.baseline import fit_worker_threads
from gapless.replay.loader.costs import BatchRows, LoaderInputs

_MIN_EXCESS: Final = 2.0  # times as long: another rank's loader is the one that is waited for
_MIN_STEADY_ROWS: Final = 40  # hand-overs: with fewer, those after a gap are used too
_DEVICE_WORK: Final = ("busy.", "copy.", "comm.", "idle.device.gap")  # of a device
_PER_CENT: Final = 100.0


def loader_inputs(
    recording: Recording, facts: Facts, recorded: RecordedRun | None, constants: Constants | None
) -> tuple[LoaderInputs, ...]:
    """Return the inputs of each loader that feeds the training in one process.

    It is that of the first rank, unless another waits twice as long for data: that one decides.
    """
    all_trainings = trainings(recording)
    candidates = select_steppers(all_trainings) or all_trainings
    if not candidates:
        return ()
    training = _select_waiting(candidates, recorded)
    used_cpus, delayed_cpus = (
        _sampled_cpus(recording, training, series) for series in ("cpu", "run_queue")
    )
    all_inputs = [
        replace(
            _build_inputs(training, (facts, loader), recorded, constants),
            used_cpus=used_cpus,
            delay_share=delayed_cpus,
        )
        for loader in facts.loaders
        if loader.trains
    ]
    all_inputs = [fit_worker_threads(inputs) for inputs in all_inputs]
    return tuple(inputs for inputs in all_inputs if len(inputs.rows))


def _select_waiting(candidates: Sequence[Training], recorded: RecordedRun | None) -> Training:
    """Return the training that waits for data by far the longest, or the first."""
    waits_ns = {
        process.pid: sum(ns for leaf, ns in process.stepping.items() if leaf.startswith("data."))
        for process in (() if recorded is None else recorded.timeline.processes)
    }

    def wait_ns(training: Training) -> int:
        return waits_ns.get(training.process.pid, 0)

    longest = max(candidates, key=wait_ns)
    return longest if wait_ns(longest) > _MIN_EXCESS * wait_ns(candidates[0]) else candidates[0]


def _build_inputs(
    training: Training,
    facts_and_loader: tuple[Facts, Loader],
    recorded: RecordedRun | None,
    constants: Constants | None,
) -> LoaderInputs:
    facts, loader = facts_and_loader
    numbers = _alike_loaders(training, loader.id)
    matched_waits = [match_waits(training, number) for number in numbers]
    hand_overs = _concatenate([_build_hand_overs(waits) for waits in matched_waits])
    pin_ns, fetch_columns = _pin_lengths(training, numbers), gather_fetches(training, numbers)
    dispatch_ns = _dispatch_ns(training, numbers)
    _, steady = _steady_rows(training, numbers, hand_overs, loader)
    costs = measure_hand_overs(
        hand_overs, steady, (median_of(pin_ns) or 0, dispatch_ns), _count_fresh_batches(loader)
    )
    passing_ns = (costs.transit or 0) + (median_of(costs.hand) or 0) + (median_of(pin_ns) or 0)
    hand_overs = _infer_fetches(hand_overs, loader, fetch_columns, passing_ns)
    rows, row_positions = _steady_rows(training, numbers, hand_overs, loader)
    return LoaderInputs(
        loader=loader,
        machine=facts.machine,
        rows=rows,
        local_ranks=facts.world.local_ranks or facts.world.ranks,
        other_cpus=recorded.contention.cores
        if recorded is not None and recorded.contention
        else 0.0,
        on_device=facts.machine.device is not None,
        device_ns=_device_ns_per_batch(recorded, loader, facts.world.steps),
        hand=costs.hand if loader.num_workers else np.empty(0, np.int64),
        dispatch=dispatch_ns,
        sampler=_sampler_ns(training, numbers, hand_overs.take(row_positions)),
        transit=costs.transit if loader.num_workers else None,
        first_batch_ns=costs.first_extra,
        pin=pin_ns if loader.pin_memory else np.empty(0, np.int64),
        turns=measure_turns(training, numbers, matched_waits, rows),
        samples=_samples_per_fetch(fetch_columns),
        tensors=_tensors_per_batch(training, numbers),
        stages=_stage_shares(fetch_columns),
        constants=constants,
    )


def _sampled_cpus(recording: Recording, training: Training, name: str) -> float | None:
    """Return the mean of a sampled percentage of a training process while it stepped."""
    series = recording.samples.series.get(f"process.{training.process.pid}.{name}")
    if series is None or training.span is None:
        return None
    times, percent = np.asarray(series[0]), np.asarray(series[1])
    values = percent[samples_within(times, training.span)]
    return float(values.mean()) / _PER_CENT if len(values) else None


def _count_fresh_batches(loader: Loader) -> int:
    """Count the first batches of an iteration that come from newly started processes."""
    return 0 if loader.persistent_workers else loader.num_workers


def _alike_loaders(training: Training, loader: int) -> list[int]:
    """Return the loaders created by one line with the same settings."""
    process = training.process
    kind = loader_kind(process, loader)
    ids = [fact.id for fact in process.facts if fact.noun == "loader"]
    return [number for number in ids if loader_kind(process, number) == kind]


def _build_hand_overs(waits: MatchedWaits) -> HandOvers:
    fetch, fetches = waits.matches.fetch, waits.fetches
    is_known = fetch >= 0
    index = np.where(is_known, fetch, 0)

    def column_of(column: Int64) -> Int64:
        return np.where(is_known, column[index], -1) if len(column) else np.full(len(index), -1)

    wall_ns = column_of(fetches.end - fetches.start)
    cpu_ns, queue_ns = column_of(fetches.cpu), column_of(fetches.run_queue)
    on_ns = np.where(
        cpu_ns >= 0, np.minimum(cpu_ns, wall_ns), wall_ns
    )  # not observed: all of it may have run
    queue_ns = np.clip(queue_ns, 0, wall_ns - on_ns)
    return HandOvers(
        waits.ask_ns,
        waits.got_ns,
        waits.position,
        np.where(is_known, on_ns, -1),
        np.where(is_known, queue_ns, -1),
        np.where(is_known, wall_ns - on_ns - queue_ns, -1),
        column_of(fetches.start),
        column_of(fetches.end),
        waits.matches.dispatched,
    )


def _infer_fetches(
    hand_overs: HandOvers, loader: Loader, fetch_columns: Columns, passing_ns: int
) -> HandOvers:
    """Infer the lengths of unrecorded fetches from the waits for their batches."""
    if not loader.num_workers or loader.in_order is False:
        return hand_overs
    names = ("ask", "got", "position", "told", "begun", "ready")
    ordered = OrderedHandOvers(**{name: asdict(hand_overs)[name] for name in names})
    lengths_ns = infer_lengths(ordered, loader.num_workers, passing_ns)
    split_ns = split_lengths(
        lengths_ns,
        cpu_shares(fetch_columns["wall"], fetch_columns["cpu"], fetch_columns["run_queue"]),
    )
    on, queue, off = (
        np.where(lengths_ns >= 0, inferred, recorded)
        for inferred, recorded in zip(
            split_ns, (hand_overs.on, hand_overs.queue, hand_overs.off), strict=True
        )
    )
    return replace(hand_overs, on=on, queue=queue, off=off)


def _concatenate(tables: Sequence[HandOvers]) -> HandOvers:
    names = tuple(asdict(tables[0]))
    columns = {name: np.concatenate([asdict(table)[name] for table in tables]) for name in names}
    return HandOvers(**columns).take(np.argsort(columns["ask"], kind="stable"))


def _steady_rows(
    training: Training, numbers: Sequence[int], hand_overs: HandOvers, loader: Loader
) -> tuple[BatchRows, Int64]:
    """Return the rows of steps that no profiler touched, and which hand-overs they are.

    After a gap workers have run ahead: as many rows as fill their queue are left out, if others
    remain.
    """
    if len(hand_overs.ask) < 2:  # noqa: PLR2004 - between fewer lies no step
        return _no_rows(), np.empty(0, np.int64)
    previous_ns, ask_ns, got_ns = hand_overs.got[:-1], hand_overs.ask[1:], hand_overs.got[1:]
    is_regular = overlap(counted_lane(training), previous_ns, got_ns) == got_ns - previous_ns
    position = hand_overs.position
    follows = (position[1:] == position[:-1] + 1) | (position[1:] == 0)
    is_usable = is_regular & follows
    n_ahead = loader.num_workers * (loader.prefetch_factor or 2)
    is_settled = is_usable & (_since_gap(is_usable) >= n_ahead)
    positions = np.flatnonzero(is_settled if is_settled.sum() >= _MIN_STEADY_ROWS else is_usable)
    turn_ns = overlap(union(*turn_spans(training, numbers)), previous_ns, ask_ns)[positions]
    steady = positions + 1
    rows = BatchRows(
        host=np.maximum((ask_ns - previous_ns)[positions] - turn_ns, 0),
        turn=turn_ns,
        wait=(got_ns - ask_ns)[positions],
        on=hand_overs.on[steady],
        queue=hand_overs.queue[steady],
        off=hand_overs.off[steady],
        position=hand_overs.position[steady],
    )
    return rows, steady


def _no_rows() -> BatchRows:
    return BatchRows(*(np.empty(0, np.int64) for _ in range(7)))


def _since_gap(is_usable: Bool) -> Int64:
    """Count for each row those before it without a gap."""
    index = np.arange(len(is_usable))
    return index - np.maximum.accumulate(np.where(is_usable, -1, index))


def _pin_lengths(training: Training, numbers: Sequence[int]) -> Int64:
    return mark_lengths(training, numbers, wire.PIN)


def _dispatch_ns(training: Training, numbers: Sequence[int]) -> int:
    return median_of(mark_lengths(training, numbers, wire.DISPATCH)) or 0


def _sampler_ns(training: Training, numbers: Sequence[int], hand_overs: HandOvers) -> int:
    """Return the mean time in which samples were chosen within the wait for a batch."""
    sampling_ns = overlap(sampling_lane(training, numbers), hand_overs.ask, hand_overs.got)
    return round(float(sampling_ns.mean())) if len(sampling_ns) else 0


def _samples_per_fetch(fetch_columns: Columns) -> float | None:
    rows = fetch_columns["samples"] > 0
    n_fetches = int(fetch_columns["count"][rows].sum())
    return float(fetch_columns["samples"][rows].sum()) / n_fetches if n_fetches else None


def _tensors_per_batch(training: Training, numbers: Sequence[int]) -> int | None:
    facts = (fact_of(training.process, "batch", number) for number in numbers)
    return next((as_int(fact.values.get("tensors")) for fact in facts if fact is not None), None)


def _stage_shares(fetch_columns: Columns) -> Mapping[str, tuple[float, float]]:
    """Return the share of each stage in a fetch's time on a processor, and off it."""
    rows = fetch_columns["detailed"] > 0
    wall_ns = {
        stage: int(fetch_columns[f"{stage}_wall"][rows].clip(0).sum()) for stage in wire.STAGES
    }
    cpu_ns = {
        stage: int(fetch_columns[f"{stage}_cpu"][rows].clip(0).sum()) for stage in wire.STAGES
    }
    off_ns = {stage: max(0, wall_ns[stage] - cpu_ns[stage]) for stage in wire.STAGES}
    total_cpu_ns, total_off_ns = max(1, sum(cpu_ns.values())), max(1, sum(off_ns.values()))
    return {
        stage: (cpu_ns[stage] / total_cpu_ns, off_ns[stage] / total_off_ns)
        for stage in wire.STAGES
        if wall_ns[stage]
    }


def _device_ns_per_batch(recorded: RecordedRun | None, loader: Loader, steps: int) -> float | None:
    """Return how long a device works for each batch, in ns, if windows saw it at work."""
    account = recorded.account if recorded is not None else None
    if (
        account is None
        or not account.on_device
        or not account.refined_by
        or not account.account.steps
    ):
        return None
    work_ns = sum(
        ns for leaf, ns in account.account.leaves.items() if leaf.startswith(_DEVICE_WORK)
    )
    batches_per_step = max(1.0, loader.batches / steps) if steps else 1.0
    return work_ns / account.account.steps / batches_per_step
