"""Arguments of DistributedDataParallel that change how it exchanges gradients: a table."""

from typing import Final

from msgspec import Struct

from gapless.catalogue.declare.fix import Effect, Fix, Option, fix
from gapless.catalogue.declare.page_text import fold_page
from gapless.catalogue.declare.selectors import name_line, propose_for_ddp
from gapless.catalogue.declare.targets import DDP
from gapless.catalogue.effects.reducer import drop_copies_back, drop_search, regroup
from gapless.catalogue.queries.ranks import collectives
from gapless.model.edit import Applicability, Proposal, SetArgument
from gapless.model.facts import Facts, Parallel


class _Argument(Struct, frozen=True):
    """A row: the argument, what it is set to, and what that may do; the texts of its page."""

    fix: str
    name: str
    value: bool | int  # what it is set to; a number is a default
    initial: bool | float  # what its example has
    example: str
    summary: str
    details: str
    precondition: str
    safety: str
    risk: str
    unit: str | None = None  # of a number, as ``--fix NAME=UNIT`` takes it
    applicability: Applicability = Applicability.RISKY
    effect: Effect | None = None  # None: it has to be tried
    accumulates: str | None = None  # why not where a step has several passes; None: it may


_ARGUMENTS: Final = (
    _Argument(
        "ddp-buckets",
        "bucket_cap_mb",
        value=100,
        initial=collectives.BUCKET_MIB,
        unit="MIB",
        example="torch's 25 MiB",
        summary="Exchange gradients in buckets of N MiB (default 100; torch's default is 25).",
        details="Larger buckets spend less on starting exchanges; smaller ones begin earlier.",
        precondition="A model in DistributedDataParallel.",
        safety="Equivalent: the assignment to buckets decides the order of sums. Buckets need "
        "memory.",
        risk="gradients are summed in another order",
        applicability=Applicability.EQUIVALENT,
        effect=regroup,
    ),
    _Argument(
        "ddp-static-graph",
        "static_graph",
        value=True,
        initial=False,
        example="torch's default",
        summary="Tell DDP that each step uses the same parameters in the same order.",
        details="It then keeps the order of exchanges of the first step, and looks for unused "
        "parameters in that alone.",
        precondition="A model in DistributedDataParallel, whose graph is the same in each step; "
        "one pass a step.",
        safety="Risky: if the graph does change, training stops with an error or, worse, continues "
        "with wrong gradients.",
        risk="wrong if the graph changes from step to step",
        effect=drop_search,
        accumulates="torch stops with an internal error where the first pass is in no_sync",
    ),
    _Argument(
        "ddp-bucket-view",
        "gradient_as_bucket_view",
        value=True,
        initial=False,
        example="torch's default",
        summary="Let gradients be views of the buckets that are exchanged: none is copied back.",
        details="It also saves as much memory as all gradients take.",
        precondition="A model in DistributedDataParallel.",
        safety="Risky: the same values, but code that calls ``detach_()`` on gradients fails.",
        risk="code that detaches gradients in place fails",
        effect=drop_copies_back,
    ),
    _Argument(
        "ddp-no-unused",
        "find_unused_parameters",
        value=False,
        initial=True,
        example="It looks for them in each step",
        summary="Let DDP not look for unused parameters in each step.",
        details="To find them it walks the entire graph before each backward pass.",
        precondition="A model in DistributedDataParallel that was told to look, though all "
        "parameters are used.",
        safety="Risky: if a parameter gets no gradient in some step, training stops with an error, "
        "or hangs.",
        risk="training stops or hangs if a parameter is not used in a step",
        effect=drop_search,
    ),
)
_PAGE: Final = """{row.summary}

{row.details}

## Precondition
{row.precondition}

## Safety
{row.safety}"""

_CASES: Final = """
# {row.example}
> {row.applicability}: {row.name} {initial} → {row.value} at train.py:48
gpu(ddp({row.name}={row.initial})), SetArgument(DDP, "{row.name}", {row.value}, MODEL_LINE)
# Already so
> nothing to change: {row.name} is already {row.value} at train.py:48
gpu(ddp({row.name}={row.value}))
# No DDP
> refused: no model is wrapped in DistributedDataParallel
gpu()
"""

_ACCUMULATED: Final = """# Passes accumulate
> refused: {row.accumulates}
gpu(ddp(), world(ranks=2, micro_batches=4.0))
"""


def _declare(row: _Argument) -> Fix:
    page = fold_page(_PAGE.format(row=row))
    cases = _CASES.format(row=row, initial=_old_text(row, row.initial))
    if row.accumulates:
        cases += _ACCUMULATED.format(row=row)

    @fix(row.fix, value=row.unit, cases=cases, effect=row.effect, doc=page)
    def ddp_argument(facts: Facts, option: Option) -> tuple[Proposal, ...]:
        new_value = row.value if row.unit is None else option.parse_number(row.value)

        def propose(module: Parallel) -> Proposal:
            old_value, line_ref = module.settings.get(row.name), name_line(module.location)
            if old_value == new_value:
                reason = f"{row.name} is already {new_value} at {line_ref}"
                return ddp_argument.no_change(reason, module.location)
            if row.accumulates and (facts.world.micro_batches or 1) > 1:
                return ddp_argument.refusal(row.accumulates, module.location)
            return ddp_argument.proposal(
                f"{row.name} {_old_text(row, old_value)} → {new_value} at {line_ref}",
                SetArgument(DDP, row.name, new_value, module.location),
                applicability=row.applicability,
                risk=row.risk,
                location=module.location,
            )

        return propose_for_ddp(ddp_argument, facts, option, propose)

    return ddp_argument


def _old_text(row: _Argument, value: object) -> str:
    """Return the value that an argument has; a switch has the other one, observed or not."""
    if row.unit is None:
        return str(not row.value)
    return f"{value:g}" if isinstance(value, float | int) else "?"


DDP_ARGUMENTS: Final = tuple(_declare(row) for row in _ARGUMENTS)
