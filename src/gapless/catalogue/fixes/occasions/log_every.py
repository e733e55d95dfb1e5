"""Log less often."""

from gapless.catalogue.declare.fix import Case, Option, fix
from gapless.catalogue.effects.occasions import LOGGING, cadence_effect
from gapless.catalogue.examples import example_facts
from gapless.model.edit import Applicability, Proposal, Wrap
from gapless.model.facts import Facts

_DEFAULT_PERIOD = 10


@fix(
    "log-every",
    since="0.1",
    effect=cadence_effect(LOGGING),
    value="N",
    cases=lambda: [
        Case(
            "A logger that is called in each step",
            example_facts.gpu(logging=312),
            "risky: one in 5 of the calls of each line that prints or logs is made",
            Option(value="5"),
            edits=(Wrap("logging", "cadence", {"what": "logging", "every": 5}),),
        ),
        Case(
            "No optimizer",
            example_facts.bare_facts(),
            "refused: no optimizer was seen, and the edit begins when one is made",
        ),
        Case(
            "Each of them, as it is",
            example_facts.gpu(logging=312),
            "nothing to change: that is what the script does already",
            Option(value="1"),
        ),
    ],
)
def log_every(facts: Facts, option: Option) -> tuple[Proposal, ...]:
    """Log only every N-th time (default 10).

    For each line that prints or logs, one call in N is made; see ``no-logging`` for what counts.

    ## Precondition
    An optimizer: the edit begins when one is made.

    ## Safety
    Risky: curves have fewer points. The values that are logged are unchanged.
    """
    period = option.parse_number(_DEFAULT_PERIOD)
    if not facts.optimizers:
        return (log_every.refusal("no optimizer was seen, and the edit begins when one is made"),)
    if period == 1:
        return (log_every.no_change("that is what the script does already"),)
    return (
        log_every.proposal(
            f"one in {period} of the calls of each line that prints or logs is made",
            Wrap("logging", "cadence", {"what": "logging", "every": period}),
            applicability=Applicability.RISKY,
            risk="curves have fewer points",
        ),
    )
