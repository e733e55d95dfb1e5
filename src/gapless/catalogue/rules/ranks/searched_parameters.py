"""A search for unused parameters before each backward pass."""

from typing import Final

from gapless.catalogue.declare.rule import rule
from gapless.catalogue.effects.reducer import SEARCH, drop_search
from gapless.catalogue.fixes.ranks.ddp_arguments import DDP_ARGUMENTS
from gapless.catalogue.queries import between_operators, windows
from gapless.catalogue.queries.ranks import collectives, rank_waits
from gapless.model.change import HostChange
from gapless.model.estimate import Estimate
from gapless.model.evidence import Evidence
from gapless.model.facts import Parallel, World
from gapless.model.finding import Detection, Measure
from gapless.model.reducer import REDUCE_CALL

_MIN_STEP_SHARE: Final = 0.02  # of the step
_NO_SEARCH: Final = next(fix for fix in DDP_ARGUMENTS if fix.name == "ddp-no-unused")
_REMAINING: Final = Estimate(0.0, 0.5, 1.0)  # what remains: the search is part of these leaves


@rule(
    "G605",
    "searched-parameters",
    figures="""
    the_world = world(ranks=2)
    # DistributedDataParallel(model, find_unused_parameters=True)
    > Before each backward pass the whole graph is walked for parameters that are not used, and the
      ranks tell one another of them: part of 8.0 ms of each 40.0 ms step outside operators and in
      exchanges.
    cpu(the_world, ddp(find_unused_parameters=True))
    rank busy.math 32, comm.exposed 5, idle.host.python 3
    rank busy.math 32, comm.exposed 5, idle.host.python 3
    operator(REDUCE_CALL, calls=2 * 3, host_ms=1)
    # The profiler shows the search
    > Before each backward pass the whole graph is walked for parameters that are not used, and the
      ranks tell one another of them: at most 4.0 ms of each 40.0 ms step, the search and one of 3
      exchanges.
    cpu(the_world, ddp(find_unused_parameters=True))
    rank busy.math 32, comm.exposed 6, idle.host.python 2
    rank busy.math 32, comm.exposed 6, idle.host.python 2
    operator(REDUCE_CALL, calls=2 * 3, host_ms=1)
    operator(SEARCH, calls=2, host_ms=2 * 2)
    # torch's default
    cpu(the_world, ddp())
    rank busy.math 32, comm.exposed 5, idle.host.python 3
    rank busy.math 32, comm.exposed 5, idle.host.python 3
    operator(REDUCE_CALL, calls=2 * 2, host_ms=1)
    """,
)
def searched_parameters(evidence: Evidence, parallel: Parallel, world: World) -> Detection | None:
    """Recognise that DistributedDataParallel looks for unused parameters in each step.

    ## Why it costs time
    With ``find_unused_parameters=True`` it walks the graph of each forward pass on the host,
    exchanges a map of what was used, and can start no bucket before that. It is needed only where a
    parameter gets no gradient in some steps.

    ## How it is measured
    By the wrapper's setting, and by the search as torch's profiler shows it. Which of the exchanges
    is that of the map is not recorded: at most it takes as long as the others, and without a device
    as long where all have fewer than 256 KiB, and ranks that meet less often wait less for one
    another by chance. Where windows do not show the search, it takes at most what is spent outside
    operators and in exchanges that nothing hides, and the fix is one to try. Whether each parameter
    is used in each step is not recorded: the fix is risky.
    """
    is_searched = parallel.settings.get("find_unused_parameters") is True
    if parallel.kind != "ddp" or world.ranks < 2 or not is_searched:  # noqa: PLR2004
        return None
    search, exposed_ns = windows.sum_calls(evidence, SEARCH), collectives.exposed_ns(evidence)
    words = "part of {} outside operators and in exchanges"
    max_ns = rank_waits.min_rank_ns(evidence, *between_operators.PYTHON_LEAVES) + exposed_ns
    changes = drop_search(evidence)
    if changes is not None:
        count = windows.sum_calls(evidence, REDUCE_CALL).count
        words = f"at most {{}}, the search and one of {windows.format_count(count)} exchanges"
        max_ns = search.host_ns + exposed_ns / max(1.0, count)
    leaves = (collectives.TRANSFER_LEAF, collectives.ISSUE_LEAVES, *between_operators.PYTHON_LEAVES)
    if not evidence.step_ns or max_ns < _MIN_STEP_SHARE * evidence.step_ns:
        return None
    return searched_parameters.detection(
        "Before each backward pass the whole graph is walked for parameters that are not used, and "
        "the ranks tell one another of them: "
        f"{words.format(windows.format_step_part(evidence, max_ns))}.",
        *(changes or (HostChange(leaves, _REMAINING),)),
        location=parallel.location,
        measures=(
            Measure("at most, a step", max_ns, "ns"),
            *((Measure("the search, a step", search.host_ns, "ns"),) if changes else ()),
        ),
        helps=(_NO_SEARCH.request(),),
        to_try=changes is None,
    )
