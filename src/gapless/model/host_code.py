"""Where sampled stacks stood, and what the training thread itself did by them."""

from msgspec import Struct


class HostCode(Struct, frozen=True):
    """What training threads did themselves, sampled; beside torch and waits for data."""

    kind: str  # "python" (C called from it, too), or what it waits for: "sleep", "lock", …
    share: float  # of the threads' time
    inside: float  # of that, in the function; or at the line, if the function calls torch as well
    file: str | None = None  # of the deepest function in which most of it passes; None: of no one
    line: int | None = None  # where in it most often
    function: str | None = None
    library: str | None = None  # called from there, whose code it is: "numpy", "PIL", "json" …
    stood: float = 0.0  # of the threads' time: there, whatever it did (awake, it goes on there)
    looks: int = 0  # that the shares rest on


class FetchWait(Struct, frozen=True):
    """What making batches waits for off the processor, sampled, and the user's line of it."""

    kind: str  # "sleep", "socket", "pipe", "process", "lock"
    share: float  # of the sampled time of making batches
    looks: int  # that the share rests on: samples of making batches
    file: str
    line: int
    function: str


class CallLine(Struct, frozen=True):
    """A line of the user's at which sampled stacks of training threads stood in a call."""

    file: str
    line: int
    function: str
    callee_file: str  # of a module that is its forward, not what calls that
    callee: str
    share: float  # of the threads' time
    late: float = 0.0  # of that time, too: in steps that took twice the mean one already
    waited: float = 0.0  # of it, too: in calls that may wait for a device
    forward: float = 0.0  # of it, too: in the user's forward pass, which a library called back


class HotLine(Struct, frozen=True):
    """A line of the user's source, and how often a sampled stack stood in it."""

    thread: str  # "training" | "worker"; of it, while a loader runs: "making" | "choosing"
    file: str
    line: int
    function: str
    count: int
    share: float  # of the samples of such threads
    waited: float = 0.0  # of that time, too: in calls that may wait for a device
