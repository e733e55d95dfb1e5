"""Threads of the training process that run Python while it trains."""

from typing import Final

from gapless.catalogue import examples, step_lines
from gapless.catalogue.choosing import named
from gapless.catalogue.ruling import Figure, rule
from gapless.catalogue.seen_examples import seen as stated
from gapless.model.edit import Where
from gapless.model.facts import Beside
from gapless.model.finding import Loss, Measure
from gapless.model.interval import Interval
from gapless.model.seen import Seen

_LEAST: Final = 0.1  # of the time: what the other thread ran, and what the training's lacked
_KNOWN: Final = ("idle.data", "idle.io_main", "idle.sync", "copy", "idle.comm")  # waits that are
_SURE: Final = Interval(0.0, 0.7, 1.0)  # of what the training thread lacked: C code may share
_WATCH: Final = Beside(Where("train.py", 12, "watch"), "Thread-1 (watch)", 0.7, 0.25)
_STEP: Final = {"busy.math": 30.0, "idle.host.python": 70.0}


@rule(
    "G220",
    "held-interpreter",
    since="0.1",
    figures=[
        Figure(
            "A thread that watches memory, without a pause",
            "Another thread of the training process (Thread-1 (watch), train.py:12) is on a "
            "processor for 70 % of the time, and the training thread for 25 %: one of them at a "
            "time runs Python.",
            stated(examples.cpu(_WATCH), _STEP),
        ),
        Figure(
            "The training thread loses nothing by it",
            None,
            stated(examples.cpu(Beside(_WATCH.where, "Thread-1", 0.7, 0.98)), _STEP),
        ),
        Figure(
            "A thread that makes the next batches, for which the training waits",
            None,
            stated(examples.cpu(_WATCH), {"busy.math": 25.0, "idle.data.decode": 75.0}),
        ),
        Figure(
            "A thread that sleeps",
            None,
            stated(examples.cpu(Beside(_WATCH.where, "Thread-1", 0.05, 0.3)), _STEP),
        ),
    ],
)
def held_interpreter(seen: Seen) -> Loss | None:
    """Recognise another thread of the process that keeps Python from the thread that trains.

    ## Why it costs time
    Only one thread of a process runs Python at a time. A thread that computes in Python (a monitor
    in a loop, a prefetcher that prepares batches, a writer of logs) keeps the interpreter for 5 ms
    before it lets another one have it, and the training thread asks for it after each operator.

    ## How it is measured
    The recorder notes how long each thread of Python was on a processor, and the line of the user's
    at which it stood most often. What the training thread lacked is the time in which it was on no
    processor, less what it is known to wait for (data, files, a device), and no more than the other
    thread ran.
    """
    facts, step = seen.facts, seen.step_ns
    every = () if facts is None else facts.beside
    other = max(every, key=lambda one: one.ran, default=None)
    if other is None or not step:
        return None
    waits = seen.share(*_KNOWN) + _sampled_waits(seen)
    lacked = min(other.ran, 1 - max(0.0, other.training_ran) - waits)
    if other.ran < _LEAST or lacked < _LEAST:
        return None
    gone = Interval(lacked * _SURE.low, lacked * _SURE.mid, lacked * _SURE.high)
    place = "" if other.where is None else f", {named(other.where)}"
    return held_interpreter.loss(
        f"Another thread of the training process ({other.name}{place}) is on a processor for "
        f"{100 * other.ran:.0f} % of the time, and the training thread for "
        f"{100 * other.training_ran:.0f} %: one of them at a time runs Python.",
        step_lines.left(seen, gone),
        where=other.where,
        evidence=(
            Measure("the other thread on a processor, of the time", other.ran, "share"),
            Measure("the training thread, of the time", other.training_ran, "share"),
            Measure("the training thread waits for nothing known", lacked, "share"),
        ),
        no_remedy=(
            "let it sleep or wait for an event between its rounds; or do its work in a process of "
            "its own, or in the loader's workers"
        ),
        inferred=True,
    )


def _sampled_waits(seen: Seen) -> float:
    """Give the share of the time in which samples show the thread waiting: for a lock, a sleep."""
    recorded = seen.study.recorded
    every = () if recorded is None else recorded.host_code
    return sum(one.share for one in every if one.kind != "python")
