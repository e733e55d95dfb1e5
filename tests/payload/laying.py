"""Lay edits over this process, see what they tell, and take them off again."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import pytest

from gapless.model.edit import Edit, as_json
from gapless.payload import overlay, recorder
from gapless.payload.overlay import moments, telling

if TYPE_CHECKING:
    from collections.abc import Generator


class Told:
    """What edits told of."""

    def __init__(self) -> None:
        self.unseen: list[str] = []
        self.values: dict[int, dict[str, Any]] = {}  # by the edit's number: the latest fact
        self.edges: list[Any] = []

    def fact(self, noun: str, thing: object, values: dict[str, Any], place: object = None) -> int:
        assert noun == "edit"
        assert thing is not None
        assert place is None
        self.values[values["edit"]] = values
        return 0

    def note(self, what: str, why: str) -> None:
        self.unseen.append(f"{what}: {why}")

    def times(self, number: int = 0) -> int:
        """Give how often an edit took effect so far."""
        return telling.times(number)

    def edge(self, number: int = 1) -> None:
        """Be at a step edge."""
        for action in self.edges:
            action(number, 0, 0)

    def on_edge(self, action: object, *, seldom: bool = False) -> None:
        assert seldom in {True, False}
        self.edges.append(action)


@contextlib.contextmanager
def laid(*edits: Edit) -> Generator[Told]:
    """Have edits laid; what they tell is in what is given."""
    told = Told()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(recorder, "unseen", told.note)
        patch.setattr(recorder, "fact", told.fact)
        patch.setattr(recorder, "on_edge", told.on_edge)
        patch.setattr(recorder, "on_stop", lambda _action: None)  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
        patch.setitem(moments._state, "watching", False)  # noqa: FBT003, SLF001  # pyright: ignore[reportPrivateUsage]
        try:
            overlay.lay([as_json(edit) for edit in edits])
            yield told
        finally:
            overlay.lift()
