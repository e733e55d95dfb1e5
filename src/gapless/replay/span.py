"""What a graph is made of: a trace joined, what its host did, the span of its steps."""

from dataclasses import dataclass

from gapless.accounting.host import Host
from gapless.accounting.partition import Joined
from gapless.model.trace import Int64


@dataclass(frozen=True)
class Span:
    """The steps of a trace that are replayed, from the first boundary to the last."""

    joined: Joined
    host: Host
    bounds: Int64  # S_0 … S_K, on the training thread

    @property
    def start(self) -> int:
        """Give when the first step begins on the training thread."""
        return int(self.bounds[0])

    @property
    def stop(self) -> int:
        """Give when the last step ends there."""
        return int(self.bounds[-1])
