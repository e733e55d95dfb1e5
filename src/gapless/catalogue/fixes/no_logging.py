"""Loggers of experiments do nothing: what logging costs."""

from gapless.catalogue import examples
from gapless.catalogue.declare import Case, Option, fix
from gapless.model.edit import Applicability, Proposal, Wrap
from gapless.model.facts import Facts


@fix(
    "no-logging",
    since="0.1",
    cases=[
        Case(
            "A SummaryWriter that was called twelve times",
            examples.gpu(logging=12),
            "trial: calls of experiment loggers do nothing",
            edits=(Wrap("logging", "no-logging"),),
        ),
        Case("None was seen", examples.gpu(logging=0), "nothing to change: no logger was called"),
    ],
)
def no_logging(facts: Facts, _option: Option) -> tuple[Proposal, ...]:
    """Leave out the calls of experiment loggers: how fast training would be without them.

    An ablation. TensorBoard, wandb, mlflow, aim and comet are meant; ``print`` is not.

    ## Precondition
    A logger was called in the run, or it is not known whether one was.

    ## Safety
    Nothing is logged, so it is for trials only. A script that reads back what it logged may fail.
    """
    if facts.calls.get("logging") == 0:
        return (no_logging.nothing("no logger was called"),)
    return (
        no_logging.proposal(
            "calls of experiment loggers do nothing",
            Wrap("logging", "no-logging"),
            applicability=Applicability.TRIAL,
        ),
    )
