"""What pinning batches takes of the training thread, and whether what is copied are batches."""

from typing import Final

from gapless.catalogue.queries import windows
from gapless.model.change import Delay
from gapless.model.evidence import Evidence
from gapless.model.facts import Loader
from gapless.replay.loader.costs import PINNED

# Times what batches hold: beyond that most of what is copied is made by the step itself.
_MIN_OTHER: Final = 2.0
_MAX_THREADS: Final = 8  # that copy together: more wait for memory


def copies_others(evidence: Evidence) -> bool:
    """Return whether most of what is copied from ordinary memory is of no batch of a loader.

    A loader that pins makes no difference to tensors that a step makes on the host. A step takes
    a batch for each of its backward passes: how many these are has to be known.
    """
    passes = evidence.facts.world.passes_a_step
    sizes = [loader.batch_bytes for loader in evidence.facts.loaders if loader.trains is not False]
    copied_bytes = windows.sum_copies(evidence, "HtoD", "pageable").bytes
    if not sizes or copied_bytes is None or not all(sizes) or passes is None:
        return False
    return copied_bytes > _MIN_OTHER * max(1.0, passes) * sum(size or 0 for size in sizes)


def pinning_delay(evidence: Evidence, loader: Loader | None) -> tuple[Delay, ...]:
    """Return what the training thread does longer in each step if a loader pins its batches.

    Without workers that thread pins by itself: it copies each batch into pinned memory, where the
    driver has copied it so far; but with all of torch's threads, while a driver has one. With
    workers another thread does. A step takes a batch for each of its backward passes.
    """
    if loader is None or loader.num_workers or loader.pin_memory or not loader.batch_bytes:
        return ()
    n_threads = min(_MAX_THREADS, evidence.facts.machine.intra_op_threads or 1)
    step_bytes = loader.batch_bytes * (evidence.facts.world.passes_a_step or 1.0)
    return (Delay(round(PINNED.mid * step_bytes / n_threads)),)
