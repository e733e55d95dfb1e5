"""What another loader would give: ratios of replays of its queue, unchanged and changed.

For a run without a device this is all; where a device works, its time for each batch is a floor,
and a replay of windows (``replay.graph``) can be coupled with the queue instead
(``replay.predict.coupled``): it gets the batches of a changed loader at each of its requests.
"""

from collections.abc import Sequence
from math import exp, hypot, log, log1p, sqrt
from typing import Final

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from gapless.model.change import LoaderChange, Prediction
from gapless.model.estimate import Estimate
from gapless.replay.loader.baseline import LoaderBaseline
from gapless.replay.loader.costs import BLOCKED, SAMPLER, LoaderInputs, make_draws, middle_draw
from gapless.replay.loader.queue import Queue, Source, play_batches, warm_up
from gapless.replay.loader.scenario import LoaderScenario, make_scenario, merge_changes
from gapless.wire import STAGES

PREDICT_ROUNDS: Final = 80
_MIN_BATCHES: Final = 20  # hand-overs outside windows
_MAX_FAITHFUL_ERROR: Final = 0.05  # identity: within it a replay stands for the run
_MAX_NARROW_ERROR: Final = 0.10  # beyond it, the excess error widens the prediction
_MAX_ERROR: Final = 0.30  # beyond that, it does not
_MAX_QUEUE_SHARE: Final = 0.5  # of a fetch: threads of a worker that wait so long for one another
_MAX_SHORT_EPOCH: Final = 100  # batches of an iteration whose turns are simulated
_STAGES: Final = frozenset((*STAGES, BLOCKED, "hand-over", "pin", SAMPLER))
_MAX_OTHERS_SHARE: Final = 0.25  # of the processors, by others
_WORKER_ROOM: Final = 0.7  # of the workers' time: above that, one thread each may be too few
_MIN_FLOOR: Final = 0.97  # caches of several processors hold more than those of one
FAMILY: Final = "feed"
# The error of the model itself: half of the gain or loss, within these limits.
_MODEL: Final = Estimate(0.01, 0.5, 0.06)


class LoaderCoupling(Struct, frozen=True):
    """What feeds a replayed window, and by what factor its training thread takes longer."""

    source: Source
    host: float


def predict_loader(
    inputs: LoaderInputs, changes: Sequence[LoaderChange], rounds: int = PREDICT_ROUNDS
) -> Prediction:
    """Predict what changes of one loader give of an un-profiled step, or return why not.

    The middle, and 90 %, of the ratios of replays of resampled rows, with uncertain values
    drawn.
    """
    inputs = _drop_long_turns(inputs)
    change = merge_changes(inputs.loader.id, changes)
    error = replay_error(inputs)
    refusal = _find_refusal(inputs, changes) or _refuse_error(error)
    if refusal is not None:
        return Prediction(None, FAMILY, refused=refusal)
    unchanged = LoaderChange(inputs.loader.id)
    ratios, loads = list[float](), list[float]()
    for draw in make_draws(inputs, rounds):
        baseline = LoaderBaseline(inputs, draw)
        scenario = make_scenario(baseline, change)
        ratios.append(
            _scenario_step_ns(make_scenario(baseline, unchanged)) / _scenario_step_ns(scenario)
        )
        loads.append(scenario.load)
    speedup = _spread_estimate(ratios)
    if abs(error or 0.0) > _MAX_FAITHFUL_ERROR:
        speedup = _widen_by_error(speedup, error or 0.0)
    notes = _make_notes(inputs, change, error, float(np.median(loads)))
    floor = speedup.low if _is_in_process(inputs, change) else _find_floor(inputs, change)
    return Prediction(speedup, FAMILY, notes=notes, floor=floor)


def _is_in_process(inputs: LoaderInputs, change: LoaderChange) -> bool:
    """Return whether stages change of a loader without workers, and nothing else.

    Its batches are made by the thread that trains, in sequence with its steps: no concurrency has
    to be predicted, which is the usual error of such predictions.
    """
    is_alone = change == LoaderChange(inputs.loader.id, stages=change.stages)
    return is_alone and bool(change.stages) and not inputs.loader.num_workers


