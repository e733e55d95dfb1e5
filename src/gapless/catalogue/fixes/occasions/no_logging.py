"""Leave out prints and logs, to measure what logging costs."""

from gapless.catalogue.declare.fix import Case, Option, fix
from gapless.catalogue.effects.occasions import LOGGING, cadence_effect
from gapless.catalogue.examples import example_facts
from gapless.model.edit import Applicability, Proposal, Wrap
from gapless.model.facts import Facts


@fix(
    "no-logging",
    since="0.1",
    effect=cadence_effect(LOGGING),
    cases=lambda: [
        Case(
            "A SummaryWriter that was called twelve times",
            example_facts.gpu(logging=12),
            "trial: what the training prints and logs is left out (12 calls of loggers were seen)",
            edits=(Wrap("logging", "no-logging"),),
        ),
        Case(
            "No optimizer",
            example_facts.bare_facts(),
            "refused: no optimizer was seen, and the edit begins when one is made",
        ),
    ],
)
def no_logging(facts: Facts, _option: Option) -> tuple[Proposal, ...]:
    """Leave out what the training prints and logs: how fast it would be without.

    An ablation. It covers ``print`` to the terminal, records of ``logging`` below ERROR, progress
    bars, TensorBoard, wandb, mlflow, aim and comet, from when an optimizer is made. What is passed
    to them is still computed: ``loss.item()`` waits for its device as before.

    ## Precondition
    An optimizer: the edit begins when one is made.

    ## Safety
    Nothing is logged, so it is for trials only. A script that reads back what it logged may fail.
    """
    if not facts.optimizers:
        reason = "no optimizer was seen, and the edit begins when one is made"
        return (no_logging.refusal(reason),)
    calls = facts.calls.get("logging")
    count_words = f" ({calls} calls of loggers were seen)" if calls else ""
    return (
        no_logging.proposal(
            f"what the training prints and logs is left out{count_words}",
            Wrap("logging", "no-logging"),
            applicability=Applicability.ABLATION,
        ),
    )
