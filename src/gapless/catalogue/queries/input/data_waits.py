"""How a training waits for its data, as a trace alone shows it; for input rules.

A trace shows that the training thread asked for a batch, who made it (the thread itself, or
workers), and how long the step was blocked on it. It shows neither how many workers there are, nor
what they do, nor which processors they have: so only the wait as a whole can be reported.
"""

from typing import Final

from msgspec import Struct

from gapless.catalogue.declare.rule import Rule
from gapless.catalogue.declare.selectors import name_line
from gapless.catalogue.queries import windows
from gapless.catalogue.queries.input.loaders import percent
from gapless.catalogue.queries.ranks import rank_waits
from gapless.model.change import LoaderChange
from gapless.model.edit import Location
from gapless.model.evidence import Evidence
from gapless.model.facts import Loader
from gapless.model.finding import Detection, Measure
from gapless.model.study import IN_LOADING, Site
from gapless.replay.loader.costs import HAND_OVER

_MIN_STEP_SHARE: Final = 0.02  # of the step: below it, a loader is hardly waited for
# Of the time in which a batch is requested: above it, a single function takes it.
_MIN_FUNCTION_SHARE: Final = 0.6
_RECORD: Final = (
    "gapless run … records the training, and finds how many workers keep up, and which stage of "
    "making a batch is slow"
)


class BatchWait(Struct, frozen=True):
    """How long a step waits for a kind of loader, in ns, and for how many batches."""

    leaf: str
    wait_ns: float
    batches: float  # a step
    request_ns: float  # of the host, in requesting them

    @property
    def each_ns(self) -> float:
        """Return the wait for a batch."""
        return self.wait_ns / self.batches if self.batches else 0.0


def measure_wait(evidence: Evidence, loader: Loader) -> BatchWait | None:
    """Return how long steps wait for a loader in a trace; ``None``: hardly at all.

    Raises ``NotObservedError`` where the trace has no steps.
    """
    leaf = "idle.data.unstaged" if loader.num_workers else "idle.data.main"
    n_steps, step_ns = windows.count_steps(evidence), evidence.step_ns
    wait_ns = rank_waits.min_rank_ns(evidence, leaf)  # the excess of one rank is that rank's
    if not step_ns or wait_ns < _MIN_STEP_SHARE * step_ns or loader.trains is False:
        return None
    return BatchWait(leaf, wait_ns, loader.batches / n_steps, loader.waited_ns / n_steps)


def detect_own_loading(rule: Rule, evidence: Evidence, loader: Loader) -> Detection | None:
    """Return the detection that the training thread makes batches itself, from a trace."""
    wait = None if loader.num_workers else measure_wait(evidence, loader)
    if wait is None:
        return None
    site, share = _find_inner_site(evidence, wait)
    function_phrase = ""
    if site is not None:
        line_ref = name_line(Location(site.file, site.line, site.function))
        function_phrase = f", {percent(share)} of it in {site.function} ({line_ref})"
    return rule.detection(
        "The training process makes each batch itself, "
        f"{windows.format_step_part(evidence, wait.wait_ns)}{function_phrase}.",
        LoaderChange(loader.id),
        location=_find_asking_function(evidence),
        measures=_measure_wait(wait),
        no_remedy=f"Workers make batches beside the step: DataLoader(…, num_workers=N). {_RECORD}.",
        inferred=True,
    )


def detect_late_workers(rule: Rule, evidence: Evidence, loader: Loader) -> Detection | None:
    """Return the detection that workers are late, from a trace in which the training waits.

    The time to hand a batch over does not count as lateness.
    """
    wait = measure_wait(evidence, loader) if loader.num_workers else None
    if wait is None or wait.each_ns <= HAND_OVER.high:
        return None
    return rule.detection(
        f"Workers make batches more slowly than the training uses them: it waits for them in "
        f"{windows.format_step_part(evidence, wait.wait_ns)}; how many "
        "workers there are the trace does not tell.",
        LoaderChange(loader.id),
        location=_find_asking_function(evidence),
        measures=_measure_wait(wait),
        no_remedy=f"More workers help if processors are free for them, else a cheaper sample. "
        f"{_RECORD}.",
        inferred=True,
    )


def _measure_wait(wait: BatchWait) -> tuple[Measure, ...]:
    return (
        Measure("waiting for data, a step", wait.wait_ns, "ns"),
        Measure("batches asked for, a step", wait.batches, ""),
        Measure("asking for them on the host, a step", wait.request_ns, "ns"),
    )


def _find_asking_function(evidence: Evidence) -> Location | None:
    """Return the user's function that requests batches, if stacks show it."""
    return windows.find_calling_function(evidence, "idle.data.main", "idle.data.unstaged")


def _find_inner_site(evidence: Evidence, wait: BatchWait) -> tuple[Site | None, float]:
    """Return the innermost function that takes most of the time of batches, and its share."""
    total_ns = wait.request_ns * windows.count_steps(evidence)
    candidates = [
        site
        for site in evidence.study.sites
        if site.name == IN_LOADING
        and total_ns
        and _MIN_FUNCTION_SHARE * total_ns <= site.ns <= total_ns
    ]
    inner = min(candidates, key=lambda site: site.ns, default=None)
    return inner, inner.ns / total_ns if inner is not None else 0.0
