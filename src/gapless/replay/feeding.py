"""What another loader would give: ratios of replays of its queue, unchanged and changed.

Of a run without a device all is here; where a device works, its time for each batch is a floor, and
a replay of windows (``replay``'s graph) can be fed by ``fed`` instead: the batches of a changed
loader at each of its questions.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import exp, hypot, log, log1p, sqrt
from typing import Final

import numpy as np

from gapless.model.change import Feed, Predicted
from gapless.model.interval import Interval
from gapless.replay.asrun import AsRun
from gapless.replay.plans import Plan, merged, plan
from gapless.replay.queue import Asked, Queue, Source, simulate, warmed
from gapless.replay.service import BLOCKED, SAMPLER, Inputs, draws, middle
from gapless.wire import STAGES

ROUNDS: Final = 80
_LOOK: Final = 9  # rounds in which choices are compared
_LEAST: Final = 20  # hand-overs outside windows
_TELLING: Final = 0.05  # identity: within it a replay stands for the run
_OFF: Final = 0.10  # beyond it, by what it misses the run more is not known of what is changed
_REFUSED: Final = 0.30  # beyond that, it does not
_QUEUEING: Final = 0.5  # of a fetch: threads of a worker that wait so long for one another
_NEAR: Final = 0.02  # of the best choice: the cheapest of those is taken
_SHORT: Final = 100  # batches of an iteration whose turns are played
_STAGES: Final = frozenset((*STAGES, BLOCKED, "hand-over", "pin", SAMPLER))
_TAKEN: Final = 0.25  # of the processors, by others
_ROOM: Final = 0.7  # of the workers' time: beyond, one thread each may be too few
_AS_GOOD: Final = 0.97  # caches of several processors hold more than those of one
FAMILY: Final = "feed"
# What the model itself is off by: half of what is gained or lost, but so much at least, at most.
_MODEL: Final = Interval(0.01, 0.5, 0.06)


@dataclass(frozen=True)
class Fed:
    """What feeds a replayed window, and by what factor its training thread takes longer."""

    source: Source
    host: float


@dataclass(frozen=True)
class Choice:
    """Settings of a loader, and what they would give."""

    feed: Feed
    predicted: Predicted


def feed(inputs: Inputs, changes: Sequence[Feed], rounds: int = ROUNDS) -> Predicted:
    """Predict what changes of one loader give of an un-profiled step, or say why that is not.

    The middle, and 90 %, of the ratios of replays: of resampled rows, with what is not known drawn.
    """
    inputs = _playable(inputs)
    change = merged(inputs.loader.id, changes)
    error = identity(inputs)
    why = _refusal(inputs, changes) or _strange(error)
    if why is not None:
        return Predicted(None, FAMILY, refused=why)
    nothing = Feed(inputs.loader.id)
    ratios, loads = list[float](), list[float]()
    for draw in draws(inputs, rounds):
        run = AsRun(inputs, draw)
        changed = plan(run, change)
        ratios.append(_step(plan(run, nothing)) / _step(changed))
        loads.append(changed.load)
    speedup = _interval(ratios)
    if abs(error or 0.0) > _TELLING:
        speedup = _wider(speedup, error or 0.0)
    notes = _notes(inputs, change, error, float(np.median(loads)))
    floor = speedup.low if _is_at_home(inputs, change) else _floor(inputs, change)
    return Predicted(speedup, FAMILY, notes=notes, floor=floor)


def _is_at_home(inputs: Inputs, change: Feed) -> bool:
    """Tell whether stages change of a loader without workers, and nothing else.

    Its batches are made by the thread that trains, one after the other with its steps: nothing that
    runs side by side has to be foretold, which is what such predictions are off by as a rule.
    """
    alone = change == Feed(inputs.loader.id, stages=change.stages)
    return alone and bool(change.stages) and not inputs.loader.num_workers


def _floor(inputs: Inputs, change: Feed) -> float | None:
    """Give what one thread in each worker comes to at least; ``None``: that is not known.

    One thread needs no more of the processors for a batch than several, which wait for one another
    and spin. Where it makes batches as fast as they are used all the same, nothing becomes slower.
    """
    known = inputs.rows.on >= 0
    if change != Feed(inputs.loader.id, worker_threads=1) or not known.any():
        return None
    ran, off = (float(one[known].mean()) for one in (inputs.rows.on, inputs.rows.off))
    longest = ran * inputs.each + off
    return _AS_GOOD if longest <= _ROOM * inputs.loader.num_workers * inputs.rows.step() else None


def identity(inputs: Inputs) -> float | None:
    """Give by how much the replay of the unchanged loader misses the run's own step, relative."""
    inputs = _playable(inputs)
    if len(inputs.rows) < _LEAST or not _fetched(inputs):
        return None
    draw = middle(inputs)
    own = inputs.rows.take(draw.rows).step()
    return _step(plan(AsRun(inputs, draw), Feed(inputs.loader.id))) / own - 1


