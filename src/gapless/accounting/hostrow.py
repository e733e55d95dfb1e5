"""The row of a run without a device: its training thread (docs: the account, 10)."""

import re
from dataclasses import dataclass, replace

import numpy as np

from gapless.accounting.busy import (
    BY_NAME,
    CAST_OPERATORS,
    CLIPS,
    LAYOUT_OPERATORS,
    MATH_OPERATOR,
    NORM_OPERATOR,
    ZERO_GRAD,
    Named,
)
from gapless.accounting.charges import NOTHING_TOLD, Bool, Charges, charges, stacked
from gapless.accounting.collectives import NO_ARRIVALS, Arrivals
from gapless.accounting.gloo import carried, waited
from gapless.accounting.host import UNFRAMED, Host
from gapless.accounting.inputs import inputs
from gapless.accounting.intervals import NO_LANE, Lane, cover
from gapless.accounting.nesting import forest
from gapless.accounting.threads import Threads
from gapless.accounting.transfers import begun, parted
from gapless.accounting.windows import as_lane
from gapless.model import category
from gapless.model.leaf import LEAF
from gapless.model.trace import Int64

_WRAPPER = re.compile(
    r"^autograd::engine::evaluate_function|Backward\d+$|^CheckpointFunction(Backward)?$"
)
_MEMORY = re.compile(r"^aten::(cat|_cat|fill_|zero_|stack)$")
_ELEMENTWISE = re.compile(
    r"^aten::_?(foreach_)?(add|sub|rsub|mul|div|neg|abs|exp|log|sqrt|rsqrt|pow|square|relu|gelu|silu|elu|leaky_relu"
    r"|hardtanh|hardswish|sigmoid|tanh|erf|clamp(_min|_max)?|threshold|threshold_backward|where|maximum|minimum"
    r"|lerp|addcmul|addcdiv|masked_fill|sign|eq|ne|lt|le|gt|ge|logical_\w+|bitwise_\w+)_?(_backward)?$"
)
_BY_FRAME = (LEAF["idle.host.dispatch"], LEAF["idle.host.optimizer"])


@dataclass(frozen=True)
class HostPieces:
    """The pieces that tile the training thread's windows; ``pieces.query`` is the window."""

    pieces: Charges
    thread: Int64  # whose frame it was


def host_pieces(host: Host, boundaries: Int64, arrivals: Arrivals = NO_ARRIVALS) -> HostPieces:
    """Tile the windows of the training thread: operators are its busy time, all else is φ.

    Where the training thread has no frame, an autograd thread of the process is looked at in its
    place, and then the collectives that it may have waited for.
    """
    main = host.threads.main
    lo, hi = boundaries[:1], boundaries[-1:]
    parts, owners = list[Charges](), list[int]()
    holes = charges(lo, hi, 0)
    for track in (main, *_engines(host.threads)):
        lane = host.lanes.get(track, NOTHING_TOLD)
        found, holes = lane.take(lane.leaf != LEAF["idle.host.unframed"]).ask(holes)
        parts.append(_worked(host.threads, track, found))
        owners += [track] * len(parts[-1])
    comm, holes = _communicated(host.threads, holes, arrivals)
    rest = host.phi(np.full(len(holes), main), holes.start, holes.end)
    if len(comm):  # what is left of a silence may be too short to be called one
        short = (rest.leaf == LEAF["idle.host.unframed"]) & (rest.end - rest.start <= UNFRAMED)
        rest = replace(rest, leaf=np.where(short, LEAF["idle.host.python"], rest.leaf))
    every = stacked([*parts, comm, rest])
    thread = np.array(owners + [main] * (len(comm) + len(rest)), np.int64)
    order = np.argsort(every.start, kind="stable")
    every, thread = every.take(order), thread[order]
    pieces = every.cut_by(as_lane(boundaries))
    source = np.searchsorted(every.start, pieces.start, side="right") - 1
    return HostPieces(pieces, thread[source])


