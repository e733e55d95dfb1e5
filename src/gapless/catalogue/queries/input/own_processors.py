"""The processors that one training process may use; for input rules."""

from msgspec import Struct

from gapless.model.evidence import NotObservedError
from gapless.model.facts import Facts


class Processors(Struct, frozen=True):
    """The processors of one training process, and whether its own operators need them."""

    known_count: int | None
    threads: int | None  # for its own operators
    computes: bool  # True without a device
    has_several_loaders: bool  # several loaders feed it

    @property
    def count(self) -> int:
        """Return the number of processors. Raises ``NotObservedError``."""
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
