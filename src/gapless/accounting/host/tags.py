"""What a host frame is charged as, by its name (docs: the account, 6)."""

import re
from functools import lru_cache
from typing import Final

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from gapless.model import category
from gapless.model.leaf import LEAF
from gapless.model.trace import Int8, Trace

# The order of the tags: the smallest that is open on a thread is charged.
PROFILER, GC, ALLOC, COMPILE, DATA, SYNC, IO, COPY, COMM, OPTIMIZER, OPERATOR, OUTSIDE = range(12)
PYTHON: Final = 98  # an untagged Python function: only ever a culprit
NOT_A_FRAME: Final = 99

# a copy's, if it launches one
MOVES: Final = frozenset({"aten::to", "aten::_to_copy", "aten::copy_"})
SINGLE_PROCESS: Final = "_SingleProcessDataLoaderIter"

_STEPPING = r"step|start|stop|start_trace|stop_trace|prepare_trace|_transit_action"
_ALLOC_HOST = (
    r"^(cuda|hip)(Host(Alloc|Malloc|Free|Register|Unregister)|MallocHost|FreeHost)"
    r"|^cuMem(HostAlloc|AllocHost|FreeHost)"
)
_ALLOC = (
    r"^(cuda|hip)(Malloc|Free|HostAlloc|HostRegister|HostMalloc|HostFree)"
    r"|^cuMem(Alloc|Free|Create|Map|Unmap|Release|HostAlloc)"
)
_COMPILE = (
    r"torch/_dynamo/(convert_frame|symbolic_convert)|torch/_inductor/compile|triton/compiler"
    r"|torch/_functorch/_aot_autograd|^cuModuleLoad|^cuLibraryLoad|^nvrtc|^compile: "
    r"|^dynamo$| \(dynamo_timed\)$"  # ranges of torch's own, where no Python is recorded
)
_SYNC = r"^(cuda|hip)(Device|Stream|Event)Synchronize$|^cu(Ctx|Stream|Event)Synchronize$"

# (tag, leaf, pattern), the first that matches
_NAMES: Final = tuple(
    (tag, LEAF[leaf], re.compile(pattern))
    for tag, leaf, pattern in (
        (GC, "idle.gc", r"^gapless:gc$"),  # recorded windows mark what no operator shows
        (DATA, "idle.data.start-up", r"^gapless:iter$"),
        (IO, "idle.io_main.checkpoint", r"^gapless:save$"),
        (IO, "idle.io_main.logging", r"^gapless:logging$"),
        (IO, "idle.io_main.eval", r"^gapless:eval$"),
        (
            PROFILER,
            "idle.profiler",
            rf"torch/profiler/profiler\.py\(\d+\): ({_STEPPING})$|^gapless:",
        ),
        (GC, "idle.gc", r"^Python GC|built-in method gc\."),
        (ALLOC, "idle.alloc.host", _ALLOC_HOST),
        (ALLOC, "idle.alloc", _ALLOC),
        (COMPILE, "idle.compile", _COMPILE),
        (DATA, "idle.data.main", rf"^enumerate\(DataLoader\)#{SINGLE_PROCESS}\.__next__$"),
        (DATA, "idle.data.unstaged", r"^enumerate\(DataLoader\)#.*\.__next__$"),
        (SYNC, "idle.sync.return", rf"{_SYNC}|^wait for the device: "),
    )
)
_IN_PYTHON: Final = tuple(
    (IO, LEAF[leaf], re.compile(pattern))
    for leaf, pattern in (
        (
            "idle.io_main.checkpoint",
            r"torch/serialization\.py.*: save|torch/distributed/checkpoint|safetensors",
        ),
        ("idle.io_main.logging", r"SummaryWriter|wandb|mlflow|tqdm.*refresh"),
    )
)
# Functions of autograd, and operators (tensor parallel), that exchange: they wait within their own
# frame. A process that exchanges nothing may have functions of its own that are called so.
COLLECTIVE_FUNCTION: Final = (
    r"^_(All(Reduce|Gather|GatherBase|[Tt]oAll(Single)?)|Reduce(_?Scatter)?|Broadcast|Gather|Scatter)"
    r"(Backward)?$|^_c10d_functional(_autograd)?::"
)
_EXCHANGE: Final = re.compile(r"^_?c10d|^nccl|^gloo:|record_param_comms")
_LOW_PRIORITY: Final = tuple(
    (tag, LEAF[leaf], re.compile(pattern))
    for tag, leaf, pattern in (
        (COPY, "idle.h2d.host", r"^aten::pin_memory$|^to the device: "),
        (COMM, "idle.comm.host", rf"^c10d::|^nccl|^gloo:|record_param_comms|{COLLECTIVE_FUNCTION}"),
        (OPTIMIZER, "idle.host.optimizer", r"^Optimizer\.(step|zero_grad)#"),
    )
)
_ANYWHERE = (*_NAMES, *_LOW_PRIORITY)
_PYTHON = (*_NAMES, *_IN_PYTHON, *_LOW_PRIORITY)
_NO_TAG: Final = NOT_A_FRAME, LEAF["idle.unknown"]
_ANY_PATTERN: Final = re.compile("|".join(pattern.pattern for _, _, pattern in _PYTHON))
_OPERATIONS = (category.CPU_OP, category.RUNTIME, category.DRIVER)


