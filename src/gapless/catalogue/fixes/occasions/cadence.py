"""Periodic work done less often, or left out to measure what it costs: a table."""

from collections.abc import Callable
from typing import Final

from msgspec import Struct

from gapless.catalogue.declare.fix import Fix, Option, fix
from gapless.catalogue.declare.page_text import fold_page
from gapless.catalogue.effects.occasions import CHECKPOINT, EVALUATION, LOGGING, cadence_effect
from gapless.model.edit import Applicability, Proposal, Wrap
from gapless.model.facts import Facts


class _Work(Struct, frozen=True):
    """A row: what is done now and then, by whom, and the texts of the two fixes that change it."""

    what: str  # as ``Facts.calls`` counts it, and the part of the overlay names it
    target: str
    leaf: str
    find_obstacle: Callable[[Fix, Facts], Proposal | None]
    none_seen: str  # a case of both
    less_often: str  # the fix that lets one in N remain
    default_period: int
    example: str
    example_period: int
    remaining: str  # "one in {period} checkpoints is written"
    risk: str
    less_often_page: str
    describe_rest: Callable[[int | None], str]  # what remains of so many if they are left out
    left_out_example: str
    left_out_page: str
    refused: str = ""  # further cases of leaving it out


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


def _describe_silence(n_calls: int | None) -> str:
    count_words = f" ({n_calls} calls of loggers were seen)" if n_calls else ""
    return f"what the training prints and logs is left out{count_words}"


_WORKS: Final = (
    _Work(
        "checkpoint",
        "torch.save",
        CHECKPOINT,
        _find_no_checkpoint,
        none_seen="""
# None was seen
> nothing to change: no checkpoint was written
gpu(checkpoint=0)
""",
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
        describe_rest=lambda _count: "each kind of checkpoint is written once",
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
        none_seen="""
# No optimizer
> refused: no optimizer was seen, and the edit begins when one is made
bare_facts()
""",
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
        none_seen="""
# None was seen
> nothing to change: no evaluation was seen
gpu(evaluation=0)
""",
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
        describe_rest=lambda _count: "evaluations end after their first batch",
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
        refused="""
# A model that acts in an environment, and no DataLoader
> refused: no DataLoader gives an evaluation its batches, so none can end early
without_loaders(gpu(evaluation=12))
""",
    ),
)


_LESS_OFTEN_CASES: Final = """
# {work.example}
> risky: {remaining}
gpu({work.what}=312), Option(value="{work.example_period}")
Wrap("{work.target}", "cadence", {{"what": "{work.what}", "every": {work.example_period}}})
{work.none_seen}
# Each of them, as it is
> nothing to change: that is what the script does already
gpu({work.what}=312), Option(value="1")
"""
_LEFT_OUT_CASES: Final = """
# {work.left_out_example}
> trial: {words}
gpu({work.what}=12), Wrap("{work.target}", "no-{work.what}")
{work.none_seen}
{work.refused}
"""


def _declare_less_often(work: _Work) -> Fix:
    @fix(
        work.less_often,
        effect=cadence_effect(work.leaf),
        value="N",
        cases=_LESS_OFTEN_CASES.format(
            work=work, remaining=work.remaining.format(period=work.example_period)
        ),
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


def _declare_left_out(work: _Work) -> Fix:
    name = f"no-{work.what}"

    @fix(
        name,
        effect=cadence_effect(work.leaf),
        cases=_LEFT_OUT_CASES.format(work=work, words=work.describe_rest(12)),
        doc=fold_page(work.left_out_page),
    )
    def left_out(facts: Facts, _option: Option) -> tuple[Proposal, ...]:
        obstacle = work.find_obstacle(left_out, facts)
        if obstacle is not None:
            return (obstacle,)
        return (
            left_out.proposal(
                work.describe_rest(facts.calls.get(work.what)),
                Wrap(work.target, name),
                applicability=Applicability.ABLATION,
            ),
        )

    return left_out


checkpoint_every, log_every, evaluate_every = map(_declare_less_often, _WORKS)
no_checkpoint, no_logging, no_evaluation = map(_declare_left_out, _WORKS)
