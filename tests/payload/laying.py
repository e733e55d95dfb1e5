"""Lay edits over this process, see what they tell, and take them off again."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import pytest

from gapless.model.edit import Edit, edit_to_json
from gapless.payload import overlay, recorder
from gapless.payload.overlay import reapply
from gapless.payload.overlay.patch import edit_counters

if TYPE_CHECKING:
    from collections.abc import Generator


class EditLog:
    """What edits told of."""

    def __init__(self) -> None:
        self.unobserved: list[str] = []
        self.values: dict[int, dict[str, Any]] = {}  # by the edit's number: the latest fact
        self.edges: list[Any] = []

    def fact(
        self, noun: str, entity: object, values: dict[str, Any], location: object = None
    ) -> int:
        assert noun == "edit"
        assert entity is not None
        assert location is None
        self.values[values["edit"]] = values
        return 0

    def note(self, topic: str, why: str) -> None:
        self.unobserved.append(f"{topic}: {why}")

    def times(self, number: int = 0) -> int:
        """Return how often an edit took effect so far."""
        return edit_counters.times(number)

    def edge(self, number: int = 1) -> None:
        """Be at a step edge."""
        for action in self.edges:
            action(number, 0, 0)

    def on_edge(self, action: object, *, seldom: bool = False) -> None:
        assert seldom in {True, False}
        self.edges.append(action)


@contextlib.contextmanager
def apply_edits(*edits: Edit) -> Generator[EditLog]:
    """Have edits laid; what they tell is in what is given."""
    edit_log = EditLog()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(recorder, "report_unobserved", edit_log.note)
        patch.setattr(recorder, "fact", edit_log.fact)
        patch.setattr(recorder, "on_edge", edit_log.on_edge)
        patch.setattr(recorder, "on_stop", lambda _action: None)  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
        patch.setattr(reapply._moments, "is_watched", False)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
        try:
            overlay.apply([edit_to_json(edit) for edit in edits])
            yield edit_log
        finally:
            overlay.revert()