def fed(run: AsRun, changes: Sequence[Feed], at: int) -> Fed:
    """Give the source of a replayed window that begins at an instant, its queue as it would be."""
    one = plan(run, merged(run.inputs.loader.id, changes))
    settings = replace(one.settings, batches=None)  # no turn of an iteration is known in a window
    before = 3 * settings.workers * settings.prefetch
    return Fed(warmed(Queue(settings, one.costs), one.consumer, before, at), one.host)


def best(inputs: Inputs, choices: Iterable[Feed] | None = None) -> tuple[Choice, ...]:
    """Compare settings of a loader: the best first, of those that are near it the smallest first.

    Without choices: workers up to twice what the processors can feed, deeper prefetch, and on the
    CPU one computing thread. The first is predicted in full, the others in a few rounds.
    """
    found = [Choice(one, feed(inputs, (one,), _LOOK)) for one in choices or usual(inputs)]
    known = [(one.predicted.speedup.mid, one) for one in found if one.predicted.speedup is not None]
    if not known:
        return tuple(found)
    most = max(gain for gain, _ in known)
    near = [one for gain, one in known if gain >= most * (1 - _NEAR)]
    chosen = min(near, key=lambda one: _size(inputs, one.feed))
    rest = sorted((one for one in known if one[1] is not chosen), key=lambda one: -one[0])
    refused = [one for one in found if one.predicted.speedup is None]
    first = Choice(chosen.feed, feed(inputs, (chosen.feed,)))
    return (first, *(one for _, one in rest), *refused)


def usual(inputs: Inputs) -> tuple[Feed, ...]:
    """Give the settings that are worth comparing on this machine."""
    loader = inputs.loader.id
    on, off = (float(one[inputs.rows.on >= 0].sum()) for one in (inputs.rows.on, inputs.rows.off))
    own = 8.0 if inputs.cores == float("inf") else inputs.cores
    most = max(1, min(64, round(own * (1 + off / max(on, off / 15, 1.0)))))
    counts = sorted({*(1 << at for at in range(most.bit_length())), round(own), most})
    threads = (None,) if inputs.on_device or inputs.threads == 1 else (None, 1)
    have = inputs.loader.num_workers
    found = [
        Feed(loader, num_workers=many, intra_op_threads=each)
        for many in counts
        for each in threads
        if many != have or each is not None
    ]
    deeper = [Feed(loader, prefetch_factor=many) for many in (4, 8)] if have else []
    return (*found, *deeper)


def _size(inputs: Inputs, change: Feed) -> tuple[int, int]:
    loader = inputs.loader
    workers = loader.num_workers if change.num_workers is None else change.num_workers
    return workers, change.prefetch_factor or loader.prefetch_factor or 2