class Tags(Struct, frozen=True):
    """For each event its tag (NOT_A_FRAME: no host frame) and the leaf that it charges."""

    order: Int8
    leaf: Int8


def tag_events(trace: Trace) -> Tags:
    """Tag every event by name and category; ``host.context`` refines by what a frame encloses."""
    events = trace.events
    is_python: npt.NDArray[np.bool_] = events.category == category.PYTHON_FUNCTION
    general = _tag_names(trace, ~is_python, python=False)
    python = _tag_names(trace, is_python, python=True)
    named = general[events.name]
    named[is_python] = python[events.name[is_python]]
    named_order, named_leaf = named[:, 0], named[:, 1]
    is_operation = np.isin(events.category, _OPERATIONS) & (named_order == NOT_A_FRAME)
    leaf = np.where(is_operation, LEAF["idle.host.dispatch"], named_leaf)
    order = np.where(is_operation, OPERATOR, named_order)
    order = np.where(is_python & (order == NOT_A_FRAME), PYTHON, order)
    is_outside = events.category == category.OS_CALL
    order = np.where(is_outside, OUTSIDE, order)
    leaf = np.where(is_outside, LEAF["idle.host.unframed"], leaf)
    other_gc = (events.category == category.OTHER_KIND) & (order == GC)
    host = (np.isin(events.category, category.HOST_CALLS) | other_gc) & (events.end > events.start)
    return Tags(np.where(host, order, NOT_A_FRAME), leaf)


def _tag_names(trace: Trace, rows: npt.NDArray[np.bool_], *, python: bool) -> Int8:
    """Return tag and leaf of each name, looked up for those that some events have."""
    tags = np.empty((len(trace.names), 2), np.int8)
    tags[:] = _NO_TAG
    names: list[int] = np.unique(trace.events.name[rows]).tolist()
    inputs = frozenset(trace.roles.inputs)
    exchanges = any(_EXCHANGE.search(name) for name in trace.names)
    for name in names:
        if exchanges or not re.search(COLLECTIVE_FUNCTION, trace.names[name]):
            tags[name] = _look_up(trace.names[name], python=python)
        if tags[name, 0] == NOT_A_FRAME and trace.names[name] in inputs:
            tags[name] = DATA, LEAF["idle.data.unstaged"]
    return tags


@lru_cache(maxsize=65536)
def _look_up(name: str, *, python: bool) -> tuple[int, int]:
    if not _ANY_PATTERN.search(name):
        return _NO_TAG
    for order, leaf, pattern in _PYTHON if python else _ANYWHERE:
        if pattern.search(name):
            return order, leaf
    return _NO_TAG
