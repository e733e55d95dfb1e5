"""A line is left out of a name where a sentence has named that very line."""

import pytest

from gapless.model.edit import Location
from gapless.model.finding import Detection
from gapless.pricing.diagnose import name_cause


@pytest.mark.parametrize(
    ("sentence", "name"),
    [
        ("most is Python (train.py:4)", "slow-thing"),
        ("most is Python (src/train.py:4), it seems", "slow-thing"),
        ("most is Python (train.py:41)", "slow-thing (train.py:4)"),
        ("most is Python (my_train.py:4)", "slow-thing (train.py:4)"),
    ],
)
def test_a_line_that_a_sentence_named_is_not_said_again(sentence: str, name: str) -> None:
    detection = Detection("G999", "slow-thing", "It is slow.", (), Location("/home/train.py", 4))
    assert name_cause(detection, sentence) == name
