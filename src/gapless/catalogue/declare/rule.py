"""How a rule is declared: a function of the facts it needs; its page and tests come from it."""

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, get_type_hints

from msgspec import Struct
from msgspec.structs import replace

from gapless.catalogue.frameworks.frameworks import add_advice, find_part
from gapless.model.change import Change
from gapless.model.edit import FixRequest, Location
from gapless.model.evidence import Evidence, NotObservedError
from gapless.model.facts import Evaluation, Loader, Model, Parallel, Precision
from gapless.model.finding import Abstention, Detection, Measure

RuleCheck = Callable[..., Detection | Sequence[Detection] | None]
# Why a trace alone is not enough, by the type of fact that it lacks.
_UNTRACED_REASONS: Final[Mapping[type, str]] = {
    Precision: "a trace does not hold torch's settings; a run that gapless records does",
    Model: "the trace does not hold the inputs of operators (record_shapes=True)",
    Evaluation: "a trace does not show what an evaluation computed for nothing",
}
_OPTIONAL: Final = (Loader, Parallel, Evaluation)  # many trainings have none


class Rule(Struct, frozen=True):
    """A cause of lost time, and how to recognise it.

    Calling it returns its detections, one for each object that it checks (loader, optimizer …),
    and an abstention, with the reason, where a fact that it needs was not observed. For a training
    without a loader, a rule about loaders returns nothing.
    """

    code: str
    name: str  # of the fault, never of the fix
    since: str
    figures: str  # lines, as ``catalogue.examples.reading`` reads them
    doc: str
    check: RuleCheck

    def __call__(self, evidence: Evidence) -> tuple[Detection | Abstention, ...]:
        """Return the detections and abstentions of this rule."""
        needs = needed_types(self.check)
        choices: list[tuple[Any, ...]] = []
        for need in needs:
            facts = tuple(_facts_of_type(evidence, need))
            if not facts and evidence.is_trace_only and need in _UNTRACED_REASONS:
                return (self.abstention(need.__name__.lower(), _UNTRACED_REASONS[need]),)
            if not facts and need in _OPTIONAL:
                return ()
            if not facts:
                name = need.__name__.lower()
                return (self.abstention(name, f"no {name} was seen"),)
            choices.append(facts)
        answers = [
            answer
            for combination in _combine(choices)
            for answer in self._check_combination(evidence, combination)
        ]
        return tuple(
            dict.fromkeys(answer for answer in answers if isinstance(answer, Abstention))
        ) + tuple(
            add_advice(evidence, replace(answer, part=find_part(needs, answer.helps)))
            for answer in answers
            if isinstance(answer, Detection)
        )

    def _check_combination(
        self, evidence: Evidence, facts: tuple[Any, ...]
    ) -> Sequence[Detection | Abstention]:
        """Check the rule for one combination of the facts it needs."""
        try:
            answer = self.check(evidence, *facts)
        except NotObservedError as error:
            return (self.abstention(error.missing, error.reason),)
        if answer is None:
            return ()
        detections = (answer,) if isinstance(answer, Detection) else answer
        if not facts or not evidence.is_trace_only:
            return tuple(detections)
        return tuple(map(_mark_inferred, detections))

    def abstention(self, missing: str, reason: str) -> Abstention:
        """Return an abstention: the rule could not be checked."""
        return Abstention(self.code, self.name, missing, reason)

    def detection(  # noqa: PLR0913 - each is a field of a finding
        self,
        summary: str,
        *changes: Change,
        location: Location | None = None,
        measures: Sequence[Measure] = (),
        helps: Sequence[FixRequest] = (),
        no_remedy: str | None = None,
        inferred: bool = False,
        to_try: bool = False,
        unsure: str | None = None,
        unless: str | None = None,
        line_range: tuple[int, int] | None = None,
    ) -> Detection:
        """Return a detection of this rule."""
        return Detection(
            self.code,
            self.name,
            summary,
            changes,
            location,
            tuple(measures),
            tuple(helps),
            no_remedy,
            inferred,
            to_try,
            unsure,
            unless=unless,
            line_range=line_range,
        )


def rule(
    code: str,
    name: str,
    *,
    since: str = "0.1",
    figures: str,
    doc: str | None = None,
) -> Callable[[RuleCheck], Rule]:
    """Declare a function as a rule: its parameters are what it needs, its docstring is its page.

    ``since``: the version of gapless that first had it; ``doc``: the page of a row in a table of
    rules, whose function is that of all rows.

    The first parameter is of type ``Evidence``; the types of the others are facts (``Loader``,
    ``Optimizer``, ``Model``, ``Precision``, ``Machine``, ``World``, ``Parallel``, ``Evaluation``).
    """

    def declare(check: RuleCheck) -> Rule:
        return Rule(code, name, since, figures, doc or inspect.getdoc(check) or "", check)

    return declare


def needed_types(check: RuleCheck) -> tuple[type, ...]:
    """Return the types of a check's parameters after the first."""
    hints = get_type_hints(check)
    return tuple(hints[name] for name in list(inspect.signature(check).parameters)[1:])


def _mark_inferred(detection: Detection) -> Detection:
    """Mark a detection as inferred from a trace, with advice on how to try its first fix."""
    if not detection.helps or detection.no_remedy is not None:
        return replace(detection, inferred=True)
    advice = (
        f"gapless run … records the training; then gapless try --fix {detection.helps[0]} tries it"
    )
    return replace(detection, inferred=True, no_remedy=advice)


_SINGLE_FACTS: Final = ("world", "machine", "precision")
_LISTED_FACTS: Final = ("loaders", "optimizers", "models", "parallel", "evaluations")


def _facts_of_type(evidence: Evidence, need: type) -> Iterator[object]:
    for name in _SINGLE_FACTS:
        if isinstance(fact := getattr(evidence.facts, name), need):
            yield fact
    for name in _LISTED_FACTS:
        yield from (fact for fact in getattr(evidence.facts, name) if isinstance(fact, need))


def _combine(choices: Sequence[tuple[Any, ...]]) -> Iterator[tuple[Any, ...]]:
    """Yield every combination of the choices; a single empty one if there are none."""
    if not choices:
        yield ()
        return
    for fact in choices[0]:
        for combination in _combine(choices[1:]):
            yield (fact, *combination)
