"""How a rule is declared: a function of what it needs, whose page and tests come from it."""

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, get_type_hints

from gapless.catalogue.frameworks import add_advice
from gapless.model.change import Change
from gapless.model.edit import Location
from gapless.model.facts import Evaluation, Facts, Loader, Model, Parallel, Precision
from gapless.model.finding import Abstention, Detection, Measure
from gapless.model.seen import Evidence


@dataclass(frozen=True)
class RuleFigure:
    """A drawn or stated run, and what a rule says of it: a test, and a figure on its page.

    ``drawing``: a trace as text (``catalogue.drawing``), from which ``seen`` comes where that is
    not stated; ``says``: the summary of each loss, none: the rule is silent.
    """

    title: str
    expected: tuple[str, ...] | str | None
    evidence: Evidence | None = None
    drawing: str | None = None
    facts: Facts | None = None  # beside a drawing; None: a foreign trace
    parts: tuple[object, ...] = ()  # beside facts: what else was recorded (``seen_examples.seen``)


RuleCheck = Callable[..., Detection | None]
# What a trace tells nothing of, in words for those who only have one.
_UNTRACED_REASONS: Final[Mapping[type, str]] = {
    Precision: "a trace does not hold torch's settings; a run that gapless records does",
    Model: "the trace does not hold the inputs of operators (record_shapes=True)",
    Evaluation: "a trace does not show what an evaluation computed for nothing",
}
_OPTIONAL: Final = (Loader, Parallel, Evaluation)  # what many trainings have not


@dataclass(frozen=True)
class Rule:
    """A cause of lost time, and how to recognise it.

    Called, it gives its losses, one for each thing that it is asked of (loader, optimizer …), and
    abstains, with the reason, where a fact that it needs was not observed. Of a training without a
    loader, a rule of loaders says nothing.
    """

    code: str
    name: str  # the fault, never the cure
    since: str
    figures: tuple[RuleFigure, ...]
    doc: str
    check: RuleCheck

    def __call__(self, evidence: Evidence) -> tuple[Detection | Abstention, ...]:
        """Check the rule."""
        needs = needed_types(self.check)
        if needs and evidence.facts is None:
            return (self.abstention("facts", "nothing is known of the run"),)
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
        answers = [self._check_combination(evidence, combination) for combination in _combine(choices)]
        return tuple(dict.fromkeys(answer for answer in answers if isinstance(answer, Abstention))) + tuple(
            add_advice(evidence, answer) for answer in answers if isinstance(answer, Detection)
        )

    def _check_combination(self, evidence: Evidence, facts: tuple[Any, ...]) -> Detection | Abstention | None:
        """Check the rule for one combination of what it needs."""
        try:
            detection = self.check(evidence, *facts)
        except NotObservedError as error:
            return self.abstention(error.missing, error.reason)
        return _mark_inferred(detection) if detection is not None and facts and evidence.is_trace_only else detection

    def abstention(self, missing: str, reason: str) -> Abstention:
        """Return that it could not be checked."""
        return Abstention(self.code, self.name, missing, reason)

    def detection(  # noqa: PLR0913 - each is a part of what a finding says
        self,
        summary: str,
        *changes: Change,
        location: Location | None = None,
        measures: Sequence[Measure] = (),
        helps: Sequence[str] = (),
        no_remedy: str | None = None,
        inferred: bool = False,
        to_try: bool = False,
        unsure: str | None = None,
        unless: str | None = None,
    ) -> Detection:
        """Return a loss of this rule."""
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
        )


class NotObservedError(Exception):
    """What a rule needs was not observed: raised by its check, told as an abstention."""

    def __init__(self, missing: str, reason: str) -> None:
        """Say what is missing ("windows", "stages"), and why."""
        self.missing, self.reason = missing, reason
        super().__init__(f"{missing}: {reason}")


def rule(code: str, name: str, *, since: str, figures: Sequence[RuleFigure]) -> Callable[[RuleCheck], Rule]:
    """Declare a function as a rule: its parameters are what it needs, its docstring is its page.

    The first parameter is ``Seen``; those behind it are types of facts (``Loader``, ``Optimizer``,
    ``Model``, ``Precision``, ``Machine``, ``World``, ``Parallel``,
    ``Evaluation``).
    """

    def declare(check: RuleCheck) -> Rule:
        return Rule(code, name, since, tuple(figures), inspect.getdoc(check) or "", check)

    return declare


def needed_types(check: RuleCheck) -> tuple[type, ...]:
    """Return the types of a check's parameters behind the first."""
    hints = get_type_hints(check)
    return tuple(hints[name] for name in list(inspect.signature(check).parameters)[1:])


def _mark_inferred(detection: Detection) -> Detection:
    """Return a loss that rests on facts which follow from a trace, and on what fixes it names."""
    if not detection.helps or detection.no_remedy is not None:
        return replace(detection, inferred=True)
    advice = f"gapless run … records the training; then gapless try --fix {detection.helps[0]} tries it"
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
    """Return each combination; of no needs a single empty one."""
    if not choices:
        yield ()
        return
    for fact in choices[0]:
        for combination in _combine(choices[1:]):
            yield (fact, *combination)
