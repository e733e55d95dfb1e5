"""Work in a few steps that takes a large part of the training's time."""

from collections.abc import Sequence
from math import log
from typing import Final

from msgspec import Struct

from gapless.catalogue.declare.rule import NotObservedError, rule
from gapless.catalogue.declare.selectors import name_line
from gapless.catalogue.queries import samples, step_lines, windows
from gapless.catalogue.queries.lines import training_calls
from gapless.catalogue.queries.samples import estimate_share
from gapless.model.change import HostChange
from gapless.model.edit import Location
from gapless.model.estimate import Estimate
from gapless.model.evidence import Evidence
from gapless.model.finding import SAME_LINE, Detection, Measure
from gapless.model.host_code import CallLine
from gapless.model.rhythm import LongSteps
from gapless.model.run import RecordedRun

_LEAVING: Final = "destroy_process_group"  # after the last step, whose length goes on until then
_MIN_STEP_SHARE: Final = 0.05  # of the step
_TRUE_SHARE: Final = Estimate(0.8, 1.0, 1.05)  # of what long steps take more than the others
_MAX_REMOVED_SHARE: Final = 0.98  # of these leaves
# Of what long steps take more than the others: samples late in a step begin at twice the mean one.
_MIN_LATE_SHARE: Final = 0.3
_LATE_FACTOR: Final = 2  # times the mean step: from then on it is late (payload/stacks/stacks.py)
_MIN_LATE_PART: Final = 0.6  # of the time of a line: what is done in each step is late seldom
_COUNTED_STEP: Final = "wrapper"  # what schedulers put around an optimizer's step, to count them
_LUMPS: Final = "idle.io_main"  # checkpoints, evaluations, loggers: of rules of their own
_MAX_MISMATCH: Final = 0.35  # of a line's samples, and of the time of long steps: a logarithm


