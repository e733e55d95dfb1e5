"""Graphs for a backward pass that are made while a model evaluates, though none comes.

Torch numbers the nodes of the graphs that a thread makes. The number is read where a model is set
to evaluate, and where it is set to train again: the difference is what was made between, none
under ``no_grad`` or ``inference_mode``. If an optimizer stepped meanwhile, it was no evaluation.
"""

from __future__ import annotations

import sys
import threading
from typing import Any

from .. import stepping
from ..stacks import locations

# Packages of environments that agents act in: the model acts in eval mode, too.
_ENVIRONMENTS = ("gymnasium", "gym", "pettingzoo", "dm_env", "envpool", "isaacgym", "isaaclab")


class EvaluationPasses:
    """The evaluations of one model so far."""

    __slots__ = ("begun", "graphed", "many", "nodes", "place")

    def __init__(self) -> None:
        self.many = self.graphed = self.nodes = 0
        self.begun: Any = None  # nodes, steps and thread when the one under way began
        self.place = None

    def note_mode(self, mode: Any, nodes: int) -> Any:
        """Begin to evaluate, or end; return what is known now and then, None in between.

        ``nodes``: what this thread has made so far.
        """
        start, self.begun = self.begun, None
        now = (nodes, stepping.steps(), threading.get_ident())
        if not mode:
            self.place = self.place or locations.users_line()
            self.begun = now
            return None
        if start is None or start[1:] != now[1:]:
            return None
        self.many += 1
        self.graphed += nodes > start[0]
        self.nodes += nodes - start[0]
        if self.many & (self.many - 1):  # after one, two, four …: more and more seldom
            return None
        counts = {"passes": self.many, "graphed": self.graphed, "nodes": self.nodes}
        environment = next((name for name in _ENVIRONMENTS if name in sys.modules), None)
        return counts if environment is None else {**counts, "environment": environment}


def count_nodes() -> int | None:
    """Return how many nodes this thread has made; ``None`` where torch does not say."""
    autograd = getattr(sys.modules["torch"]._C, "_autograd", None)
    number = getattr(autograd, "_get_sequence_nr", None)
    return None if number is None else number()
