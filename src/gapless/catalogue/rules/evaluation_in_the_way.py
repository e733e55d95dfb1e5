"""Evaluations that take a large part of the training's time."""

from typing import Final

from gapless.catalogue import examples, windowed
from gapless.catalogue.effects.occasions import EVALUATION
from gapless.catalogue.ruling import Figure, NotSeenError, rule
from gapless.catalogue.seen_examples import seen as stated
from gapless.model.change import Drop
from gapless.model.edit import Where
from gapless.model.facts import World
from gapless.model.finding import Loss, Measure
from gapless.model.seen import Seen

_LEAST: Final = 0.02  # of the step: a first look
_AIM: Final = 0.05
_MOST: Final = 10


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
            "One in a thousand steps",
            None,
            stated(examples.gpu(evaluation=1), {"busy.tc_math": 40, EVALUATION: 0.1}),
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
    while a loader hands out batches that train nothing; over the whole run.
    """
    step = seen.step_ns
    if seen.study.recorded is None:
        raise NotSeenError("run", "only a recorded run tells")
    spent = seen.per_step(EVALUATION)
    if not step or spent < _LEAST * step:
        return None
    count = seen.facts.calls.get("evaluation") if seen.facts is not None else None
    often = world.steps / count if count else None
    how = "" if not often else f" (every {often:.0f} steps, {windowed.ms(spent * often)} each)"
    every = max(2, min(_MOST, round(spent / (_AIM * step))))
    return evaluation_in_the_way.loss(
        f"Evaluation{how} takes {windowed.ms(spent)} of each {windowed.ms(step)} step.",
        Drop((EVALUATION,)),
        where=_where(seen),
        evidence=(Measure("evaluation, a step", spent, "ns"),),
        helps=(f"evaluate-every={every}",),
        no_remedy="A smaller part of the data, a larger batch and torch.inference_mode() shorten "
        "each of them.",
    )


def _where(seen: Seen) -> Where | None:
    """Give the line at which a model was told to evaluate most often."""
    known = () if seen.facts is None else seen.facts.evaluations
    most = max(known, key=lambda one: one.passes, default=None)
    return None if most is None else most.where