@rule(
    "G705",
    "occasional-work",
    figures="""
    backward = CallLine("train.py", 30, "train", "torch/_tensor.py", "Tensor.backward", 0.2)
    host_code = HostCode("python", 0.3, 0.9, "codes.py", 9, "reseed", None, 0.3, 400)
    long_steps = LongSteps(count=12, period=20, excess_ns=240_000_000, usual_ns=8_000_000)
    make_example(*calls) = evidence_of(cpu(), {"busy.math": 14, "idle.host.python": 6}, backward,
      host_code, *calls)
    # Codes that are seeded anew every twentieth step
    > train.py:40 is done every 20 steps, 240.0 ms each: it takes 12.0 ms of each 20.0 ms step.
    with_steps(make_example(CallLine("train.py", 40, "train", "codes.py", "reseed", 0.62),
      CallLine("codes.py", 9, "reseed", "torch/functional.py", "cdist", 0.2)),
      long_steps=long_steps)
    # Around the function that trains
    > main.py:12 is done every 20 steps, 240.0 ms each: it takes 12.0 ms of each 20.0 ms step.
    with_steps(make_example(CallLine("main.py", 11, "main", "train.py", "train", 0.4),
      CallLine("main.py", 12, "main", "draw.py", "draw", 0.58)), long_steps=long_steps)
    # A data set that is made now and then, and a line of the training's own that fits
    > train.py:44 is done every 20 steps, 240.0 ms each: it takes 12.0 ms of each 20.0 ms step.
    with_steps(make_example(CallLine("train.py", 40, "train", "codes.py", "reseed", 0.2, late=0.2),
      HotLine("training", "train.py", 44, "train", 240, 0.6)), long_steps=long_steps)
    # No line was sampled as often as such steps take
    with_steps(make_example(CallLine("train.py", 40, "train", "codes.py", "reseed", 0.1)),
      long_steps=long_steps)
    # A line that was sampled as often, but never in steps that were late
    with_steps(make_example(CallLine("train.py", 40, "train", "codes.py", "reseed", 0.62),
      CallLine("train.py", 28, "train", "loss.py", "criterion", 0.2, late=0.1)),
      long_steps=long_steps)
    # Now and then, but steps are late hardly anywhere else
    > train.py:40 is done in a few steps, which last far longer than the others: it takes 5.0 ms of
      each 20.0 ms step.
    make_example(CallLine("train.py", 40, "train", "codes.py", "reseed", 0.25, late=0.2),
      CallLine("train.py", 28, "train", "loss.py", "criterion", 0.3, late=0.02))
    # Ranks part after the last step
    make_example(CallLine("train.py", 40, "train", "torch/distributed/distributed_c10d.py",
      "destroy_process_group", 0.25, late=0.2))
    # The optimizer, which is last in a step that something else held up
    make_example(CallLine("train.py", 41, "train", "torch/optim/adam.py", "Adam.step", 0.25,
      late=0.2))
    # The same, below a scheduler that counts its steps
    make_example(CallLine("train.py", 41, "train", "torch/optim/lr_scheduler.py",
      "LRScheduler.__init__.wrap_step.wrapper", 0.25, late=0.2))
    # Late wherever they are: others use the machine
    make_example(CallLine("train.py", 40, "train", "codes.py", "reseed", 0.25, late=0.05),
      CallLine("train.py", 28, "train", "loss.py", "criterion", 0.3, late=0.06))
    # No function is known by samples of its own
    cpu()
    busy.math 14, idle.host.python 6
    backward, CallLine("train.py", 40, "train", "codes.py", "reseed", 0.25, late=0.2)
    # Steps that are all alike
    make_example(CallLine("train.py", 40, "train", "codes.py", "reseed", 0.62))
    """,
)
def occasional_work(evidence: Evidence) -> Detection | None:
    """Recognise work that a few steps do, and that takes much of the time.

    ## Why it costs time
    What is done every twentieth step, and takes as long as forty steps, takes two thirds of the
    time. In a list of steps, or a window of a few, it is hardly seen. Often it can be done less
    often, or faster, since nobody ever looked at it.

    ## How it is measured
    By the lengths of all steps, without waits for data and without evaluations, checkpoints and
    loggers, which have rules of their own: every N-th is at least twice as long as the others, N
    being four or more, and was seen three times or more; or one or two distances recur between all
    that are (every fiftieth step of an epoch, and the rest of it). What other processes do comes at
    no such distance. The line is that at which the function that trains, or one that calls it, was
    sampled most while a step took twice the mean one already; in runs without such samples, that at
    which it was sampled calling something else for as much of the time as these steps take more
    than the others. The price is that of steps without it.

    At no such distance, a line counts in which the samples stood mostly in steps that were late, if
    checkpoints, evaluations and loggers do not take as long: what slows the whole machine makes all
    lines late.
    """
    if evidence.is_trace_only:
        raise NotObservedError("run", "only a recorded run shows all steps")
    recorded, step_ns = evidence.recorded, evidence.step_ns
    works = (_find_regular_work(evidence, recorded), _find_late_work(evidence, recorded))
    work = max(filter(None, works), key=lambda work: work.share.mid, default=None)
    leaves = samples.removable_leaves(evidence)
    thread_share = evidence.share(*leaves)
    if work is None or not step_ns or work.share.mid < _MIN_STEP_SHARE or not thread_share:
        return None
    ends = (work.share.high, work.share.mid, work.share.low)
    kept_shares = (1 - min(_MAX_REMOVED_SHARE, share / thread_share) for share in ends)
    return occasional_work.detection(
        f"{name_line(work.location)} {work.words} "
        f"{windows.format_step_part(evidence, work.share.mid * step_ns)}.",
        HostChange(leaves, Estimate(*kept_shares), sampled=True),
        location=work.location,
        measures=work.measures,
        no_remedy=(
            "do it less often where training allows that; where it is a part of training (playing "
            "episodes, sampling), see what takes long in it: loops over data, environments that "
            "could be stepped together or in processes of their own, files, copies"
        ),
        unless=SAME_LINE,
        inferred=True,
    )


class _OccasionalWork(Struct, frozen=True):
    """What a few steps do: its line, what it takes of all time, and by what that is known."""

    location: Location
    share: Estimate
    words: str
    measures: tuple[Measure, ...]


def _find_regular_work(evidence: Evidence, recorded: RecordedRun) -> _OccasionalWork | None:
    """Return what long steps at regular distances do."""
    long_steps = None if recorded.steps is None else recorded.steps.long_steps
    if long_steps is None or not evidence.step_ns:
        return None
    share = long_steps.excess_ns / long_steps.period / evidence.step_ns
    location = _find_line(evidence, share, _late_part(long_steps))
    if location is None:
        return None
    return _OccasionalWork(
        location,
        Estimate(*(end * share for end in (_TRUE_SHARE.low, _TRUE_SHARE.mid, _TRUE_SHARE.high))),
        f"is done every {long_steps.period} steps, {windows.ms(long_steps.excess_ns)} each: it "
        "takes",
        (
            Measure("steps that last longer", long_steps.count, ""),
            Measure("longer than the others by", long_steps.excess_ns, "ns"),
        ),
    )


