"""How a rule is declared: a function of what it needs, whose page and tests come from it."""

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, get_type_hints

from gapless.catalogue.frameworks import advised
from gapless.model.change import Change
from gapless.model.edit import Where
from gapless.model.facts import Evaluation, Facts, Loader, Model, Parallel, Precision
from gapless.model.finding import Abstention, Loss, Measure
from gapless.model.seen import Seen


@dataclass(frozen=True)
class Figure:
    """A drawn or stated run, and what a rule says of it: a test, and a figure on its page.

    ``drawing``: a trace as text (``catalogue.drawing``), from which ``seen`` comes where that is
    not stated; ``says``: the summary of each loss, none: the rule is silent.
    """

    title: str
    says: tuple[str, ...] | str | None
    seen: Seen | None = None
    drawing: str | None = None
    facts: Facts | None = None  # beside a drawing; None: a foreign trace
    parts: tuple[object, ...] = ()  # beside facts: what else was recorded (``seen_examples.seen``)


Check = Callable[..., Loss | None]
# What a trace tells nothing of, in words for those who only have one.
_UNTOLD: Final[Mapping[type, str]] = {
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
    figures: tuple[Figure, ...]
    doc: str
    check: Check

    def __call__(self, seen: Seen) -> tuple[Loss | Abstention, ...]:
        """Check the rule."""
        needs = needs_of(self.check)
        if needs and seen.facts is None:
            return (self.abstains("facts", "nothing is known of the run"),)
        found: list[tuple[Any, ...]] = []
        for need in needs:
            known = tuple(_facts(seen, need))
            if not known and seen.foreign and need in _UNTOLD:
                return (self.abstains(need.__name__.lower(), _UNTOLD[need]),)
            if not known and need in _OPTIONAL:
                return ()
            if not known:
                name = need.__name__.lower()
                return (self.abstains(name, f"no {name} was seen"),)
            found.append(known)
        said = [self._of(seen, one) for one in _each(found)]
        return tuple(dict.fromkeys(one for one in said if isinstance(one, Abstention))) + tuple(
            advised(seen, one) for one in said if isinstance(one, Loss)
        )

    def _of(self, seen: Seen, things: tuple[Any, ...]) -> Loss | Abstention | None:
        """Check the rule for one combination of what it needs."""
        try:
            said = self.check(seen, *things)
        except NotSeenError as lacking:
            return self.abstains(lacking.missing, lacking.reason)
        return _followed(said) if said is not None and things and seen.foreign else said

    def abstains(self, missing: str, reason: str) -> Abstention:
        """Give that it could not be checked."""
        return Abstention(self.code, self.name, missing, reason)

    def loss(  # noqa: PLR0913 - each is a part of what a finding says
        self,
        summary: str,
        *changes: Change,
        where: Where | None = None,
        evidence: Sequence[Measure] = (),
        helps: Sequence[str] = (),
        no_remedy: str | None = None,
        inferred: bool = False,
        to_try: bool = False,
        unsure: str | None = None,
        unless: str | None = None,
    ) -> Loss:
        """Give a loss of this rule."""
        return Loss(
            self.code,
            self.name,
            summary,
            changes,
            where,
            tuple(evidence),
            tuple(helps),
            no_remedy,
            inferred,
            to_try,
            unsure,
            unless=unless,
        )


class NotSeenError(Exception):
    """What a rule needs was not observed: raised by its check, told as an abstention."""

    def __init__(self, missing: str, reason: str) -> None:
        """Say what is missing ("windows", "stages"), and why."""
        self.missing, self.reason = missing, reason
        super().__init__(f"{missing}: {reason}")


def rule(code: str, name: str, *, since: str, figures: Sequence[Figure]) -> Callable[[Check], Rule]:
    """Declare a function as a rule: its parameters are what it needs, its docstring is its page.

    The first parameter is ``Seen``; those behind it are types of facts (``Loader``, ``Optimizer``,
    ``Model``, ``Precision``, ``Machine``, ``World``, ``Parallel``,
    ``Evaluation``).
    """

    def declare(check: Check) -> Rule:
        return Rule(code, name, since, tuple(figures), inspect.getdoc(check) or "", check)

    return declare


def needs_of(check: Check) -> tuple[type, ...]:
    """Give the types of a check's parameters behind the first."""
    hints = get_type_hints(check)
    return tuple(hints[name] for name in list(inspect.signature(check).parameters)[1:])


def _followed(loss: Loss) -> Loss:
    """Give a loss that rests on facts which follow from a trace, and on what fixes it names."""
    if not loss.helps or loss.no_remedy is not None:
        return replace(loss, inferred=True)
    tries = f"gapless run … records the training; then gapless try --fix {loss.helps[0]} tries it"
    return replace(loss, inferred=True, no_remedy=tries)


_SINGLE: Final = ("world", "machine", "precision")
_SEVERAL: Final = ("loaders", "optimizers", "models", "parallel", "evaluations")


def _facts(seen: Seen, need: type) -> Iterator[object]:
    for name in _SINGLE:
        if isinstance(known := getattr(seen.facts, name), need):
            yield known
    for name in _SEVERAL:
        yield from (one for one in getattr(seen.facts, name) if isinstance(one, need))


def _each(found: Sequence[tuple[Any, ...]]) -> Iterator[tuple[Any, ...]]:
    """Give each combination; of no needs a single empty one."""
    if not found:
        yield ()
        return
    for one in found[0]:
        for rest in _each(found[1:]):
            yield (one, *rest)
