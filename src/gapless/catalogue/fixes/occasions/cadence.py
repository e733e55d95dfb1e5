"""Periodic work done less often, or left out to measure what it costs: a table."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from msgspec import Struct

from gapless.catalogue.declare.fix import Case, Fix, Option, fix
from gapless.catalogue.declare.page_text import fold_page
from gapless.catalogue.effects.occasions import CHECKPOINT, EVALUATION, LOGGING, cadence_effect
from gapless.catalogue.examples import example_facts
from gapless.model.edit import Applicability, Proposal, Wrap
from gapless.model.facts import Facts


class _Work(Struct, frozen=True):
    """A row: what is done now and then, by whom, and the texts of the two fixes that change it."""

    what: str  # as ``Facts.calls`` counts it, and the part of the overlay names it
    target: str
    leaf: str
    find_obstacle: Callable[[Fix, Facts], Proposal | None]
    none_seen: Callable[[], Case]
    less_often: str  # the fix that lets one in N remain
    default_period: int
    example: str
    example_period: int
    remaining: str  # "one in {period} checkpoints is written"
    risk: str
    less_often_page: str
    describe_rest: Callable[[Facts], str]  # what remains if it is left out
    left_out_example: str
    left_out_page: str
    refused: Callable[[], Sequence[Case]] = tuple  # further cases of leaving it out


def _find_no_checkpoint(fix: Fix, facts: Facts) -> Proposal | None:
    if facts.calls.get("checkpoint") != 0:
        return None
    return fix.no_change("no checkpoint was written")


def _find_no_optimizer(fix: Fix, facts: Facts) -> Proposal | None:
    if facts.optimizers:
        return None
    return fix.refusal("no optimizer was seen, and the edit begins when one is made")


def _find_no_evaluation(fix: Fix, facts: Facts) -> Proposal | None:
    """Return why none can end early; whether there was an evaluation may not be known."""
    may_evaluate = facts.calls.get("evaluation") != 0
    if not may_evaluate and all(loader.trains is not False for loader in facts.loaders):
        return fix.no_change("no evaluation was seen")
    if not facts.loaders:
        return fix.refusal("no DataLoader gives an evaluation its batches, so none can end early")
    return None


def _describe_silence(facts: Facts) -> str:
    n_calls = facts.calls.get("logging")
    count_words = f" ({n_calls} calls of loggers were seen)" if n_calls else ""
    return f"what the training prints and logs is left out{count_words}"


_WORKS: Final = (
    _Work(
        "checkpoint",
        "torch.save",
        CHECKPOINT,
        _find_no_checkpoint,
        lambda: Case(
            "None was seen",
            example_facts.gpu(checkpoint=0),
            "nothing to change: no checkpoint was written",
        ),
        less_often="checkpoint-every",
        default_period=2,
        example="A checkpoint in each step",
        example_period=4,
        remaining="one in {period} checkpoints is written",
        risk="a crash loses up to {period} times as much",
        less_often_page="""
Write only every N-th checkpoint (by default every second).

For each line that saves, one in N is written; the others become further names of that file.

## Precondition
A checkpoint was written in the run.

## Safety
Risky: a crash loses up to N times as much, and the last checkpoint of a run may be among those
that are left out.
""",
        describe_rest=lambda _facts: "each kind of checkpoint is written once",
        left_out_example="Twelve calls of torch.save",
        left_out_page="""
Write each kind of checkpoint only once: how fast training would be without saving.

An ablation. The first checkpoint of each line is really written; later ones become further
names of that file, so that code which renames, lists or loads checkpoints finds some.

## Precondition
A checkpoint was written in the run, or it is not known whether one was.

## Safety
It saves less than it should, so it is for trials only: loading a checkpoint gives an old one.
""",
    ),
    _Work(
        "logging",
        "logging",
        LOGGING,
        _find_no_optimizer,
        lambda: Case(
            "No optimizer",
            example_facts.bare_facts(),
            "refused: no optimizer was seen, and the edit begins when one is made",
        ),
        less_often="log-every",
        default_period=10,
        example="A logger that is called in each step",
        example_period=5,
        remaining="one in {period} of the calls of each line that prints or logs is made",
        risk="curves have fewer points",
        less_often_page="""
Log only every N-th time (default 10).

For each line that prints or logs, one call in N is made; see ``no-logging`` for what counts.

## Precondition
An optimizer: the edit begins when one is made.

## Safety
Risky: curves have fewer points. The values that are logged are unchanged.
""",
        describe_rest=_describe_silence,
        left_out_example="A SummaryWriter that was called twelve times",
        left_out_page="""
Leave out what the training prints and logs: how fast it would be without.

