"""Count an edit from code that ``torch.compile`` may trace: there, by setting an attribute alone.

What compiled code sets is set each time that it runs; it is looked at when a step ends.
"""

from __future__ import annotations

from typing import Any

from .. import compiling, recorder
from .patch import edit_counters


class TracedEdit:
    """An edit that takes effect in code that may be compiled."""

    def __init__(self, number: int, target: str, old: Any, new: Any) -> None:
        self.number, self.target, self.old, self.new = number, target, old, new
        self.ran = False  # compiled, since the last look
        self.compiles = compiling.get_is_compiling()
        edit_counters.register_edit(number, target)
        edit_counters.on_finish(number, self.look)
        recorder.on_edge(self.look, seldom=True)

    def now(self) -> None:
        """Record that it has taken effect."""
        if self.compiles():
            self.ran = True
        else:
            edit_counters.record_effect(self.number, self.target, self.old, self.new)

    def not_now(self, why: str) -> None:
        """Write down why it could not take effect."""
        if not self.compiles():
            edit_counters.record_refusal(self.number, self.target, why)

    def look(self, _number: int = 0, _start: int = 0, _end: int = 0) -> None:
        """Record, at the end of a step, what ran compiled."""
        if self.ran:
            self.ran = False
            edit_counters.record_effect(self.number, self.target, self.old, self.new)

    def record_revert(self) -> None:
        """Write how often it took effect, now that it is reverted."""
        self.look()
        edit_counters.record_revert(self.number)
