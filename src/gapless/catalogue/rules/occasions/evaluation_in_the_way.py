"""Evaluations that take a large part of the training's time."""

from pathlib import PurePath
from typing import Final

from gapless.catalogue.declare.rule import rule
from gapless.catalogue.effects.occasions import EVALUATION
from gapless.catalogue.fixes.occasions.cadence import evaluate_every
from gapless.catalogue.queries import periodic, windows
from gapless.catalogue.queries.input.loaders import percent
from gapless.catalogue.queries.lines import training_calls
from gapless.catalogue.queries.periodic import Occasion
from gapless.model.change import Drop, Omit
from gapless.model.edit import Location
from gapless.model.evidence import Evidence, NotObservedError
from gapless.model.facts import World
from gapless.model.finding import Detection, Measure
from gapless.model.run import Sighting
from gapless.model.study import EVALUATES, Site

_MIN_STEP_SHARE: Final = 0.02  # of the step
_TARGET_SHARE: Final = 0.05
_MAX_PERIOD: Final = 10
_MIN_SIGHTINGS: Final = 3  # sightings: two whole periods
_MIN_WAIT_SHARE: Final = 0.25  # of an evaluation: its waits for data that are worth a word
_RUN_LEAF: Final = "evaluation"  # of run rows
_NEXT_BATCH: Final = "DataLoaderIter.__next__"
_MANUAL_REMEDY: Final = (
    "Evaluate less often, or on fewer batches; larger ones, workers for its loader and "
    "torch.inference_mode() shorten each evaluation."
)


@rule(
    "G703",
    "evaluation-in-the-way",
    figures="""
    # As long as the training
    > Evaluation (every 26 steps, 1040.0 ms each) takes 40.0 ms of each 80.0 ms step.
    gpu(evaluation=12)
    busy.tc_math 40, idle.io_main.eval 40
    # A trace with stacks
    > Evaluation (every 2 steps, 40.0 ms each) takes 20.0 ms of each 40.0 ms step.
    busy.tc_math 40
    Line("train.py", 20, "evaluate", 5, 0, 200 * MS, None, 0)
    Site(EVALUATES, "train.py", 20, "evaluate", MS, 5)
    # A trace with stacks: the loop itself sets evaluation mode, and continues
    busy.tc_math 40
    Line("train.py", 40, "main", 0, 0, 400 * MS, None, 0)
    Site(EVALUATES, "train.py", 40, "main", MS, 5)
    # One every thousand steps
    gpu(evaluation=1)
    busy.tc_math 40, idle.io_main.eval 0.1
    # An agent is in evaluation mode while it acts in its environment
    without_loaders(gpu(evaluation(environment="gymnasium"), evaluation=12))
    busy.tc_math 40, idle.io_main.eval 40
    """,
)
def evaluation_in_the_way(evidence: Evidence, world: World) -> Detection | None:
    """Recognise that a large part of the time goes into evaluation.

    ## Why it costs time
    Nothing is trained meanwhile. Only people can say how often it is needed; that it takes half of
    the time is often not known.

    ## How it is measured
    By the recorder's marks over the whole run: from where a model is put into evaluation mode to
    where it is put back into training mode; or where a loader hands out all of its batches between
    two steps, in a training with one backward pass a step. What it waits for its own batches is
    part of it. In a trace with stacks: by the user's function that puts a model into evaluation
    mode, if it is called for that alone.

    If environments (gymnasium and the like) are loaded, and no loader gives the training its data,
    the model acts in that time to collect its training data: that is no evaluation.
    """
    step_ns = evidence.step_ns
    if evidence.is_trace_only:
        return _trace_detection(evidence)
    spent_ns = evidence.per_step(EVALUATION)
    if periodic.find_environment(evidence) is not None:
        return None
    if not step_ns or spent_ns < _MIN_STEP_SHARE * step_ns:
        return None
    occasion = _find_occasion(evidence, spent_ns, world)
    details = (
        ""
        if occasion is None
        else f" ({occasion.frequency}, {windows.ms(occasion.each_ns or 0)} each)"
    )
    cost = windows.format_step_part(evidence, spent_ns)
    period = max(2, min(_MAX_PERIOD, round(spent_ns / (_TARGET_SHARE * step_ns))))
    return evaluation_in_the_way.detection(
        f"Evaluation{details} takes "
        f"{cost if occasion is None else occasion.format_cost(evidence)}"
        f"{_describe_waits(evidence)}.",
        Drop((EVALUATION,)),
        location=_evaluation_location(evidence),
        measures=(Measure("evaluation, a step", spent_ns, "ns"),),
        helps=(evaluate_every.request(period),),
        unsure=None if occasion is None else occasion.unsure_reason,
        no_remedy=_MANUAL_REMEDY,
    )


