"""Threads of the training process that run Python while it trains."""

from typing import Final

from gapless.catalogue.declare.rule import rule
from gapless.catalogue.declare.selectors import name_line
from gapless.catalogue.queries import samples
from gapless.model.estimate import Estimate
from gapless.model.evidence import Evidence
from gapless.model.finding import Detection, Measure

_MIN_SHARE: Final = 0.1  # of the time: the other thread ran, and this one lacked
_WAITS: Final = ("idle.data", "idle.io_main", "idle.sync", "copy", "idle.comm")  # waits that are
# Of what this thread lacked while the other one ran: it may have lacked a processor as well, or
# waited for threads of its own that compute; and it computes more slowly beside another one. What
# overlaps (C code without the GIL) is no lack.
_GAIN_SHARE: Final = Estimate(0.4, 1.0, 1.5)


@rule(
    "G220",
    "held-interpreter",
    figures="""
    watch_thread = BackgroundThread(Location("train.py", 12, "watch"), "Thread-1 (watch)", 0.7,
      0.25)
    # A thread that watches memory, without a pause
    > Another thread of the training process (Thread-1 (watch), train.py:12) is on a processor for
      70 % of the time, and the training thread for 25 %: only one of them runs Python at a time.
    cpu(watch_thread)
    busy.math 30.0, idle.host.python 70.0
    # The training thread loses nothing to it
    cpu(BackgroundThread(watch_thread.location, "Thread-1", 0.7, 0.98))
    busy.math 30.0, idle.host.python 70.0
    # A thread that makes the next batches, for which the training waits
    cpu(watch_thread)
    busy.math 25.0, idle.data.decode 75.0
    # A thread that sleeps
    cpu(BackgroundThread(watch_thread.location, "Thread-1", 0.05, 0.3))
    busy.math 30.0, idle.host.python 70.0
    """,
)
def held_interpreter(evidence: Evidence) -> Detection | None:
    """Recognise another thread of the process that keeps the interpreter from the training thread.

    ## Why it costs time
    Only one thread of a process runs Python at a time. A thread that computes in Python (a monitor
    in a loop, a prefetcher that prepares batches, a writer of logs) keeps the interpreter for 5 ms
    before it releases it, and the training thread asks for it after each operator.

    ## How it is measured
    The recorder measures how long each Python thread was on a processor, and the user's line at
    which it was sampled most often. What the training thread lacked is the time in which it was on
    no processor, minus its known waits (data, files, a device), and at most the time for which the
    other thread ran. Where steps differ, the upper end allows for half as much again: those that
    the other thread leaves alone show by how much they are shorter.
    """
    facts, step_ns = evidence.facts, evidence.step_ns
    threads = facts.background_threads
    busiest = max(threads, key=lambda thread: thread.cpu_share, default=None)
    if busiest is None or not step_ns:
        return None
    waits_share = evidence.share(*_WAITS) + _sampled_waits(evidence)
    lacked_share = min(busiest.cpu_share, 1 - max(0.0, busiest.training_cpu_share) - waits_share)
    if busiest.cpu_share < _MIN_SHARE or lacked_share < _MIN_SHARE:
        return None
    gain = Estimate(
        lacked_share * _GAIN_SHARE.low,
        lacked_share * _GAIN_SHARE.mid,
        max(
            lacked_share, min(_GAIN_SHARE.high * lacked_share, _share_beyond_short_steps(evidence))
        ),
    )
    line_ref = "" if busiest.location is None else f", {name_line(busiest.location)}"
    return held_interpreter.detection(
        f"Another thread of the training process ({busiest.name}{line_ref}) is on a processor for "
        f"{100 * busiest.cpu_share:.0f} % of the time, and the training thread for "
        f"{100 * busiest.training_cpu_share:.0f} %: only one of them runs Python at a time.",
        samples.remove_share(evidence, gain),
        location=busiest.location,
        measures=(
            Measure("the other thread on a processor, of the time", busiest.cpu_share, "share"),
            Measure("the training thread, of the time", busiest.training_cpu_share, "share"),
            Measure("the training thread waits for nothing known", lacked_share, "share"),
        ),
        no_remedy=samples.offer_workers(
            evidence,
            "let it sleep or wait for an event between its rounds; or do its work in a process of "
            f"its own{samples.OR_IN_WORKERS}",
        ),
        inferred=True,
    )


def _share_beyond_short_steps(evidence: Evidence) -> float:
    """Return what steps take more than short ones, which a thread that rests has left alone."""
    steps = evidence.run_steps
    return 0.0 if steps is None or not steps.mean_ns else 1 - steps.p10_ns / steps.mean_ns


def _sampled_waits(evidence: Evidence) -> float:
    """Return the share of samples in which the thread waits, for a lock or a sleep."""
    host_code = evidence.host_code
    return sum(code.share for code in host_code if code.kind != "python")
