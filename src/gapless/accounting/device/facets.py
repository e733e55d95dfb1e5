"""Further columns of the ledger: phase, recomputation, what is hidden (docs: the account, 4)."""

import re

import numpy as np
from msgspec import Struct

from gapless.accounting.device.activities import COMM, D2H, H2D, P2P, Activities
from gapless.accounting.host.threads import Bool, Threads
from gapless.accounting.intervals import Lane, overlap, piece_at, union
from gapless.model import category
from gapless.model.ledger import PHASES
from gapless.model.trace import Int64

_NODE = re.compile(r"^autograd::engine::evaluate_function")
_CHECKPOINT_NODE = re.compile(r"^autograd::engine::evaluate_function: CheckpointFunctionBackward")
_INNER_NODE = re.compile(r"^autograd::engine::evaluate_function: (?!CheckpointFunctionBackward)")
_NODE_OF = re.compile(r"^\w+Backward\d*$")  # what a node itself does, inside the engine's frame
_FORWARD = re.compile(  # operators that a model calls, and no formula of a gradient does
    r"^aten::(linear|conv\dd|layer_norm|batch_norm|group_norm|dropout|embedding|softmax|gelu|relu"
    r"|scaled_dot_product_attention)$"
)
_RECOMPUTE = re.compile(r"torch/utils/checkpoint\.py\(\d+\): (recompute_fn|unpack_hook)")


def find_phases(threads: Threads, thread: Int64, instants: Int64, operator: Int64) -> Int64:
    """Return the phase (→ PHASES) of what a thread launched at an instant.

    Without an operator (−1) around it the phase is unknown.
    """
    phase = np.full(len(instants), PHASES.index("unknown"))
    phase[operator >= 0] = PHASES.index("forward")
    phase[threads.is_within(_NODE, thread, instants)] = PHASES.index("backward")
    phase[threads.is_stepping(thread, instants)] = PHASES.index("optimizer")
    return phase


def recompute_flags(threads: Threads, thread: Int64, instants: Int64) -> Int64:
    """Flag (1) what a forward launched again in the backward, since a checkpoint did not keep it.

    Re-entrant checkpoints run it inside their own node and outside any node that the inner backward
    evaluates; others run it in a hook of the first node that asks for what was not kept: Python
    frames show it, else operators in that node which only a forward calls. What such a node
    computes itself counts with it: it is one operator beside all those of a checkpoint.
    """
    in_hook = threads.is_within(_RECOMPUTE, thread, instants)
    in_checkpoint = threads.is_within(_CHECKPOINT_NODE, thread, instants)
    is_reentrant = in_checkpoint & ~threads.is_within(_INNER_NODE, thread, instants)
    return (
        in_hook | is_reentrant | (_is_unpacking(threads, thread, instants) & ~in_checkpoint)
    ).astype(np.int64)


def _is_unpacking(threads: Threads, thread: Int64, instants: Int64) -> Bool:
    """Flag what was launched inside a node in which operators of a forward run."""
    events = threads.trace.events
    unpacks = np.zeros(len(instants), bool)
    nodes, forward = _find_operators(threads, _NODE_OF), _find_operators(threads, _FORWARD)
    for track in np.unique(events.track[nodes]).tolist():
        track_nodes = nodes[events.track[nodes] == track]
        inner = forward[events.track[forward] == track]
        lane = union(events.start[track_nodes], events.end[track_nodes])
        pieces = piece_at(lane, events.start[inner])
        holds = np.zeros(len(lane) + 1, bool)  # the last: of what is in none
        holds[pieces[pieces >= 0]] = True
        rows = np.flatnonzero(thread == track)
        unpacks[rows] = holds[piece_at(lane, instants[rows])]
    return unpacks


def _find_operators(threads: Threads, pattern: re.Pattern[str]) -> Int64:
    """Return the operators whose name matches."""
    trace = threads.trace
    names = np.array([pattern.search(name) is not None for name in trace.names], bool)
    return np.flatnonzero(names[trace.events.name] & (trace.events.category == category.CPU_OP))


class BackgroundLanes(Struct, frozen=True):
    """When a device communicates and copies, whoever owns its time."""

    comm: Lane
    copies: Lane

    def measure_hidden(self, kind: Int64, start: Int64, end: Int64) -> tuple[Int64, Int64]:
        """Measure the communication and the copies beneath stretches owned by some kind, in ns."""
        below_comm = np.where(kind < COMM, overlap(self.comm, start, end), 0)
        below_copy = np.where(kind < H2D, overlap(self.copies, start, end), 0)
        return below_comm, below_copy


def background_lanes(acts: Activities) -> BackgroundLanes:
    """Find when the device of some activities communicates and copies."""
    return BackgroundLanes(_running_lane(acts, (COMM,)), _running_lane(acts, (H2D, D2H, P2P)))


def _running_lane(acts: Activities, kinds: tuple[int, ...]) -> Lane:
    rows = np.isin(acts.kind, kinds)
    return union(acts.start[rows], acts.end[rows])