def _trace_detection(evidence: Evidence) -> Detection | None:
    """Return the detection from a trace. Raises ``NotObservedError`` without stacks."""
    lines, n_steps = evidence.study.tables.lines, windows.count_steps(evidence)
    if not lines:
        raise NotObservedError("stacks", "the trace has no Python stacks (with_stack=True)")
    site_by_key = {
        (site.file, site.line, site.function): site
        for site in evidence.study.sites
        if _is_evaluate_call(site)
    }
    callers = [line for line in lines if (line.file, line.line, line.function) in site_by_key]
    callers = [
        line
        for line in callers
        if line.calls == site_by_key[line.file, line.line, line.function].calls
    ]
    costliest = max(callers, key=lambda line: line.host_total_ns, default=None)
    step_ns = evidence.step_ns
    if (
        costliest is None
        or not step_ns
        or costliest.host_total_ns < _MIN_STEP_SHARE * step_ns * n_steps
    ):
        return None
    spent_ns, mean_ns = costliest.host_total_ns / n_steps, costliest.host_total_ns / costliest.calls
    has_period = costliest.calls >= _MIN_SIGHTINGS
    rate = costliest.calls / n_steps if has_period else None
    period = n_steps / costliest.calls if has_period else None
    sighting = Sighting(costliest.calls, round(mean_ns), period, at_start=False)
    location = Location(costliest.file, costliest.line, costliest.function)
    occasion = Occasion(spent_ns, mean_ns, rate, location, sighting)
    return evaluation_in_the_way.detection(
        f"Evaluation ({occasion.frequency}, {windows.ms(mean_ns)} each) takes "
        f"{occasion.format_cost(evidence)}.",
        Omit((f"{costliest.file}({costliest.line}): {costliest.function}",)),
        location=location,
        measures=(Measure("evaluation, a step", spent_ns, "ns"),),
        unsure=occasion.unsure_reason,
        no_remedy=_MANUAL_REMEDY,
        inferred=True,
    )


def _is_evaluate_call(site: Site) -> bool:
    return site.name == EVALUATES


def _find_occasion(evidence: Evidence, spent_ns: float, world: World) -> Occasion | None:
    """Return how often and how long; ``None`` if neither sightings nor calls show it."""
    sighting = periodic.find_sighting(evidence, EVALUATION)
    if sighting is not None:
        return Occasion(spent_ns, sighting.each_ns, None, _evaluation_location(evidence), sighting)
    count = evidence.facts.calls.get("evaluation")
    if not count or not world.steps:
        return None
    return Occasion(
        spent_ns,
        spent_ns * world.steps / count,
        count / world.steps,
        _evaluation_location(evidence),
    )


def _describe_waits(evidence: Evidence) -> str:
    """Describe which loader an evaluation waits for, if that takes much of it."""
    use = max(evidence.loader_uses, key=lambda use: use.evaluation_ns, default=None)
    processes = evidence.run.timeline.processes
    total_ns = sum(process.leaves.get(_RUN_LEAF, 0) for process in processes)
    if use is None or not total_ns or use.evaluation_ns < _MIN_WAIT_SHARE * total_ns:
        return ""
    at_line = "" if use.line is None else f" ({PurePath(use.file or '').name}:{use.line})"
    return (
        f"; {percent(min(1.0, use.evaluation_ns / total_ns))} of it waits for its loader{at_line}"
    )


def _evaluation_location(evidence: Evidence) -> Location | None:
    """Return the line at which a model was put into evaluation mode most often.

    Without one: the line that requests batches of a loader, in a function that trains nothing.
    """
    evaluations = evidence.facts.evaluations
    main_evaluation = max(evaluations, key=lambda evaluation: evaluation.passes, default=None)
    if main_evaluation is not None:
        return main_evaluation.location
    calls = evidence.call_lines
    stepping_functions = training_calls.find_stepping_functions(calls)
    training_functions = training_calls.add_callers(stepping_functions, calls)
    batch_calls = [call for call in calls if call.callee.endswith(_NEXT_BATCH)]
    outside_calls = [
        call for call in batch_calls if (call.file, call.function) not in training_functions
    ]
    line = max(outside_calls, key=lambda call: call.share, default=None)
    return None if line is None else Location(line.file, line.line, line.function)
