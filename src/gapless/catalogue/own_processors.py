"""The processors that one training process may use; for rules of input."""

from dataclasses import dataclass

from gapless.catalogue.ruling import NotSeenError
from gapless.model.facts import Facts


@dataclass(frozen=True)
class Processors:
    """What one training process may use, and whether it needs them for its own operators."""

    counted: int | None
    threads: int | None  # of its own operators
    computes: bool  # it has no device
    several: bool  # loaders feed it

    @property
    def own(self) -> int:
        """Count them. Raises ``NotSeenError``."""
        if self.counted is None:
            raise NotSeenError("processors", "the processors of the machine were not counted")
        return self.counted


def own_processors(facts: Facts) -> Processors:
    """Give the processors of each rank of a run."""
    machine, world = facts.machine, facts.world
    ranks = world.local_ranks or world.ranks
    training = [one for one in facts.loaders if one.trains is not False]
    return Processors(
        None if machine.cpus is None else max(1, machine.cpus // ranks),
        machine.intra_op_threads,
        computes=machine.device is None,
        several=len(training) > 1,
    )
