"""What a graph is built from: a joined trace, what its host did, the span of its steps."""

from msgspec import Struct

from gapless.accounting.host.host import HostSide
from gapless.accounting.partition import JoinedTrace
from gapless.model.trace import Int64


class GraphSpan(Struct, frozen=True):
    """The steps of a trace that are replayed, from the first boundary to the last."""

    joined_trace: JoinedTrace
    host: HostSide
    bounds: Int64  # S_0 … S_K, on the training thread
    first_step: int = 0  # of the trace: the steps before are left out

    @property
    def start(self) -> int:
        """Return when the first step begins on the training thread."""
        return int(self.bounds[0])

    @property
    def stop(self) -> int:
        """Return when the last step ends there."""
        return int(self.bounds[-1])