def _find_late_work(evidence: Evidence, recorded: RecordedRun) -> _OccasionalWork | None:
    """Return the call in which steps were late, if it is hardly made in other steps.

    What others do to the machine makes all lines of a step late, each as long as it takes.
    """
    calls, looks = _other_calls(recorded), _count_looks(recorded)
    latest = max(calls, key=lambda call: call.late, default=None)
    if (
        latest is None
        or not looks
        or latest.late < _MIN_LATE_PART * latest.share
        or evidence.share(_LUMPS) > latest.late / 2
    ):
        return None
    return _OccasionalWork(
        Location(latest.file, latest.line, latest.function),
        estimate_share(latest.share, looks),
        "is done in a few steps, which last far longer than the others: it takes",
        (
            Measure("sampled in it, of the thread", latest.share, "share"),
            Measure("of that in steps that were late", latest.late, "share"),
        ),
    )


def _count_looks(recorded: RecordedRun) -> int:
    return sum(code.looks for code in recorded.host_code[:1])


def _other_calls(recorded: RecordedRun) -> list[CallLine]:
    """Return what functions that train, and those that call them, call beside training."""
    calls = recorded.call_lines
    stepping_functions = training_calls.find_stepping_functions(calls)
    training_functions = training_calls.add_callers(stepping_functions, calls)
    return [
        call
        for call in calls
        if (call.file, call.function) in training_functions
        and (call.callee_file, call.callee) not in training_functions
        and call.callee not in (training_calls.BACKWARD, _LEAVING)
        and not _is_loading(call)
        and not _is_of_optimizer(call)
    ]


def _is_of_optimizer(call: CallLine) -> bool:
    """Return whether it is an optimizer's: last in a step, and late if that was held up."""
    file = call.callee_file.replace("\\", "/")
    is_scheduler = "lr_scheduler" in file and not call.callee.endswith(_COUNTED_STEP)
    return "torch/optim/" in file and not is_scheduler


def _late_part(long_steps: LongSteps) -> float:
    """Return the part of what long steps take more in which they are late: 0 to 1.

    A step is late from twice the mean one on.
    """
    usual_ns, excess_ns = long_steps.usual_ns, long_steps.excess_ns
    mean_ns = usual_ns + excess_ns / long_steps.period
    return min(1.0, max(0.0, (usual_ns + excess_ns - _LATE_FACTOR * mean_ns) / excess_ns))


def _find_line(evidence: Evidence, share: float, late_part: float) -> Location | None:
    """Return the line that was sampled for such a share, beside what trains; ``None``: no line.

    What was never late where long steps are is done in other steps, however long it takes. What was
    late, but sampled for another share, gives way to a line that computes something by itself, and
    was sampled for this one.
    """
    recorded = evidence.recorded
    calls, looks = _other_calls(recorded), _count_looks(recorded)
    if not looks or not calls:
        return None
    nearest = max(calls, key=lambda call: call.late)
    if _measure_mismatch(nearest.share, share, looks):
        called = {(call.file, call.line) for call in recorded.call_lines}
        for line in step_lines.find_costly_lines(evidence):
            is_own = (line.location.file, line.location.line) not in called
            if is_own and not _measure_mismatch(line.share.mid, share, looks):
                return line.location
    if nearest.late < _MIN_LATE_SHARE * share:
        own_forwards = _own_forwards(recorded.call_lines)
        knows_late = any(call.late for call in recorded.call_lines)
        min_part = _MIN_LATE_SHARE * late_part if knows_late else 0.0
        calls = [
            call
            for call in calls
            if call not in own_forwards and call.late >= min_part * call.share
        ]
        mismatches = {call: _measure_mismatch(call.share, share, looks) for call in calls}
        nearest = min(mismatches, key=lambda call: mismatches[call], default=None)
        if nearest is None or mismatches[nearest] > _MAX_MISMATCH:
            return None
    return Location(nearest.file, nearest.line, nearest.function)


def _measure_mismatch(sampled_share: float, share: float, looks: int) -> float:
    """Return how far a sampled share is from another, beyond what so few samples leave open."""
    sampled = estimate_share(sampled_share, looks)
    nearest = min(max(share, sampled.low), sampled.high)
    return abs(log(nearest / share)) if nearest and share else float("inf")


def _own_forwards(calls: Sequence[CallLine]) -> tuple[CallLine, ...]:
    """Return the calls of modules that each step needs: the longest before a backward pass."""
    backwards = [call for call in calls if call.callee == training_calls.BACKWARD]
    forwards = [
        max(before, key=lambda call: call.share)
        for backward in backwards
        if (
            before := [
                call
                for call in calls
                if training_calls.is_forward(call)
                and (call.file, call.function) == (backward.file, backward.function)
                and call.line < backward.line
            ]
        )
    ]
    return tuple(forwards)


def _is_loading(call: CallLine) -> bool:
    """Return whether a call asks for the next batch."""
    return call.callee.endswith("__next__") or "torch/utils/data/" in call.callee_file
