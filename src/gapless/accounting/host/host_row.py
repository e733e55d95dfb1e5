"""The row of a run without a device: its training thread (docs: the account, 10)."""

import re

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from gapless.accounting.charges import NO_CHARGED_LANE, Bool, Charges, make_charges, stack_charges
from gapless.accounting.device.busy import (
    BY_NAME,
    CAST_OPERATORS,
    CLIPS,
    LAYOUT_OPERATORS,
    MATH_OPERATOR,
    NORM_OPERATOR,
    ZERO_GRAD,
    EventNames,
)
from gapless.accounting.device.transfers import find_transfers, split_charges
from gapless.accounting.device.windows import as_lane
from gapless.accounting.host.host import UNFRAMED, HostSide
from gapless.accounting.host.inputs import operator_inputs
from gapless.accounting.host.nesting import build_forest
from gapless.accounting.host.tags import COLLECTIVE_FUNCTION
from gapless.accounting.host.threads import Threads
from gapless.accounting.intervals import NO_LANE, Lane, cover
from gapless.accounting.ranks.collectives import NO_ARRIVALS, Arrivals
from gapless.accounting.ranks.gloo import HostCollectives, host_collectives, split_waits
from gapless.model import category
from gapless.model.leaf import LEAF
from gapless.model.trace import Int64

_EXCHANGING = re.compile(COLLECTIVE_FUNCTION)
_WRAPPER = re.compile(
    r"^autograd::engine::evaluate_function|Backward\d+$|^CheckpointFunction(Backward)?$"
    rf"|{COLLECTIVE_FUNCTION}"
)
_MEMORY = re.compile(r"^aten::(cat|_cat|fill_|zero_|stack)$")
_ELEMENTWISE = re.compile(
    r"^aten::_?(foreach_)?(add|sub|rsub|mul|div|neg|abs|exp|log|sqrt|rsqrt|pow|square|relu|gelu|silu|elu|leaky_relu"
    r"|hardtanh|hardswish|sigmoid|tanh|erf|clamp(_min|_max)?|threshold|threshold_backward|where|maximum|minimum"
    r"|lerp|addcmul|addcdiv|masked_fill|sign|eq|ne|lt|le|gt|ge|logical_\w+|bitwise_\w+)_?(_backward)?$"
    # of TensorFlow, of XLA
    r"|^(Add(V2)?|Sub|Mul|(Real)?Div|Neg|Exp|Log|R?Sqrt|Square|Pow|Relu|ReluGrad|Tanh|Sigmoid|Select(V2)?"
    r"|Assign(Add|Sub)?VariableOp|BiasAdd|Minimum|Maximum|Cast)$"
    r"|^(wrapped_)?(add|subtract|multiply|divide|negate|exponential|log|rsqrt|sqrt|tanh|select|compare|maximum"
    r"|minimum|power)(_\w+)?$"
)
_BY_FRAME = (LEAF["idle.host.dispatch"], LEAF["idle.host.optimizer"])


class HostPieces(Struct, frozen=True):
    """The pieces that tile the training thread's windows; ``pieces.query`` is the window."""

    pieces: Charges
    thread: Int64  # whose frame it was


def host_pieces(host: HostSide, boundaries: Int64, arrivals: Arrivals = NO_ARRIVALS) -> HostPieces:
    """Tile the windows of the training thread: operators are its busy time, all else is φ.

    Where the training thread has no frame, an autograd thread of the process is looked at in its
    place, and then the collectives that it may have waited for. In its own exchanges with another
    rank, and in functions of autograd that exchange, it has none either.
    """
    main, collectives = host.threads.main, host_collectives(host.threads)
    lo, hi = boundaries[:1], boundaries[-1:]
    exchanging = _exchanging_frames(host.threads)
    parts, owners = list[Charges](), list[int]()
    holes = make_charges(lo, hi, 0)
    for track in (main, *_engine_threads(host.threads)):
        lane = host.lanes.get(track, NO_CHARGED_LANE)
        is_silent = np.isin(lane.lane.owner, collectives.event)
        is_silent |= lane.leaf == LEAF["idle.host.unframed"]
        is_silent |= np.isin(lane.lane.owner, exchanging)
        thread_charges, holes = lane.take(~is_silent).answer(holes)
        parts.append(_charge_operators(host.threads, track, thread_charges))
        owners += [track] * len(parts[-1])
    comm, holes = _charge_collectives(collectives, holes, arrivals)
    phi_charges = host.phi(np.full(len(holes), main), holes.start, holes.end)
    if len(comm):  # what is left of a silence may be too short to be called one
        is_short = (phi_charges.leaf == LEAF["idle.host.unframed"]) & (
            phi_charges.end - phi_charges.start <= UNFRAMED
        )
        phi_charges = replace(
            phi_charges, leaf=np.where(is_short, LEAF["idle.host.python"], phi_charges.leaf)
        )
    all_charges = stack_charges([*parts, comm, phi_charges])
    thread = np.array(owners + [main] * (len(comm) + len(phi_charges)), np.int64)
    order = np.argsort(all_charges.start, kind="stable")
    all_charges, thread = all_charges.take(order), thread[order]
    pieces = all_charges.cut_by(as_lane(boundaries))
    source = np.searchsorted(all_charges.start, pieces.start, side="right") - 1
    return HostPieces(pieces, thread[source])


