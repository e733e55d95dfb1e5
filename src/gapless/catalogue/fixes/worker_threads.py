"""Threads within each worker."""

from gapless.catalogue import examples
from gapless.catalogue.choosing import propose_for_loaders, name_line
from gapless.catalogue.declare import Case, Option, fix
from gapless.catalogue.targets import LOADER
from gapless.model.edit import Applicability, Proposal, Wrap
from gapless.model.facts import Facts, Loader


@fix(
    "worker-threads",
    since="0.1",
    value="THREADS",
    cases=[
        Case(
            "Eight workers",
            examples.gpu(examples.worker_loader()),
            "same: workers of train.py:41 use 1 thread each",
            edits=(Wrap(LOADER, "worker-threads", {"threads": 1}, examples.LOADER_LINE),),
        ),
        Case(
            "No workers",
            examples.gpu(),
            "refused: the loader at train.py:41 has no workers: more-workers first",
        ),
    ],
)
def worker_threads(facts: Facts, option: Option) -> tuple[Proposal, ...]:
    """Let libraries in each worker use N threads (1, if not said).

    torch keeps to one thread in a worker. OpenCV, BLAS and OpenMP behind other libraries do not:
    each worker then starts as many threads as there are processors.

    ## Precondition
    A loader with workers.

    ## Safety
    The same, as far as the libraries give the same result with any number of threads.
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
