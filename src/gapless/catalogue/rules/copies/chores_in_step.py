"""Copies, files, figures and metrics in steps that do not need them."""

from collections import Counter
from typing import Final

from gapless.catalogue.declare.rule import rule
from gapless.catalogue.queries import windows
from gapless.catalogue.queries.samples import find_called_line
from gapless.model.change import Change, HostChange
from gapless.model.edit import Location
from gapless.model.estimate import Estimate
from gapless.model.evidence import Evidence
from gapless.model.finding import Detection, Measure

# Packages whose functions copy, record, measure or draw what was trained.
_CHORE_PACKAGES: Final = (
    "copy",
    "csv",
    "json",
    "matplotlib",
    "pprint",
    "seaborn",
    "sklearn",
    "statistics",
)
_EXTRA_PACKAGES: Final = ("torch.Tensor", "torchmetrics", "yaml")
_PYTHON_LEAVES: Final = ("idle.host.python", "idle.host.unframed")
# A profiler that records each Python call makes such code 1.5 times as slow, at most 2.5 (1.5 to
# 2.1 in Python-bound trainings). The step around it slows down less: of the share that the profiler
# shows, at least 0.4 is real.
_TRUE_SHARE: Final = Estimate(0.4, 0.75, 1.0)
_MIN_STEP_SHARE: Final = 0.01  # of the step
_MAX_LEAF_SHARE: Final = 0.95  # of some leaves


@rule(
    "G214",
    "chores-in-step",
    figures="""
    call_site(name, function, ms, calls=1) = Site(name, "train.py", 54, function, round(ms * STEPS *
      MS), round(calls * STEPS))
    # The best state is copied in each step
    > copy.deepcopy, called 2× a step, takes 7.5 ms of each 30.0 ms step, as far as can be told
      under a profiler of Python.
    cpu()
    busy.math 20, idle.host.python 10
    call_site("copy.deepcopy", "train", 12, calls=2)
    source_line("train.py", 40, "train", calls=0, host=36, total=36)
    # A line of JSON in each step
    cpu()
    busy.math 20, idle.host.python 10
    call_site("json.dumps", "train", 0.1)
    """,
)
def chores_in_step(evidence: Evidence) -> Detection | None:
    """Recognise copies, files, figures and metrics in the step that training does not need.

    ## Why it costs time
    Copying the entire state of a model and its optimizer (``copy.deepcopy``), writing JSON,
    printing tensors, drawing figures or computing metrics on the host takes as long after a step as
    after an epoch; in each step it is paid a thousand times as often.

    ## How it is measured
    By calls of ``copy``, ``json``, ``csv``, ``yaml``, ``pprint``, ``statistics``, ``sklearn``,
    ``torchmetrics``, ``matplotlib`` and ``seaborn``, and of tensors turned into text, in the window
    with stacks, outside of loaders, evaluations, checkpoints and loggers, which have rules of their
    own. A profiler that records each Python call slows such code down: 40 to 100 % of the share
    that it shows is assumed. With a device it is at most the time that the device waits for Python.
    """
    step_ns = evidence.step_ns
    ns_by_name = Counter[str]()
    for site in evidence.study.sites:
        if site.name.startswith(
            tuple(f"{package}." for package in (*_CHORE_PACKAGES, *_EXTRA_PACKAGES))
        ):
            ns_by_name[site.name] += site.ns
    if not step_ns or not ns_by_name:
        return None
    shown_ns = step_ns * ns_by_name.total() / windows.loop_window_ns(evidence)
    if _TRUE_SHARE.mid * shown_ns < _MIN_STEP_SHARE * step_ns:
        return None
    name = ns_by_name.most_common(1)[0][0]
    calls = sum(site.calls for site in evidence.study.sites if site.name == name)
    suffix = ", and others," if len(ns_by_name) > 1 else ""
    subject = (
        f"{name}, called {windows.format_count(calls / windows.count_steps(evidence))}× a "
        f"step,{suffix}"
    )
    return chores_in_step.detection(
        f"{subject} takes {windows.format_step_part(evidence, _TRUE_SHARE.mid * shown_ns)}, as far "
        "as can be told under a profiler of Python.",
        _change_without_calls(evidence, shown_ns),
        location=_find_caller(evidence, name),
        measures=(Measure("of a step, as the profiler shows it", shown_ns / step_ns, "share"),),
        no_remedy=(
            "do it every n-th step, or once an epoch; a state that is kept in memory can be "
            "copied into tensors made once (copy_ under torch.no_grad()), and only when it is to "
            "be kept"
        ),
        inferred=True,
    )


def _change_without_calls(evidence: Evidence, shown_ns: float) -> Change:
    """Return what changes without such calls: Python, and the operators they call on the host."""
    leaves = _PYTHON_LEAVES if evidence.on_device else (*_PYTHON_LEAVES, "busy.")
    leaves_ns = evidence.per_step(*leaves)
    low, mid, high = (
        1 - min(_MAX_LEAF_SHARE, share * shown_ns / leaves_ns) if leaves_ns else 1.0
        for share in (_TRUE_SHARE.high, _TRUE_SHARE.mid, _TRUE_SHARE.low)
    )
    return HostChange(leaves, Estimate(low, mid, high))


def _find_caller(evidence: Evidence, name: str) -> Location | None:
    """Return the user's line at which such calls take most time."""
    sites = [site for site in evidence.study.sites if site.name == name]
    costliest = max(sites, key=lambda site: site.ns, default=None)
    if costliest is None:
        return None
    location = Location(costliest.file, costliest.line, costliest.function)
    return find_called_line(evidence, location, name)