def _find_floor(inputs: LoaderInputs, change: LoaderChange) -> float | None:
    """Return the least speed-up of one thread in each worker; ``None``: not known.

    One thread needs no more of the processors for a batch than several, which wait for one another
    and spin. Where it still makes batches as fast as they are used, nothing becomes slower.
    """
    has_run = inputs.rows.on >= 0
    if change != LoaderChange(inputs.loader.id, worker_threads=1) or not has_run.any():
        return None
    run_ns, off = (float(column[has_run].mean()) for column in (inputs.rows.on, inputs.rows.off))
    longest = run_ns * inputs.worker_threads + off
    return (
        _MIN_FLOOR
        if longest <= _WORKER_ROOM * inputs.loader.num_workers * inputs.rows.step()
        else None
    )


def replay_error(inputs: LoaderInputs) -> float | None:
    """Return by how much the replay of the unchanged loader misses the run's own step, relative."""
    inputs = _drop_long_turns(inputs)
    if len(inputs.rows) < _MIN_BATCHES or not _has_fetch_times(inputs):
        return None
    draw = middle_draw(inputs)
    run_step = inputs.rows.take(draw.rows).step()
    return (
        _scenario_step_ns(
            make_scenario(LoaderBaseline(inputs, draw), LoaderChange(inputs.loader.id))
        )
        / run_step
        - 1
    )


def couple_loader(
    baseline: LoaderBaseline, changes: Sequence[LoaderChange], start_ns: int
) -> LoaderCoupling:
    """Return the source for a replayed window that begins at a given time, with its queue."""
    scenario = make_scenario(baseline, merge_changes(baseline.inputs.loader.id, changes))
    settings = replace(
        scenario.settings, batches=None
    )  # no turn of an iteration is known in a window
    before = 3 * settings.workers * settings.prefetch
    return LoaderCoupling(
        warm_up(Queue(settings, scenario.costs), scenario.consumer, before, start_ns), scenario.host
    )


