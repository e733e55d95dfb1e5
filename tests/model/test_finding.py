"""Causes that are not named beside others: of the same loader, or at the same lines."""

from dataclasses import replace

from gapless.model.edit import Where
from gapless.model.finding import SAME_LINE, Loss

LINE = Loss("G219", "costly-line", "", (), Where("train.py", 34, "train"), unless=SAME_LINE)
CLIPPED = Loss("G206", "clip-loop", "", (), Where("train.py", 36, "train"))


def test_a_line_yields_to_a_cause_that_is_named_there() -> None:
    assert LINE.yields_to(CLIPPED)
    assert not CLIPPED.yields_to(LINE)


def test_a_line_stands_beside_causes_elsewhere_and_those_of_no_line() -> None:
    assert not LINE.yields_to(replace(CLIPPED, where=Where("train.py", 38, "train")))
    assert not LINE.yields_to(replace(CLIPPED, where=Where("model.py", 34, "forward")))
    assert not LINE.yields_to(replace(CLIPPED, where=None))
    assert not LINE.yields_to(LINE)


def test_a_line_stands_beside_what_is_only_to_be_tried() -> None:
    assert not LINE.yields_to(replace(CLIPPED, to_try=True))
