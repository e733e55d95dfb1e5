"""Wrap "collector": no automatic garbage collections; one at every n-th step, or none.

At the first step edge all that is there is collected once and then left alone (``gc.freeze``).
A training that turns collections on again has them: that is written down.
"""

from __future__ import annotations

import functools
import gc
from typing import Any

from ... import recorder
from ...process_state import keep
from ..patch import edit_counters, targets

TARGET = "gc"


def apply(number: int, edit: Any) -> targets.Undo:
    """Apply an edit; options: "every" (steps, or None), "freeze". Return what reverts it."""
    edit_counters.register_edit(number, TARGET)
    control = _CollectorControl(number, edit["options"])
    recorder.on_edge(control.edge)
    keep(control)
    return functools.partial(
        targets.undo_all, [lambda: edit_counters.record_revert(number), control.end]
    )


class _CollectorControl:
    """The collector, in our hands from the first edge on."""

    def __init__(self, number: int, options: Any) -> None:
        self.number = number
        self.every = options.get("every")
        self.freeze = options.get("freeze", True)
        self.on, self.begun, self.steps, self.frozen = True, False, 0, False

    def edge(self, _number: int, _start: int, _end: int) -> None:
        """Take the collector over at the first edge, collect when it is due."""
        if not self.on:
            return
        if not self.begun:
            self._begin()
        elif gc.isenabled():
            self.on = False
            self._thaw()
            edit_counters.record_refusal(
                self.number, TARGET, "the training turns collections on again"
            )
        else:
            self.steps += 1
            if self.every and self.steps % self.every == 0:
                gc.collect()

    def _begin(self) -> None:
        if not gc.isenabled():
            self.on = False
            edit_counters.record_refusal(
                self.number, TARGET, "the training has turned collections off itself"
            )
            return
        self.begun = True
        gc.collect()
        if self.freeze and not gc.get_freeze_count():
            gc.freeze()
            self.frozen = True
        gc.disable()
        new = "off" if not self.every else f"every {self.every} steps"
        edit_counters.record_effect(self.number, TARGET, "automatic", new)

    def fork(self) -> None:
        """Let a worker have automatic collections, as without us: it has no step edges."""
        if self.on and self.begun:
            gc.enable()
        self.on = False

    def end(self) -> None:
        """Give the collector back."""
        if self.on and self.begun and not gc.isenabled():
            gc.enable()
        self._thaw()
        self.on = False

    def _thaw(self) -> None:
        if self.frozen:
            gc.unfreeze()
            self.frozen = False