def _scenario_step_ns(scenario: LoaderScenario) -> float:
    """Return the mean time of a batch: of whole iterations, or once the queue is as it stays."""
    settings, rows = scenario.settings, len(scenario.consumer.host)
    warm = 2 * settings.workers * settings.prefetch + 4
    if settings.batches is None:
        batch_times = play_batches(Queue(settings, scenario.costs), scenario.consumer, rows + warm)
        return max(1.0, batch_times.step(warm - 1))
    turns = -(-rows // settings.batches)
    batch_times = play_batches(
        Queue(settings, scenario.costs), scenario.consumer, settings.batches * (1 + turns)
    )
    return max(1.0, batch_times.step(settings.batches - 1))


def _drop_long_turns(inputs: LoaderInputs) -> LoaderInputs:
    """Leave the turns of long iterations out: they are a small part of a step."""
    batches = inputs.turns.batches
    if batches is None or batches <= _MAX_SHORT_EPOCH:
        return inputs
    return replace(inputs, turns=replace(inputs.turns, batches=None))


def _spread_estimate(ratios: Sequence[float]) -> Estimate:
    low, mid, high = (log(ratio) for ratio in np.quantile(ratios, (0.05, 0.5, 0.95)).tolist())
    model_error = max(_MODEL.low, min(_MODEL.high, _MODEL.mid * abs(mid)))
    return Estimate(
        exp(mid - hypot(mid - low, model_error)),
        exp(mid),
        exp(mid + hypot(high - mid, model_error)),
    )


def _widen_by_error(estimate: Estimate, error: float) -> Estimate:
    """Return an interval whose ends are twice as far, and never nearer than 10 %.

    A replay that misses the run by more than a tenth may miss what is changed by as much.
    """
    extra = abs(log1p(error)) if abs(error) > _MAX_NARROW_ERROR else 0.0
    low, high = (
        max(estimate.mid / estimate.low, sqrt(1.1)),
        max(estimate.high / estimate.mid, sqrt(1.1)),
    )
    return Estimate(
        estimate.mid / low**2 * exp(-extra), estimate.mid, estimate.mid * high**2 * exp(extra)
    )


def _has_fetch_times(inputs: LoaderInputs) -> bool:
    """Return whether it is known what batches cost."""
    return not inputs.loader.num_workers or bool((inputs.rows.on >= 0).any())


def _find_refusal(inputs: LoaderInputs, changes: Sequence[LoaderChange]) -> str | None:
    """Return why nothing can be predicted."""
    unknown_stages = {name for change in changes for name in change.stages} - _STAGES
    if any(change.loader != inputs.loader.id for change in changes):
        return "the change is of another loader"
    if unknown_stages:
        return f"no stage of a fetch is called {', '.join(sorted(unknown_stages))}"
    if any(change.worker_threads for change in changes) and (
        inputs.worker_threads <= 1 or max(change.worker_threads or 1 for change in changes) > 1
    ):
        return "workers were not seen to compute with several threads, or still would: try it"
    if len(inputs.rows) < _MIN_BATCHES:
        return (
            f"{len(inputs.rows)} batches were handed over outside of windows; {_MIN_BATCHES} tell"
        )
    if not _has_fetch_times(inputs):
        return "no fetch of a batch that was handed over is known"
    return refuse_crowding(inputs, changes) or _refuse_others(
        inputs, merge_changes(inputs.loader.id, changes)
    )


def refuse_crowding(inputs: LoaderInputs, changes: Sequence[LoaderChange]) -> str | None:
    """Refuse where threads wait for the last of their team, which no queue of batches shows.

    A team that has more threads than processors always does; so do those of workers that wait for a
    processor most of the time.
    """
    cpus, threads = inputs.machine.cpus, [change.intra_op_threads or 0 for change in changes]
    max_threads = max(inputs.threads, *threads)
    if cpus is not None and not inputs.on_device and max_threads > cpus:
        team = f"{max_threads} threads compute on {cpus} processors"
        return f"{team}: how long one waits is not replayed"
    has_run = inputs.rows.on >= 0
    rows = inputs.rows
    on, queue, off = (int(column[has_run].sum()) for column in (rows.on, rows.queue, rows.off))
    if inputs.worker_threads <= 1 or queue <= _MAX_QUEUE_SHARE * (on + queue + off):
        return None
    if cpus is not None and inputs.other_cpus >= _MAX_OTHERS_SHARE * cpus:
        return f"{_describe_others(inputs)}: how long workers wait for one is up to them"
    return "workers compute with several threads each, which wait for a processor most of the time"


def _describe_others(inputs: LoaderInputs) -> str:
    return f"others took {inputs.other_cpus:.1f} processors"


def _refuse_others(inputs: LoaderInputs, change: LoaderChange) -> str | None:
    """Refuse to price fewer threads alone where others keep them waiting.

    A team goes on when its last thread has had a processor: how long that takes is up to others.
    """
    threads, loader = change.intra_op_threads, inputs.loader
    if inputs.on_device or threads is None or threads >= inputs.threads:
        return None
    cpus = inputs.machine.cpus
    if cpus is None or change.num_workers not in (None, loader.num_workers):
        return None
    if inputs.other_cpus < _MAX_OTHERS_SHARE * cpus or inputs.threads <= cpus - inputs.other_cpus:
        return None
    return f"{_describe_others(inputs)}: how long threads wait is up to them"


def _refuse_error(error: float | None) -> str | None:
    if error is None or abs(error) <= _MAX_ERROR:
        return None
    return f"the loader as it is, replayed, misses the run's step by {error:+.0%}"


def _make_notes(
    inputs: LoaderInputs, change: LoaderChange, error: float | None, load: float
) -> tuple[str, ...]:
    notes = list[str]()
    if error is not None and abs(error) > _MAX_FAITHFUL_ERROR:
        notes.append(f"the unchanged loader, replayed, is {error:+.0%} off; the interval is wider")
    if load > 1:
        notes.append(f"processors are asked for {load:.1f} times what there are")
    if inputs.machine.cpus is None:
        notes.append("the processors were not counted: no contention is assumed")
    if inputs.on_device and inputs.device_ns is None:
        notes.append("no window shows what a device needs for a batch: anything up to the step")
    if change.num_workers and not inputs.loader.num_workers:
        notes.append("the run had no workers: what they cost is known from other machines")
    return tuple(notes)
