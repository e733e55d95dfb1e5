"""Time between the operators of the training thread: usual Python, or Python that delays."""

from statistics import median
from typing import Final

from msgspec import Struct

from gapless.catalogue.queries import device_waits, samples, windows
from gapless.catalogue.queries.files import measure_named_ns
from gapless.catalogue.queries.lines import training_calls
from gapless.catalogue.queries.ranks import rank_waits
from gapless.model.estimate import Estimate
from gapless.model.evidence import Evidence, NotObservedError
from gapless.model.host_code import HostCode

PYTHON: Final = "idle.host.python"
SILENT: Final = "idle.host.unframed"  # long, without a frame of any thread: taken as Python too
PYTHON_LEAVES: Final = (PYTHON, SILENT)
# Python for each operator, including nested ones and those of the backward pass: 0.1 to 2.8 µs in
# 36 recorded trainings of all kinds.
_USUAL_NS: Final = 4_000.0
_TYPICAL_SHARE, _MAX_SHARE = (0.25, 0.7)  # of these 4 µs: in most trainings, and at most
_TENSOR_CALL: Final = "aten::lift_fresh"  # torch.tensor calls it once, and three others from C++
_NESTED_CALLS: Final = 3
_MIN_OWN_SHARE: Final = 0.25  # of the samples in a function that calls modules: at its own lines
_MIN_PYTHON_SHARE: Final = 0.6  # of a function's time, for all of it to go with its Python
_MIN_STEPS: Final = 3  # of windows, that show what is usual
_MAX_STEADY_FACTOR: Final = 2.0  # times the median of steps: more of a silence is no usual one
_MAX_OTHER_CORES: Final = 0.5  # processors that others took
_MAX_QUEUE_SHARE: Final = 0.1  # of a worker's life spent waiting for a processor


class Excess(Struct, frozen=True):
    """Python beyond what calling operators takes, in ns of a step."""

    python_ns: float
    silent_ns: float
    usual_ns: float
    named_ns: float  # in calls that other rules name: files-in-step, chores-in-step

    @property
    def lost_ns(self) -> float:
        """Return the time that is neither usual nor named elsewhere: a lower bound of the delay."""
        return self.python_ns - self.usual_ns + self.silent_ns - self.named_ns


def measure_excess(evidence: Evidence) -> Excess:
    """Return the time between operators and how much is usual. Raises ``NotObservedError``."""
    if is_empty_trace(evidence):
        raise NotObservedError("operators", "the trace holds none")
    python_ns = rank_waits.min_rank_ns(evidence, PYTHON)
    silent_ns = rank_waits.min_rank_ns(evidence, SILENT)
    if _is_crowded(evidence):  # it may wait for a processor: only samples are certain
        silent_ns = min(silent_ns, samples.sum_sampled_ns(evidence))
    silent_ns = min(silent_ns, _steady_ns(evidence, silent_ns) + _top_code_ns(evidence))
    n_calls = (
        windows.sum_calls(evidence, "aten::*").count
        - _NESTED_CALLS * windows.sum_calls(evidence, _TENSOR_CALL).count
    )
    usual_ns = min(python_ns, _USUAL_NS * max(0.0, n_calls))
    return Excess(
        python_ns,
        silent_ns,
        usual_ns,
        min(measure_named_ns(evidence), python_ns + silent_ns - usual_ns),
    )


def is_empty_trace(evidence: Evidence) -> bool:
    """Return whether a trace holds nothing that computes: it was written before its steps, say."""
    tables = evidence.study.tables
    return evidence.is_trace_only and not evidence.on_device and not tables.operators


def _steady_ns(evidence: Evidence, silent_ns: float) -> float:
    """Return how much of a silence most steps of the windows have.

    A single one of a few steps is longer by chance: the thread lost its processor, say.
    """
    rows_ns = [row.leaves.get(SILENT, 0) for row in evidence.study.account.rows]
    if len(rows_ns) < _MIN_STEPS or not any(rows_ns):
        return silent_ns
    max_ns = _MAX_STEADY_FACTOR * median(rows_ns)
    return silent_ns * sum(min(max_ns, ns) for ns in rows_ns) / sum(rows_ns)


def _top_code_ns(evidence: Evidence) -> float:
    """Return how long the user's function takes in a step in which most was sampled."""
    code = samples.find_top_code(evidence)
    return 0.0 if code is None else samples.code_ns(evidence, code)


