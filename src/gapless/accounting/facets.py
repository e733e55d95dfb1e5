"""Further columns of the ledger: phase, recomputation, what is hidden (docs: the account, 4)."""

import re
from dataclasses import dataclass

import numpy as np

from gapless.accounting.activities import COMM, D2H, H2D, P2P, Activities
from gapless.accounting.intervals import Lane, overlap, piece_at, union
from gapless.accounting.threads import Bool, Threads
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


def phases(threads: Threads, thread: Int64, at: Int64, operator: Int64) -> Int64:
    """Give the phase (→ PHASES) of what a thread launched at an instant.

    Without an operator (−1) around it the phase is unknown.
    """
    phase = np.full(len(at), PHASES.index("unknown"))
    phase[operator >= 0] = PHASES.index("forward")
    phase[threads.within(_NODE, thread, at)] = PHASES.index("backward")
    phase[threads.stepping(thread, at)] = PHASES.index("optimizer")
    return phase


def recomputes(threads: Threads, thread: Int64, at: Int64) -> Int64:
    """Tell (1) what a forward launched again in the backward, because a checkpoint did not keep it.

    Re-entrant checkpoints run it inside their own node and outside any node that the inner backward
    evaluates; others run it in a hook of the first node that asks for what was not kept: Python
    frames show it, else operators in that node which only a forward calls. What such a node
    computes itself counts with it: it is one operator beside all those of a checkpoint.
    """
    hooked = threads.within(_RECOMPUTE, thread, at)
    again = threads.within(_CHECKPOINT_NODE, thread, at)
    reentrant = again & ~threads.within(_INNER_NODE, thread, at)
    return (hooked | reentrant | (_unpacking(threads, thread, at) & ~again)).astype(np.int64)


def _unpacking(threads: Threads, thread: Int64, at: Int64) -> Bool:
    """Tell what was launched inside a node in which operators of a forward run."""
    events = threads.trace.events
    found = np.zeros(len(at), bool)
    nodes, forward = _named(threads, _NODE_OF), _named(threads, _FORWARD)
    for track in np.unique(events.track[nodes]).tolist():
        mine = nodes[events.track[nodes] == track]
        inner = forward[events.track[forward] == track]
        lane = union(events.start[mine], events.end[mine])
        asked = piece_at(lane, events.start[inner])
        holds = np.zeros(len(lane) + 1, bool)  # the last: of what is in none
        holds[asked[asked >= 0]] = True
        rows = np.flatnonzero(thread == track)
        found[rows] = holds[piece_at(lane, at[rows])]
    return found


def _named(threads: Threads, pattern: re.Pattern[str]) -> Int64:
    """Give the operators whose name matches."""
    trace = threads.trace
    names = np.array([pattern.search(name) is not None for name in trace.names], bool)
    return np.flatnonzero(names[trace.events.name] & (trace.events.category == category.CPU_OP))


@dataclass(frozen=True)
class Beneath:
    """When a device communicates and copies, whoever owns its time."""

    comm: Lane
    copies: Lane

    def hidden(self, kind: Int64, start: Int64, end: Int64) -> tuple[Int64, Int64]:
        """Measure the communication and the copies beneath stretches owned by some kind, in ns."""
        below_comm = np.where(kind < COMM, overlap(self.comm, start, end), 0)
        below_copy = np.where(kind < H2D, overlap(self.copies, start, end), 0)
        return below_comm, below_copy


def beneath(acts: Activities) -> Beneath:
    """Find when the device of some activities communicates and copies."""
    return Beneath(_running(acts, (COMM,)), _running(acts, (H2D, D2H, P2P)))


def _running(acts: Activities, kinds: tuple[int, ...]) -> Lane:
    rows = np.isin(acts.kind, kinds)
    return union(acts.start[rows], acts.end[rows])
