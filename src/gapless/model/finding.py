"""Findings: causes of lost time, each with its line and with what removing it is worth."""

from math import inf
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from gapless.model.change import Change, Drop, LoaderChange, Prediction
from gapless.model.edit import Applicability, Edit, FixRequest, Location
from gapless.model.notebook import diagnosis_html


class Measure(Struct, frozen=True):
    """A figure that a finding rests on."""

    name: str
    value: int | float | str  # a count stays whole
    unit: str  # "ns", "share", "bytes", "" for a count


SAME_LINE: Final = "whatever is at the same line"
_EVALUATION: Final = "idle.io_main.eval"
_MAX_LINE_DISTANCE: Final = 3  # lines: a loop and what stands in it


class Detection(Struct, frozen=True):
    """What a rule says: a cause that is there, before anybody knows what it is worth."""

    code: str
    name: str
    summary: str  # one sentence with the figures
    changes: tuple[Change, ...]  # that remove it: replayed together
    location: Location | None = None  # None: the study looks for the line
    measures: tuple[Measure, ...] = ()
    helps: tuple[FixRequest, ...] = ()  # the best first
    no_remedy: str | None = None  # why none is named; what to do by hand
    inferred: bool = False  # it follows from what was seen, and was not seen itself
    to_try: bool = False  # what remedies bring is not predicted; ``changes`` are the most they can
    unsure: str | None = None  # why what was recorded of it shows only the most it can be worth
    advice: str | None = None  # what to do in a framework's words; ``no_remedy`` begins with it
    # A cause (name) of the same loader, or SAME_LINE: where it is named, this is not.
    unless: str | None = None
    # Its line is that of a function, where this was sampled most: another may be meant.
    by_function: bool = False
    # The first and the last of the lines that it is about, where ``location`` is one of several.
    line_range: tuple[int, int] | None = None
    part: str | None = None  # of the training that it is about: "loader", "optimizer"
    place: str | None = None  # "in Trainer's optimizer step", where the line runs the whole loop
    rank: int | None = None  # that has it, and makes the others wait
    host: str | None = None  # that has it: no line of the user's is to blame

    def yields_to(self, rival: "Detection") -> bool:
        """Return whether it is not to be named beside another cause, which is easier to remove."""
        if self.unless == SAME_LINE:
            is_other = rival.code != self.code and not rival.to_try and not _is_elsewhere(rival)
            return is_other and count_lines_between(self, rival) <= _MAX_LINE_DISTANCE
        return self.unless == rival.name and bool(_loader_ids(self) & _loader_ids(rival))

    def is_at(self, rival: "Detection") -> bool:
        """Return whether its own line, of all that it is about, is within a few of another's."""
        return (
            count_lines_between(replace(self, line_range=None), replace(rival, line_range=None))
            <= _MAX_LINE_DISTANCE
        )


def count_lines_between(detection: Detection, rival: Detection) -> float:
    """Return how many lines two causes are apart: none where their lines overlap."""
    location, neighbour = detection.location, rival.location
    if location is None or neighbour is None or location.file != neighbour.file:
        return inf
    first, last = detection.line_range or (location.line, location.line)
    rival_first, rival_last = rival.line_range or (neighbour.line, neighbour.line)
    return max(0, rival_first - last, first - rival_last)


def _is_elsewhere(detection: Detection) -> bool:
    """Return whether the time of a cause passes elsewhere: its line makes or begins something."""
    return bool(detection.changes) and all(
        isinstance(change, LoaderChange)
        or (isinstance(change, Drop) and all(leaf == _EVALUATION for leaf in change.leaves))
        for change in detection.changes
    )


def _loader_ids(detection: Detection) -> set[int]:
    """Return the loaders (``facts.Loader.id``) that a cause is about."""
    return {change.loader for change in detection.changes if isinstance(change, LoaderChange)}


