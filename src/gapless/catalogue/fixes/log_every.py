"""Log less often."""

from gapless.catalogue import examples
from gapless.catalogue.declare import Case, Option, fix
from gapless.model.edit import Applicability, Proposal, Wrap
from gapless.model.facts import Facts

_USUAL = 10


@fix(
    "log-every",
    since="0.1",
    value="N",
    cases=[
        Case(
            "A logger that is called in each step",
            examples.gpu(logging=312),
            "risky: one in 5 calls of experiment loggers goes through",
            Option(value="5"),
            edits=(Wrap("logging", "cadence", {"what": "logging", "every": 5}),),
        ),
        Case("None was seen", examples.gpu(logging=0), "nothing to change: no logger was called"),
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

    Each call site of a logger lets one call in N through, its first one included.

    ## Precondition
    A logger was called in the run.

    ## Safety
    Risky: curves have fewer points. What is logged is unchanged.
    """
    every = option.number(_USUAL)
    if facts.calls.get("logging") == 0:
        return (log_every.nothing("no logger was called"),)
    if every == 1:
        return (log_every.nothing("every one is what the script does"),)
    return (
        log_every.proposal(
            f"one in {every} calls of experiment loggers goes through",
            Wrap("logging", "cadence", {"what": "logging", "every": every}),
            applicability=Applicability.RISKY,
            risk="curves have fewer points",
        ),
    )