def roots(threads: Threads) -> tuple[Int64, Int64]:
    """Give the outermost operators of the threads that compute, and the busy leaf of each."""
    tracks = (threads.main, *_engines(threads))
    found = np.concatenate([_root_operators(threads, track).owner for track in tracks])
    return found, _classes(threads, found) if len(found) else found


def _communicated(threads: Threads, holes: Charges, arrivals: Arrivals) -> tuple[Charges, Charges]:
    """Charge the waits of main for collectives, and give what is left of its holes."""
    own = carried(threads)
    found, left = waited(own, holes)
    arrived = begun((own.event, own.start, own.end), own.alike, arrivals)
    return parted(found, arrived), left


def _engines(threads: Threads) -> list[int]:
    """Give the threads other than main that evaluate autograd nodes."""
    events = threads.trace.events
    nodes = np.array([name.startswith("autograd::engine::") for name in threads.trace.names], bool)
    here = nodes[events.name] & (events.category == category.CPU_OP)
    return [track for track in np.unique(events.track[here]).tolist() if track != threads.main]


def _worked(threads: Threads, track: int, found: Charges) -> Charges:
    """Call what lies inside an operator of a thread busy, by the class of its root operator."""
    roots = _root_operators(threads, track)
    by_frame = np.isin(found.leaf, _BY_FRAME)
    asked = found.take(by_frame)
    cut = cover(roots, asked.start, asked.end)
    inside = cut.piece >= 0
    pieces = replace(asked.take(cut.query), start=cut.start, end=cut.end)
    if not len(roots):
        return stacked([found.take(~by_frame), pieces])
    classes = _classes(threads, roots.owner)[cut.piece]
    pieces = replace(
        pieces,
        leaf=np.where(inside, classes, pieces.leaf),
        culprit=np.where(inside, roots.owner[cut.piece], pieces.culprit),
    )
    return stacked([found.take(~by_frame), pieces])


def _root_operators(threads: Threads, track: int) -> Lane:
    """Give the outermost operators of a thread, those below the autograd engine's own frames."""
    events = threads.trace.events
    wrapper = np.array([_WRAPPER.search(name) is not None for name in threads.trace.names], bool)
    mine = threads.of(track)
    mine = mine[(events.category[mine] == category.CPU_OP) & ~wrapper[events.name[mine]]]
    if not len(mine):
        return NO_LANE
    tree = forest(events.start[mine], events.end[mine])
    root = tree.parent < 0
    return Lane(tree.start[root], tree.end[root], mine[tree.index[root]])


def _classes(threads: Threads, operators: Int64) -> Int64:
    """Give the busy leaf of operators, by the tests that look at the operator."""
    trace, given = threads.trace, inputs(threads.trace)
    named = Named(trace, operators)
    detail = trace.events.detail[operators]
    thread = trace.events.track[operators].astype(np.int64)
    at = trace.events.start[operators]
    in_optimizer = threads.stepping(thread, at)
    clips = threads.within(CLIPS, thread, at) | (named.is_in({NORM_OPERATOR}) & ~in_optimizer)
    tests: list[tuple[str, Bool]] = [
        ("busy.gradclip_scaler", clips),
        ("busy.optimizer", in_optimizer),
        ("busy.zero_grad", threads.within(ZERO_GRAD, thread, at)),
        ("busy.mem", named.matches(_MEMORY)),
        ("busy.layout", named.is_in(LAYOUT_OPERATORS) & given.restrided[detail]),
        ("busy.cast", named.is_in(CAST_OPERATORS) & given.recast[detail]),
        ("busy.math", named.matches(MATH_OPERATOR)),
        *((leaf, named.matches(pattern)) for leaf, pattern in BY_NAME),
        ("busy.elementwise", named.matches(_ELEMENTWISE)),
    ]
    leaf = np.full(len(operators), LEAF["busy.other"])
    for name, found in reversed(tests):
        leaf[found] = LEAF[name]
    return leaf