class Remedy(Struct, frozen=True):
    """A fix that changes something here."""

    request: FixRequest
    edits: tuple[Edit, ...]
    applicability: Applicability


class Finding(Struct, frozen=True):
    """A detection with its price; worth naming if it was found to be, else *present* and harmless.

    A cause that has no price, or one too vague to be sure of a gain, is named all the same if the
    account charges a large part of the step to it: then ``share`` is that part.
    """

    detection: Detection
    prediction: Prediction
    cost_ns: int | None  # a step, at the middle of the prediction
    share: float | None = None  # of the step, at stake; None: it is named by its price
    remedies: tuple[Remedy, ...] = ()  # of a cause that is named by its share, the likeliest first

    @property
    def bound_text(self) -> str | None:
        """Return what a cause that was seen too seldom is worth at most; ``None`` for others.

        "seen twice, its period is not known: at most 1.33×"
        """
        bound, reason = self.prediction.at_most, self.detection.unsure
        if bound is None or reason is None:
            return None
        return f"{reason}: at most {bound.mid:.2f}×"


class TrialCandidate(Struct, frozen=True):
    """A cause that a trial is worth, though it is not sure that removing it is.

    Either it has no price, and much of a step is at stake; or it has one whose low end is too low
    to name it, and is likely to be worth it all the same.
    """

    finding: Finding
    share: float  # of the step: what the account charges to what the cause is about
    remedies: tuple[Remedy, ...]  # the likeliest first
    odds: float | None = None  # that it is worth naming (0 to 1); ``None``: it has no price


class Abstention(Struct, frozen=True):
    """A rule that could not be checked, and what it lacks."""

    code: str
    name: str
    missing: str  # "loader", "windows", "facts"
    reason: str


class ReplayFidelity(Struct, frozen=True):
    """How well the unchanged windows are replayed: what every prediction rests on.

    Shares of a step; ``None``: it could not be compared. ``refused``: why nothing is replayed. Of
    several ranks it is their joint step that is made again, with the waits that they have in turn
    imputed.
    """

    windows: int
    imputed: float | None  # off the trace, with lags and gaps of their class
    unprofiled: float | None  # off the un-profiled step, once the profiler's cost is subtracted
    alpha_ns: float | None  # that cost, of each traced event
    unexplained: float | None  # waits that no edge of the graph explains
    refused: str | None = None
    notes: tuple[str, ...] = ()


class StepVerdict(Struct, frozen=True):
    """Why a step takes as long as it does: what takes most of it beside computing, in words."""

    sentence: str  # "83 % of each step the GPU waits for data, which …", without a full stop
    owner: str  # a group of the account: "data", "host"; "compute": nothing else takes much
    share: float  # of the step, that the owner has
    named: bool  # a finding, or a likely cause, is about the owner
    ceilings: tuple[str, ...] = ()  # ablations that show what the owner is worth at the most


class Diagnosis(Struct, frozen=True):
    """What a study concludes: findings, the most valuable first; what is harmless or not known."""

    findings: tuple[Finding, ...] = ()
    present: tuple[Finding, ...] = ()  # seen, and not worth it
    abstentions: tuple[Abstention, ...] = ()
    outlook: str | None = None  # without findings: "nothing to gain: compute-bound …"
    provisional: bool = False  # of fewer than 50 steps: the noise is not known
    fidelity: ReplayFidelity | None = None  # None: there was nothing to replay
    min_gain: float = 0.02  # the gain from which on a cause is worth naming
    # Seen, not sure to be worth naming, and worth a trial: neither findings nor present.
    to_try: tuple[TrialCandidate, ...] = ()
    verdict: StepVerdict | None = None  # None: there are no steps
    # Of those present: seen too seldom to price, and much of the recording. They are no findings,
    # since they may never come back, and need a word nevertheless.
    seldom: tuple[Finding, ...] = ()

    def _repr_html_(self) -> str:
        """Show the findings in a notebook."""
        return diagnosis_html(self)
