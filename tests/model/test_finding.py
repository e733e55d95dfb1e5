"""Causes that are not named beside others: of the same loader, or at the same lines."""

import pytest
from msgspec.structs import replace

from gapless.model.edit import Location, short_path
from gapless.model.finding import SAME_LINE, Detection

LINE = Detection("G219", "costly-line", "", (), Location("train.py", 34, "train"), unless=SAME_LINE)
CLIPPED = Detection("G206", "clip-loop", "", (), Location("train.py", 36, "train"))


def test_a_line_yields_to_a_cause_that_is_named_there() -> None:
    assert LINE.yields_to(CLIPPED)
    assert not CLIPPED.yields_to(LINE)


def test_a_line_stands_beside_causes_elsewhere_and_those_of_no_line() -> None:
    assert not LINE.yields_to(replace(CLIPPED, location=Location("train.py", 38, "train")))
    assert not LINE.yields_to(replace(CLIPPED, location=Location("model.py", 34, "forward")))
    assert not LINE.yields_to(replace(CLIPPED, location=None))
    assert not LINE.yields_to(LINE)


def test_a_line_stands_beside_what_is_only_to_be_tried() -> None:
    assert not LINE.yields_to(replace(CLIPPED, to_try=True))


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("/data/proj/train.py", "train.py"),
        ("C:\\train.py", "train.py"),
        ("train.py", "train.py"),
        ("<stdin>", "<stdin>"),
        ("/opt/lib/python3.12/site-packages/mingpt/model.py", "mingpt/model.py"),
        ("mingpt/model.py", "mingpt/model.py"),
        ("metrics/utils/common.py", "metrics/…/common.py"),
    ],
)
def test_a_file_of_a_package_is_named_with_it(file: str, name: str) -> None:
    assert short_path(file) == name
