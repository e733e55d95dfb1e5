"""Log less often."""

from gapless.catalogue import examples
from gapless.catalogue.declare import Case, Option, fix
from gapless.model.edit import Applicability, Proposal, Wrap
from gapless.model.facts import Facts

_DEFAULT_PERIOD = 10


@fix(
    "log-every",
    since="0.1",
    value="N",
    cases=[
        Case(
            "A logger that is called in each step",
            examples.gpu(logging=312),
            "risky: one in 5 of what each line prints or logs is said",
            Option(value="5"),
            edits=(Wrap("logging", "cadence", {"what": "logging", "every": 5}),),
        ),
        Case(
            "No optimizer",
            examples.bare_facts(),
            "refused: no optimizer was seen, and it would begin when one is made",
        ),
        Case(
            "Every one, as it is",
            examples.gpu(logging=312),
            "nothing to change: every one is what the script does",
            Option(value="1"),
        ),
    ],
)
def log_every(facts: Facts, option: Option) -> tuple[Proposal, ...]:
    """Log every N-th time only (10, if not said).

    Of each line that prints or logs one call in N goes through, as ``no-logging`` means it.

    ## Precondition
    An optimizer, since that is when it begins.

    ## Safety
    Risky: curves have fewer points. What is logged is unchanged.
    """
    period = option.parse_number(_DEFAULT_PERIOD)
    if not facts.optimizers:
        return (log_every.refusal("no optimizer was seen, and it would begin when one is made"),)
    if period == 1:
        return (log_every.no_change("every one is what the script does"),)
    return (
        log_every.proposal(
            f"one in {period} of what each line prints or logs is said",
            Wrap("logging", "cadence", {"what": "logging", "every": period}),
            applicability=Applicability.RISKY,
            risk="curves have fewer points",
        ),
    )
