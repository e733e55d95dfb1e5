"""G104."""

from typing import Final

from gapless.catalogue.examples import fed, gpu, loader
from gapless.catalogue.lateness import behind, handed_over_late, held_up, starts_anew
from gapless.catalogue.loading import Loading, evidence, percent, waited
from gapless.catalogue.ruling import Figure, rule
from gapless.catalogue.seen_examples import seen
from gapless.catalogue.seen_parts import made_by, used
from gapless.catalogue.traps import PREFETCH, crowded
from gapless.catalogue.windowed import ms
from gapless.model.change import Feed
from gapless.model.facts import Loader
from gapless.model.finding import Loss, Measure
from gapless.model.seen import Seen

_BUSY: Final = 0.9  # of their life: above, workers are too slow on the whole
_BEHIND: Final = 0.3  # of the waits: later batches lay ready
_RARE: Final = 3.0  # times the mean wait: the longest twentieth of waits
_FEW: Final = 20  # batches of an iteration: below, the first waits are among that twentieth
_DEEP: Final = 8  # batches for each worker that outlast what seldom takes long
_SINGLE: Final = (
    "Put samples that take alike together in a batch (by their size or length), or do what makes "
    "the slow ones slow beforehand."
)
_MANY: Final = fed(iterations=1)
_ONE: Final = loader(num_workers=1, prefetch_factor=2, iterations=1)
_STEP: Final = {"busy.math": 90.0, "idle.data.decode": 10.0}


@rule(
    "G104",
    "shallow-prefetch",
    since="0.1",
    figures=[
        Figure(
            "One long recording in a batch, and finished batches behind it",
            "Single batches are late, and 2 made ahead by each worker do not outlast them (mean "
            "wait 10.0 ms, one in twenty above 10.0 ms; in 70 % of the waits later batches lay "
            "ready).",
            seen(
                gpu(_MANY),
                _STEP,
                used(_MANY, {"decode": 10.0}, made_by(8, {"decode": 1.0}, busy=0.6), hol_ms=7.0),
            ),
        ),
        Figure(
            "One worker, whom a few samples hold up",
            "Single batches are late, and 2 made ahead by each worker do not outlast them (mean "
            "wait 10.0 ms, one in twenty above 150.0 ms).",
            seen(
                gpu(_ONE),
                _STEP,
                used(
                    _ONE,
                    {"decode": 10.0},
                    made_by(1, {"decode": 1.0}, busy=0.6),
                    p95_ns=150_000_000,
                ),
            ),
        ),
        Figure(
            "No workers",
            None,
            seen(
                gpu(),
                _STEP,
                used(loader(), {"decode": 10.0}, made_by(0, {"decode": 0.2}), p95_ns=10**9),
            ),
        ),
        Figure(
            "Workers that are too slow on the whole",
            None,
            seen(
                gpu(_MANY),
                _STEP,
                used(_MANY, {"decode": 10.0}, made_by(8, {"decode": 9.0}, busy=0.99), hol_ms=1.0),
            ),
        ),
        Figure(
            "Batches of many tensors, made in time and handed over slowly",
            None,
            seen(
                gpu(_MANY),
                _STEP,
                used(
                    _MANY,
                    {"hand-over": 9.0, "decode": 1.0},
                    made_by(8, {"decode": 1.0}, busy=0.6),
                    p95_ns=150_000_000,
                ),
            ),
        ),
        Figure(
            "Each wait is as long as the others",
            None,
            seen(
                gpu(_MANY),
                _STEP,
                used(_MANY, {"hand-over": 10.0}, made_by(8, {"decode": 1.0}, busy=0.3)),
            ),
        ),
    ],
)
def shallow_prefetch(seen: Seen, loader: Loader) -> Loss | None:
    """Recognise single batches that take long and hold up those behind them.

    ## Why it costs time
    Batches are handed over in order. One that takes long holds up all behind it, and once the
    training has used up what was made ahead it waits, although workers are idle. A deeper queue
    outlasts it; so does a loader that need not keep the order.

    ## How it is measured
    In much of the waits later batches lay ready while the one that was due was not. Or workers are
    idle part of their life, and waits are uneven: one in twenty is three times as long as the mean;
    but not where most of the waits are for batches that were made already.
    """
    one = waited(seen, loader) if loader.num_workers else None
    if one is None or starts_anew(one):
        return None
    busy, ready = one.workers.busy, behind(one)
    uneven = _uneven(one) and not handed_over_late(one)
    if busy is None or not (ready >= _BEHIND or (busy <= _BUSY and uneven)):
        return None
    have = loader.prefetch_factor or PREFETCH
    deep = max(_DEEP, 4 * have)
    crowd = crowded(one.facts, loader, loader.num_workers, deep)
    lay = f"; in {percent(ready)} of the waits later batches lay ready" if ready else ""
    late = ms(one.use.p95_ns or one.wait_ns)
    return shallow_prefetch.loss(
        f"Single batches are late, and {have} made ahead by each worker do not outlast them (mean "
        f"wait {ms(one.wait_ns)}, one in twenty above {late}{lay}).",
        Feed(loader.id, prefetch_factor=deep),
        where=loader.where,
        evidence=(
            *evidence(one),
            Measure("workers are busy", busy, "share"),
            Measure("one wait in twenty is above", one.use.p95_ns or one.wait_ns, "ns"),
            Measure("later batches lay ready", ready, "share"),
        ),
        helps=_helps(one, None if crowd else deep),
        no_remedy=_by_hand(one, crowd),
    )


def _uneven(one: Loading) -> bool:
    """Tell whether few waits make the mean, others than the first of an iteration."""
    use = one.use
    long = (use.p95_ns or 0) >= _RARE * one.wait_ns
    return long and use.waits >= _FEW * max(1, use.iterations)


def _by_hand(one: Loading, crowd: str | None) -> str | None:
    deeper = "" if crowd is None else f"The queue cannot be deeper: {crowd}."
    if not held_up(one):
        return deeper or None
    return f"{deeper} {_SINGLE}".lstrip()


def _helps(one: Loading, deep: int | None) -> tuple[str, ...]:
    deeper = () if deep is None else (one.asked("prefetch", deep),)
    return (*deeper, one.asked("out-of-order")) if one.loader.num_workers > 1 else deeper