An ablation. It covers ``print`` to the terminal, records of ``logging`` below ERROR, progress
bars, TensorBoard, wandb, mlflow, aim and comet, from when an optimizer is made. What is passed
to them is still computed: ``loss.item()`` waits for its device as before.

## Precondition
An optimizer: the edit begins when one is made.

## Safety
Nothing is logged, so it is for trials only. A script that reads back what it logged may fail.
""",
    ),
    _Work(
        "evaluation",
        "torch.nn.Module.eval",
        EVALUATION,
        _find_no_evaluation,
        lambda: Case(
            "None was seen",
            example_facts.gpu(evaluation=0),
            "nothing to change: no evaluation was seen",
        ),
        less_often="evaluate-every",
        default_period=2,
        example="An evaluation after each step",
        example_period=4,
        remaining="one in {period} evaluations is complete",
        risk="some decisions based on evaluations rest on a single batch",
        less_often_page="""
Evaluate only every N-th time (by default every second).

The others end after their first batch.

## Precondition
An evaluation was seen in the run, and a DataLoader that may give it its batches.

## Safety
Risky: metrics of the others come from one batch, so decisions based on them (the best
checkpoint, the end of training) are wrong.
""",
        describe_rest=lambda _facts: "evaluations end after their first batch",
        left_out_example="A model that was put into evaluation mode twelve times",
        left_out_page="""
End each evaluation after its first batch: how fast training would be without them.

An ablation. A loader evaluates if its batches train nothing, and gradients are off or a model
is in evaluation mode.

## Precondition
An evaluation was seen in the run: a model was in evaluation mode, or a loader did not train.
Without a DataLoader there are no batches after which it could end.

## Safety
Decisions based on evaluations (the best checkpoint, the end of training) are wrong, so it is
for trials only.
""",
        refused=lambda: (
            Case(
                "A model that acts in an environment, and no DataLoader",
                example_facts.without_loaders(example_facts.gpu(evaluation=12)),
                "refused: no DataLoader gives an evaluation its batches, so none can end early",
            ),
        ),
    ),
)


def _declare_less_often(work: _Work) -> Fix:
    @fix(
        work.less_often,
        effect=cadence_effect(work.leaf),
        value="N",
        cases=partial(_less_often_cases, work),
        doc=fold_page(work.less_often_page),
    )
    def every_nth(facts: Facts, option: Option) -> tuple[Proposal, ...]:
        period = option.parse_number(work.default_period)
        obstacle = work.find_obstacle(every_nth, facts)
        if obstacle is not None:
            return (obstacle,)
        if period == 1:
            return (every_nth.no_change("that is what the script does already"),)
        return (
            every_nth.proposal(
                work.remaining.format(period=period),
                Wrap(work.target, "cadence", {"what": work.what, "every": period}),
                applicability=Applicability.RISKY,
                risk=work.risk.format(period=period),
            ),
        )

    return every_nth


def _less_often_cases(work: _Work) -> Sequence[Case]:
    every_step = example_facts.gpu(**{work.what: 312})
    period = work.example_period
    return (
        Case(
            work.example,
            every_step,
            f"risky: {work.remaining.format(period=period)}",
            Option(value=str(period)),
            edits=(Wrap(work.target, "cadence", {"what": work.what, "every": period}),),
        ),
        work.none_seen(),
        Case(
            "Each of them, as it is",
            every_step,
            "nothing to change: that is what the script does already",
            Option(value="1"),
        ),
    )


def _declare_left_out(work: _Work) -> Fix:
    part = f"no-{work.what}"

    @fix(
        part,
        effect=cadence_effect(work.leaf),
        cases=partial(_left_out_cases, work),
        doc=fold_page(work.left_out_page),
    )
    def left_out(facts: Facts, _option: Option) -> tuple[Proposal, ...]:
        obstacle = work.find_obstacle(left_out, facts)
        if obstacle is not None:
            return (obstacle,)
        return (
            left_out.proposal(
                work.describe_rest(facts),
                Wrap(work.target, part),
                applicability=Applicability.ABLATION,
            ),
        )

    return left_out


def _left_out_cases(work: _Work) -> Sequence[Case]:
    facts = example_facts.gpu(**{work.what: 12})
    return (
        Case(
            work.left_out_example,
            facts,
            f"trial: {work.describe_rest(facts)}",
            edits=(Wrap(work.target, f"no-{work.what}"),),
        ),
        work.none_seen(),
        *work.refused(),
    )


checkpoint_every, log_every, evaluate_every = map(_declare_less_often, _WORKS)
no_checkpoint, no_logging, no_evaluation = map(_declare_left_out, _WORKS)
