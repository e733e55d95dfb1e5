"""Evaluations that take a large part of the training's time."""

from typing import Final

from gapless.catalogue import examples, occasional, step_lines, windowed
from gapless.catalogue.effects.occasions import EVALUATION
from gapless.catalogue.occasional import Occasion
from gapless.catalogue.ruling import Figure, NotSeenError, rule
from gapless.catalogue.seen_examples import seen as stated
from gapless.catalogue.seen_parts import MS
from gapless.model.change import Drop, Omit
from gapless.model.edit import Where
from gapless.model.facts import World
from gapless.model.finding import Loss, Measure
from gapless.model.run import Sighting
from gapless.model.seen import Seen
from gapless.model.study import EVALUATES, Site
from gapless.model.tables import Line

_LEAST: Final = 0.02  # of the step: a first look
_AIM: Final = 0.05
_MOST: Final = 10
_KNOWN: Final = 3  # times: two whole periods
_ASKS: Final = "DataLoaderIter.__next__"
_SHORTER: Final = (
    "A smaller part of the data, a larger batch and torch.inference_mode() shorten each of them."
)


@rule(
    "G703",
    "evaluation-in-the-way",
    since="0.1",
    figures=[
        Figure(
            "As long as the training",
            "Evaluation (every 26 steps, 1040.0 ms each) takes 40.0 ms of each 80.0 ms step.",
            stated(examples.gpu(evaluation=12), {"busy.tc_math": 40, EVALUATION: 40}),
        ),
        Figure(
            "A trace with stacks",
            "Evaluation (every 2 steps, 40.0 ms each) takes 20.0 ms of each 40.0 ms step.",
            stated(
                None,
                {"busy.tc_math": 40},
                Line("train.py", 20, "evaluate", 5, 0, 200 * MS, None, 0),
                Site(EVALUATES, "train.py", 20, "evaluate", MS, 5),
            ),
        ),
        Figure(
            "A trace with stacks: the loop itself tells a model to evaluate, and goes on",
            None,
            stated(
                None,
                {"busy.tc_math": 40},
                Line("train.py", 40, "main", 0, 0, 400 * MS, None, 0),
                Site(EVALUATES, "train.py", 40, "main", MS, 5),
            ),
        ),
        Figure(
            "One in a thousand steps",
            None,
            stated(examples.gpu(evaluation=1), {"busy.tc_math": 40, EVALUATION: 0.1}),
        ),
        Figure(
            "An agent is told to evaluate while it acts in its environment",
            None,
            stated(
                examples.unfed(
                    examples.gpu(examples.evaluated(environment="gymnasium"), evaluation=12)
                ),
                {"busy.tc_math": 40, EVALUATION: 40},
            ),
        ),
    ],
)
def evaluation_in_the_way(seen: Seen, world: World) -> Loss | None:
    """Recognise that a large part of the time goes into evaluation.

    ## Why it costs time
    Nothing is trained meanwhile. How often it is needed is for people to say; that it takes half of
    the time is often not known.

    ## How it is measured
    By the recorder's marks: from where a model is told to evaluate to where it is told to train, or
    where a loader hands out all of its batches between two steps, in a training of one backward
    pass a step; over the whole run. In a trace with stacks: by the user's function that tells a
    model to evaluate, if it is called for that alone.

    Where environments (gymnasium and the like) are loaded, and no loader gives the training its
    data, the model acts in that time, and what it meets is what it is trained with: that is no
    evaluation.
    """
    step = seen.step_ns
    if seen.study.recorded is None:
        return _of_trace(seen)
    spent = seen.per_step(EVALUATION)
    if occasional.experience(seen) is not None:
        return None
    if not step or spent < _LEAST * step:
        return None
    found = _occasion(seen, spent, world)
    how = "" if found is None else f" ({found.how_often}, {windowed.ms(found.each_ns or 0)} each)"
    takes = windowed.of_step(seen, spent)
    every = max(2, min(_MOST, round(spent / (_AIM * step))))
    return evaluation_in_the_way.loss(
        f"Evaluation{how} takes {takes if found is None else found.taking(seen)}.",
        Drop((EVALUATION,)),
        where=_where(seen),
        evidence=(Measure("evaluation, a step", spent, "ns"),),
        helps=(f"evaluate-every={every}",),
        unsure=None if found is None else found.unsure,
        no_remedy=_SHORTER,
    )


def _of_trace(seen: Seen) -> Loss | None:
    """Give the function of the user's that evaluates. Raises ``NotSeenError`` without stacks."""
    lines, many = seen.study.tables.lines, windowed.steps(seen)
    if not lines:
        raise NotSeenError("stacks", "the trace has no Python stacks (with_stack=True)")
    told = {(one.file, one.line, one.function): one for one in seen.study.sites if _tells(one)}
    mine = [one for one in lines if (one.file, one.line, one.function) in told]
    mine = [one for one in mine if one.calls == told[one.file, one.line, one.function].calls]
    most = max(mine, key=lambda one: one.host_total_ns, default=None)
    step = seen.step_ns
    if most is None or not step or most.host_total_ns < _LEAST * step * many:
        return None
    spent, each = most.host_total_ns / many, most.host_total_ns / most.calls
    known = most.calls >= _KNOWN
    often = most.calls / many if known else None
    period = many / most.calls if known else None
    sighting = Sighting(most.calls, round(each), period, at_start=False)
    place = Where(most.file, most.line, most.function)
    found = Occasion(spent, each, often, place, sighting)
    return evaluation_in_the_way.loss(
        f"Evaluation ({found.how_often}, {windowed.ms(each)} each) takes {found.taking(seen)}.",
        Omit((f"{most.file}({most.line}): {most.function}",)),
        where=place,
        evidence=(Measure("evaluation, a step", spent, "ns"),),
        unsure=found.unsure,
        no_remedy=_SHORTER,
        inferred=True,
    )


def _tells(one: Site) -> bool:
    return one.name == EVALUATES


def _occasion(seen: Seen, spent: float, world: World) -> Occasion | None:
    """Give how often and how long; ``None`` where neither sightings nor calls tell."""
    known = occasional.sighting(seen, EVALUATION)
    if known is not None:
        return Occasion(spent, known.each_ns, None, _where(seen), known)
    count = seen.facts.calls.get("evaluation") if seen.facts is not None else None
    if not count or not world.steps:
        return None
    return Occasion(spent, spent * world.steps / count, count / world.steps, _where(seen))


def _where(seen: Seen) -> Where | None:
    """Give the line at which a model was told to evaluate most often.

    Where none was told to: the line that asks a loader for batches, in a function which trains
    nothing.
    """
    known = () if seen.facts is None else seen.facts.evaluations
    most = max(known, key=lambda one: one.passes, default=None)
    if most is not None or seen.study.recorded is None:
        return None if most is None else most.where
    calls = seen.study.recorded.call_lines
    steps = {(one.file, one.function) for one in calls if one.called == step_lines.BACKWARD}
    trains = step_lines.with_callers(steps, calls)
    asks = [one for one in calls if one.called.endswith(_ASKS)]
    beside = [one for one in asks if (one.file, one.function) not in trains]
    line = max(beside, key=lambda one: one.share, default=None)
    return None if line is None else Where(line.file, line.line, line.function)
