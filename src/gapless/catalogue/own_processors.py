"""The processors that one training process may use; for rules of input."""

from dataclasses import dataclass

from gapless.catalogue.ruling import NotObservedError
from gapless.model.facts import Facts


@dataclass(frozen=True)
class Processors:
    """What one training process may use, and whether it needs them for its own operators."""

    known_count: int | None
    threads: int | None  # of its own operators
    computes: bool  # it has no device
    has_several_loaders: bool  # loaders feed it

    @property
    def count(self) -> int:
        """Count them. Raises ``NotSeenError``."""
        if self.known_count is None:
            raise NotObservedError("processors", "the processors of the machine were not counted")
        return self.known_count


def find_processors(facts: Facts) -> Processors:
    """Return the processors of each rank of a run."""
    machine, world = facts.machine, facts.world
    ranks = world.local_ranks or world.ranks
    training_loaders = [loader for loader in facts.loaders if loader.trains is not False]
    return Processors(
        None if machine.cpus is None else max(1, machine.cpus // ranks),
        machine.intra_op_threads,
        computes=machine.device is None,
        has_several_loaders=len(training_loaders) > 1,
    )