def _step(one: Plan) -> float:
    """Give the mean time of a batch: of whole iterations, or once the queue is as it stays."""
    settings, rows = one.settings, len(one.consumer.host)
    warm = 2 * settings.workers * settings.prefetch + 4
    if settings.batches is None:
        played = simulate(Queue(settings, one.costs), one.consumer, rows + warm)
        return max(1.0, played.step(warm - 1))
    turns = -(-rows // settings.batches)
    played = simulate(Queue(settings, one.costs), one.consumer, settings.batches * (1 + turns))
    return max(1.0, played.step(settings.batches - 1))


def play(one: Plan, batches: int) -> Asked:
    """Play a training of so many batches from its start."""
    return simulate(Queue(one.settings, one.costs), one.consumer, batches)


def _playable(inputs: Inputs) -> Inputs:
    """Leave the turns of long iterations out: they are a small part of a step."""
    batches = inputs.turns.batches
    if batches is None or batches <= _SHORT:
        return inputs
    return replace(inputs, turns=replace(inputs.turns, batches=None))


def _interval(ratios: Sequence[float]) -> Interval:
    low, mid, high = (log(one) for one in np.quantile(ratios, (0.05, 0.5, 0.95)).tolist())
    own = max(_MODEL.low, min(_MODEL.high, _MODEL.mid * abs(mid)))
    return Interval(exp(mid - hypot(mid - low, own)), exp(mid), exp(mid + hypot(high - mid, own)))


def _wider(found: Interval, error: float) -> Interval:
    """Give an interval whose ends are twice as far, and never nearer than 10 %.

    A replay that misses the run by more than a tenth may miss what is changed by as much.
    """
    more = abs(log1p(error)) if abs(error) > _OFF else 0.0
    low, high = max(found.mid / found.low, sqrt(1.1)), max(found.high / found.mid, sqrt(1.1))
    return Interval(found.mid / low**2 * exp(-more), found.mid, found.mid * high**2 * exp(more))


def _fetched(inputs: Inputs) -> bool:
    """Tell whether it is known what batches cost."""
    return not inputs.loader.num_workers or bool((inputs.rows.on >= 0).any())


def _refusal(inputs: Inputs, changes: Sequence[Feed]) -> str | None:
    """Say why nothing can be predicted."""
    strange = {name for one in changes for name in one.stages} - _STAGES
    if any(one.loader != inputs.loader.id for one in changes):
        return "the change is of another loader"
    if strange:
        return f"no stage of a fetch is called {', '.join(sorted(strange))}"
    if any(one.worker_threads for one in changes) and (
        inputs.each <= 1 or max(one.worker_threads or 1 for one in changes) > 1
    ):
        return "workers were not seen to compute with several threads, or still would: try it"
    if len(inputs.rows) < _LEAST:
        return f"{len(inputs.rows)} batches were handed over outside of windows; {_LEAST} tell"
    if not _fetched(inputs):
        return "no fetch of a batch that was handed over is known"
    return crowded(inputs, changes) or _beside_others(inputs, merged(inputs.loader.id, changes))


def crowded(inputs: Inputs, changes: Sequence[Feed]) -> str | None:
    """Say that threads wait for the last of their team, which no queue of batches shows.

    A team that has more threads than processors always does; so do those of workers that wait for a
    processor most of the time.
    """
    cpus, threads = inputs.machine.cpus, [one.intra_op_threads or 0 for one in changes]
    most = max(inputs.threads, *threads)
    if cpus is not None and not inputs.on_device and most > cpus:
        return f"{most} threads compute on {cpus} processors: how long one waits is not replayed"
    known = inputs.rows.on >= 0
    rows = inputs.rows
    on, queue, off = (int(one[known].sum()) for one in (rows.on, rows.queue, rows.off))
    if inputs.each > 1 and queue > _QUEUEING * (on + queue + off):
        return "workers compute with several threads each, which wait for a processor most of it"
    return None


def _beside_others(inputs: Inputs, change: Feed) -> str | None:
    """Say that fewer threads alone cannot be priced where others keep them waiting.

    A team goes on when its last thread has had a processor: how long that takes is up to others.
    """
    threads, loader = change.intra_op_threads, inputs.loader
    if inputs.on_device or threads is None or threads >= inputs.threads:
        return None
    cpus = inputs.machine.cpus
    if cpus is None or change.num_workers not in (None, loader.num_workers):
        return None
    if inputs.others < _TAKEN * cpus or inputs.threads <= cpus - inputs.others:
        return None
    return f"others took {inputs.others:.1f} processors: how long threads wait is up to them"


def _strange(error: float | None) -> str | None:
    if error is None or abs(error) <= _REFUSED:
        return None
    return f"the loader as it is, replayed, misses the run's step by {error:+.0%}"


def _notes(inputs: Inputs, change: Feed, error: float | None, load: float) -> tuple[str, ...]:
    found = list[str]()
    if error is not None and abs(error) > _TELLING:
        found.append(f"the unchanged loader, replayed, is {error:+.0%} off; the interval is wider")
    if load > 1:
        found.append(f"processors are asked for {load:.1f} times what there are")
    if inputs.machine.cpus is None:
        found.append("the processors were not counted: none is contended for")
    if inputs.on_device and inputs.device_ns is None:
        found.append("no window tells what a device needs for a batch: anything up to the step")
    if change.num_workers and not inputs.loader.num_workers:
        found.append("the run had no workers: what they cost is known from other machines")
    return tuple(found)
