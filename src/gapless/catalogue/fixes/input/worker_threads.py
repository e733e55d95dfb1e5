"""Limit the threads within each worker."""

from gapless.catalogue.declare.fix import Option, fix
from gapless.catalogue.declare.selectors import name_line, propose_for_loaders
from gapless.catalogue.declare.targets import LOADER
from gapless.catalogue.effects.loaders import loader_changes
from gapless.model.edit import Applicability, Proposal, Wrap
from gapless.model.facts import Facts, Loader


@fix(
    "worker-threads",
    effect=loader_changes,
    value="THREADS",
    cases="""
    # Eight workers
    > same: workers of train.py:41 use 1 thread each
    gpu(worker_loader()), Wrap(LOADER, "worker-threads", {"threads": 1}, LOADER_LINE)
    # No workers
    > refused: the loader at train.py:41 has no workers: more-workers first
    gpu()
    """,
)
def worker_threads(facts: Facts, option: Option) -> tuple[Proposal, ...]:
    """Let libraries in each worker use N threads (default 1).

    torch uses one thread in a worker. OpenCV, BLAS and OpenMP in other libraries do not: each
    worker then starts as many threads as there are processors.

    ## Precondition
    A loader with workers.

    ## Safety
    The same values, if the libraries give the same result with any number of threads.
    """
    threads = option.parse_number(1)

    def propose(loader: Loader) -> Proposal:
        line_ref = name_line(loader.location)
        if loader.num_workers == 0:
            reason = f"the loader at {line_ref} has no workers: more-workers first"
            return worker_threads.refusal(reason, loader.location)
        return worker_threads.proposal(
            f"workers of {line_ref} use {threads} thread{'s' if threads > 1 else ''} each",
            Wrap(LOADER, "worker-threads", {"threads": threads}, loader.location),
            applicability=Applicability.IDENTICAL,
            location=loader.location,
        )

    return propose_for_loaders(worker_threads, facts, option, propose)