def find_hold_up(evidence: Evidence, excess: Excess) -> tuple[HostCode | None, Estimate]:
    """Return what delays the thread, and for how long; a sampled function takes precedence.

    Samples tell how much of the time between operators it is; windows fill in what they leave open.
    Of a wait samples alone tell: what runs beside it, in Python or a library, is none of it.
    """
    total_ns, lost_ns = excess.python_ns + excess.silent_ns, excess.lost_ns
    code = samples.find_explaining_code(evidence, lost_ns)
    if code is not None and _is_spread(evidence, code):
        code = None
    sampled_ns = (
        None
        if code is None
        else samples.estimate_held_ns(evidence, code, estimate_direct_calls(evidence, excess))
    )
    usual_share = 1 - lost_ns / total_ns if total_ns else 1.0
    window_ns = Estimate(total_ns * (1 - min(1.0, 1.5 * usual_share + 0.05)), lost_ns, lost_ns)
    if sampled_ns is None:
        return code, window_ns
    max_ns = total_ns - excess.named_ns - _TYPICAL_SHARE * excess.usual_ns
    if code is not None and code.kind != "python":
        mid_ns = min(sampled_ns.mid, max_ns)
        return code, Estimate(min(sampled_ns.low, mid_ns), mid_ns, min(sampled_ns.high, max_ns))
    mid_ns = max(lost_ns, min(sampled_ns.mid, max_ns))
    low_ns = max(window_ns.low, min(sampled_ns.low, mid_ns))
    return code, Estimate(low_ns, mid_ns, max(mid_ns, min(sampled_ns.high, max_ns)))


def _is_spread(evidence: Evidence, code: HostCode) -> bool:
    """Return whether a function is a pass through modules, and little of it its own lines.

    Samples cannot tell Python from operators there: what modules call is spread over all of them.
    """
    own_share = sum(
        line.share
        for line in evidence.recorded.lines
        if (line.file, line.function) == (code.file, code.function)
    )
    training_functions = training_calls.find_training_functions(evidence.call_lines)
    is_pass = (code.file, code.function) in training_functions
    return is_pass and own_share < _MIN_OWN_SHARE * code.stood


def find_whole_function(
    evidence: Evidence, code: HostCode | None, lost_ns: float
) -> Estimate | None:
    """Return the share of a step that a function of Python takes with all that it calls.

    With a device, what such a function copies and launches serves what Python makes there. ``None``
    if it trains or calls what does: the rest of it is needed; if Python, which takes ``lost_ns`` of
    a step, is not most of it; or if it is no more than that.
    """
    step_ns = evidence.step_ns
    if code is None or code.kind != "python" or not (code.looks and step_ns and evidence.on_device):
        return None
    key, calls = (code.file, code.function), evidence.call_lines
    own_share = sum(
        line.share - line.waited
        for line in evidence.recorded.lines
        if line.thread == "training" and (line.file, line.function) == key
    )
    trains = key in (
        training_calls.find_stepping_functions(calls)
        | training_calls.find_training_functions(calls)
    )
    if trains or not _MIN_PYTHON_SHARE * own_share <= lost_ns / step_ns < own_share:
        return None
    share = samples.estimate_share(own_share, code.looks)
    return Estimate(share.low * device_waits.shown_share(evidence), share.mid, share.high)


def include_samples(evidence: Evidence, code: HostCode, held_ns: Estimate) -> Estimate:
    """Return an interval that holds what samples show of Python, too.

    They count the operators that code calls beside training, which go with it, and windows do not.
    """
    if not code.looks or not evidence.step_ns:
        return held_ns
    sampled_ns = samples.estimate_share(code.share, code.looks).high * evidence.step_ns
    return Estimate(held_ns.low, held_ns.mid, max(held_ns.high, sampled_ns))


def estimate_direct_calls(evidence: Evidence, excess: Excess) -> Estimate:
    """Return how long the operators take that the user's functions call directly, in sampled time.

    Samples in these lines are Python or such operators; between operators it is Python, torch's
    included.
    """
    operators_ns = samples.sum_sampled_ns(evidence) - excess.python_ns - excess.silent_ns
    bounds = (
        max(0.0, operators_ns + share * excess.usual_ns)
        for share in (0.0, _TYPICAL_SHARE, _MAX_SHARE)
    )
    return Estimate(*bounds)


def _is_crowded(evidence: Evidence) -> bool:
    """Return whether processes wait for processors: then an idle thread may be waiting too."""
    workers = [use.workers for use in evidence.loader_uses if use.workers is not None]
    other_cores = evidence.contention.cores if evidence.contention is not None else 0.0
    return other_cores > _MAX_OTHER_CORES or any(
        (worker_use.run_queue or 0.0) > _MAX_QUEUE_SHARE for worker_use in workers
    )
