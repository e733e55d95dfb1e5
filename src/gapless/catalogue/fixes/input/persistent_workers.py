"""Keep workers from epoch to epoch."""

from gapless.catalogue.declare.fix import Option, fix
from gapless.catalogue.declare.selectors import name_line, propose_for_loaders
from gapless.catalogue.declare.targets import LOADER
from gapless.catalogue.effects.loaders import loader_changes
from gapless.model.edit import Applicability, Proposal, SetArgument
from gapless.model.facts import Facts, Loader


@fix(
    "persistent-workers",
    effect=loader_changes,
    cases="""
    # Workers that are restarted each epoch
    > equivalent: persistent_workers False → True at train.py:41
    gpu(worker_loader()), SetArgument(LOADER, "persistent_workers", value=True, where=LOADER_LINE)
    # They persist already
    > nothing to change: persistent_workers is already True at train.py:41
    gpu(worker_loader(persistent_workers=True))
    # No workers
    > refused: the loader at train.py:41 has no workers: more-workers first
    gpu()
    """,
)
def persistent_workers(facts: Facts, option: Option) -> tuple[Proposal, ...]:
    """Keep workers from epoch to epoch, so that no epoch waits for them to start.

    ## Precondition
    A loader with workers. It helps if the loader is iterated more than once: a trial shows it in
    the job as a whole rather than in a step.

    ## Safety
    Equivalent: a worker continues its random stream instead of starting a new one, and keeps its
    copy of the data set. What the training changes in the data set between epochs (``set_epoch`` of
    a data set, a curriculum) no longer reaches the workers. With pinned memory the end of a job may
    take much longer; a trial measures that, too.
    """
    return propose_for_loaders(persistent_workers, facts, option, _propose)


def _propose(loader: Loader) -> Proposal:
    line_ref = name_line(loader.location)
    if loader.num_workers == 0:
        reason = f"the loader at {line_ref} has no workers: more-workers first"
        return persistent_workers.refusal(reason, loader.location)
    if loader.persistent_workers:
        reason = f"persistent_workers is already True at {line_ref}"
        return persistent_workers.no_change(reason, loader.location)
    return persistent_workers.proposal(
        f"persistent_workers False → True at {line_ref}",
        SetArgument(LOADER, "persistent_workers", value=True, where=loader.location),
        applicability=Applicability.EQUIVALENT,
        risk="workers keep their copy of the data set: changes made between epochs do not reach it",
        location=loader.location,
    )
