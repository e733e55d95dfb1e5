"""Further columns of the ledger: phase, recomputation, what is hidden (docs: the account, 4)."""

import re
from dataclasses import dataclass

import numpy as np

from gapless.accounting.activities import COMM, D2H, H2D, P2P, Activities
from gapless.accounting.intervals import Lane, overlap, union
from gapless.accounting.threads import OPTIMIZER_STEP, Threads
from gapless.model.ledger import PHASES
from gapless.model.trace import Int64

_NODE = re.compile(r"^autograd::engine::evaluate_function")
_CHECKPOINT_NODE = re.compile(r"^autograd::engine::evaluate_function: CheckpointFunctionBackward")
_INNER_NODE = re.compile(r"^autograd::engine::evaluate_function: (?!CheckpointFunctionBackward)")
_RECOMPUTE = re.compile(r"torch/utils/checkpoint\.py\(\d+\): (recompute_fn|unpack_hook)")


def phases(threads: Threads, thread: Int64, at: Int64, operator: Int64) -> Int64:
    """Give the phase (→ PHASES) of what a thread launched at an instant.

    Without an operator (−1) around it the phase is unknown.
    """
    phase = np.full(len(at), PHASES.index("unknown"))
    phase[operator >= 0] = PHASES.index("forward")
    phase[threads.within(_NODE, thread, at)] = PHASES.index("backward")
    phase[threads.within(OPTIMIZER_STEP, thread, at)] = PHASES.index("optimizer")
    return phase


def recomputes(threads: Threads, thread: Int64, at: Int64) -> Int64:
    """Tell (1) what a forward launched again in the backward, because a checkpoint did not keep it.

    Re-entrant checkpoints run it inside their own node and outside any node that the inner backward
    evaluates; others run it in a hook, which only Python frames show.
    """
    hooked = threads.within(_RECOMPUTE, thread, at)
    again = threads.within(_CHECKPOINT_NODE, thread, at)
    return (hooked | (again & ~threads.within(_INNER_NODE, thread, at))).astype(np.int64)


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