def _exchanging_frames(threads: Threads) -> Int64:
    """Return the events of functions of autograd that exchange: they wait within their frame."""
    names = np.array([_EXCHANGING.search(name) is not None for name in threads.trace.names], bool)
    return np.flatnonzero(names[threads.trace.events.name])


def find_roots(threads: Threads) -> tuple[Int64, Int64]:
    """Return the outermost operators of the threads that compute, and the busy leaf of each."""
    tracks = (threads.main, *_engine_threads(threads))
    operators = np.concatenate([_root_operators(threads, track).owner for track in tracks])
    return operators, _operator_leaves(threads, operators) if len(operators) else operators


def _charge_collectives(
    collectives: HostCollectives, holes: Charges, arrivals: Arrivals
) -> tuple[Charges, Charges]:
    """Charge the waits of main for collectives, and return what is left of its holes."""
    waits, remaining = split_waits(collectives, holes)
    transfers = find_transfers(
        (collectives.event, collectives.start, collectives.end), collectives.alike_rows, arrivals
    )
    return split_charges(waits, transfers), remaining


def _engine_threads(threads: Threads) -> list[int]:
    """Return the threads other than main that compute for it: autograd's, an executor's."""
    events = threads.trace.events
    nodes = np.array([name.startswith("autograd::engine::") for name in threads.trace.names], bool)
    is_node = nodes[events.name] & (events.category == category.CPU_OP)
    tracks = [*np.unique(events.track[is_node]).tolist(), *threads.trace.roles.executors]
    return [track for track in dict.fromkeys(tracks) if track != threads.main]


def _charge_operators(threads: Threads, track: int, thread_charges: Charges) -> Charges:
    """Call what lies inside an operator of a thread busy, by the class of its root operator."""
    roots = _root_operators(threads, track)
    is_by_frame = np.isin(thread_charges.leaf, _BY_FRAME)
    framed_charges = thread_charges.take(is_by_frame)
    cut = cover(roots, framed_charges.start, framed_charges.end)
    inside = cut.piece >= 0
    pieces = replace(framed_charges.take(cut.query), start=cut.start, end=cut.end)
    if not len(roots):
        return stack_charges([thread_charges.take(~is_by_frame), pieces])
    classes = _operator_leaves(threads, roots.owner)[cut.piece]
    pieces = replace(
        pieces,
        leaf=np.where(inside, classes, pieces.leaf),
        culprit=np.where(inside, roots.owner[cut.piece], pieces.culprit),
    )
    return stack_charges([thread_charges.take(~is_by_frame), pieces])


def _root_operators(threads: Threads, track: int) -> Lane:
    """Return the outermost operators of a thread, those below the autograd engine's own frames."""
    events = threads.trace.events
    is_wrapper = np.array([_WRAPPER.search(name) is not None for name in threads.trace.names], bool)
    operators = threads.frames_of(track)
    operators = operators[
        (events.category[operators] == category.CPU_OP) & ~is_wrapper[events.name[operators]]
    ]
    if not len(operators):
        return NO_LANE
    tree = build_forest(events.start[operators], events.end[operators])
    is_root = tree.parent < 0
    return Lane(tree.start[is_root], tree.end[is_root], operators[tree.index[is_root]])


def _operator_leaves(threads: Threads, operators: Int64) -> Int64:
    """Return the busy leaf of operators, by the tests that look at the operator."""
    trace, op_inputs = threads.trace, operator_inputs(threads.trace)
    names = EventNames(trace, operators)
    detail = trace.events.detail[operators]
    thread = trace.events.track[operators].astype(np.int64)
    starts = trace.events.start[operators]
    in_optimizer = threads.is_stepping(thread, starts)
    clips = threads.is_within(CLIPS, thread, starts) | (
        names.is_in({NORM_OPERATOR}) & ~in_optimizer
    )
    tests: list[tuple[str, Bool]] = [
        ("busy.gradclip_scaler", clips),
        ("busy.optimizer", in_optimizer),
        ("busy.zero_grad", threads.is_within(ZERO_GRAD, thread, starts)),
        ("busy.mem", names.matches(_MEMORY)),
        ("busy.layout", names.is_in(LAYOUT_OPERATORS) & op_inputs.restrided[detail]),
        ("busy.cast", names.is_in(CAST_OPERATORS) & op_inputs.recast[detail]),
        ("busy.math", names.matches(MATH_OPERATOR)),
        *((leaf, names.matches(pattern)) for leaf, pattern in BY_NAME),
        ("busy.elementwise", names.matches(_ELEMENTWISE)),
    ]
    leaf = np.full(len(operators), LEAF["busy.other"])
    for name, is_match in reversed(tests):
        leaf[is_match] = LEAF[name]
    return leaf
