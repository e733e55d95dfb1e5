"""Arguments of distributions, checked in each step."""

from typing import Final

from gapless.catalogue.declare.rule import rule
from gapless.catalogue.queries import samples, windows
from gapless.model.edit import Location
from gapless.model.estimate import Estimate
from gapless.model.evidence import Evidence
from gapless.model.finding import Detection, Measure

_FOLDER: Final = "torch/distributions/"
_CHECKED: Final = (f"{_FOLDER}distribution.py", frozenset(("__init__", "_validate_sample")))
_CONSTRAINTS: Final = (f"{_FOLDER}constraints.py", frozenset(("check",)))
# Of what checks take in a window, whose profiler of functions slows them more than the rest. Under
# cProfile they took the same share as without in two trainings (benchmarks/watched_steps.py).
_TRUE_SHARE: Final = Estimate(0.5, 0.8, 1.1)
_REMEDY: Final = (
    "once it trains without errors, torch.distributions.Distribution.set_default_validate_args("
    "False) at the beginning (or validate_args=False where each is made); or make one distribution "
    "of a whole batch"
)


@rule(
    "G221",
    "distribution-checks",
    figures="""
    # An action is drawn from a distribution of its own, 60 times in a step
    > The arguments of 60 distributions are checked in each step: 2.4 ms of each 30.0 ms step.
    cpu()
    busy.math 20, idle.host.python 10
    source_line("train.py", 50, "main", total=30)
    source_line(f"{_FOLDER}distribution.py", 46, "__init__", 60, total=3)
    source_line(f"{_FOLDER}constraints.py", 424, "check", 60, total=1)
    # The same, unchecked
    cpu()
    busy.math 20, idle.host.python 10
    source_line("train.py", 50, "main", total=30)
    source_line(f"{_FOLDER}distribution.py", 46, "__init__", 60, total=0.1)
    """,
)
def distribution_checks(evidence: Evidence) -> Detection | None:
    """Recognise that the arguments of torch's distributions are checked in each step.

    ## Why it costs time
    Each distribution that is made checks all its parameters, and each value whose probability is
    asked for: some operators for each, whose answer the host reads. Where small distributions are
    made one by one (a policy that plays), that takes longer than drawing from them, and on a GPU
    the host waits for each answer.

    ## How it is measured
    By the time in torch's checks in windows that record Python's functions, as a share of these
    windows. The profiler slows these small calls more than the rest, so less of a plain step goes.
    """
    step_ns = evidence.step_ns
    check_ns, count = _sum_lines(evidence, *_CHECKED)
    if not step_ns or not check_ns or not _sum_lines(evidence, *_CONSTRAINTS)[1]:
        return None
    share = min(1.0, check_ns / windows.loop_window_ns(evidence))
    lost_share = Estimate(
        _TRUE_SHARE.low * share, _TRUE_SHARE.mid * share, _TRUE_SHARE.high * share
    )
    n_checked = count / windows.count_steps(evidence)
    return distribution_checks.detection(
        f"The arguments of {windows.format_count(n_checked)} distributions are checked in each "
        f"step: {windows.format_step_part(evidence, lost_share.mid * step_ns)}.",
        samples.remove_share(evidence, lost_share),
        location=_find_user_line(evidence),
        measures=(
            Measure("distributions and values checked, a step", n_checked, ""),
            Measure("in checks, of windows with stacks", share, "share"),
        ),
        no_remedy=_REMEDY,
        inferred=True,
    )


def _sum_lines(evidence: Evidence, file: str, functions: frozenset[str]) -> tuple[int, int]:
    """Sum the time and the calls of functions of a file of torch's, in windows with stacks."""
    lines = [
        line
        for line in evidence.study.tables.lines
        if line.function in functions and (line.file or "").replace("\\", "/").endswith(file)
    ]
    return sum(line.host_total_ns for line in lines), sum(line.calls for line in lines)


def _find_user_line(evidence: Evidence) -> Location | None:
    """Return the user's line at which most distributions were made, by samples."""
    calls = [call for call in evidence.call_lines if _FOLDER in call.callee_file.replace("\\", "/")]
    makers = [call for call in calls if call.callee.endswith(".__init__")]
    top = max(makers or calls, key=lambda call: call.share, default=None)
    return None if top is None else Location(top.file, top.line, top.function)
