"""Small things that the nouns themselves can do."""

from pathlib import Path

import pytest

from gapless.accounting import partition
from gapless.formats import read
from gapless.model.leaf import LEAVES, group_of
from tests.study import writing


def test_columns_count_their_events_and_pieces(tmp_path: Path) -> None:
    trace = read(writing.write(tmp_path / "trace.json", writing.training(2)))
    assert len(trace.events) == len(trace.events.start) > 0
    ledger = partition(trace)
    assert len(ledger) == len(ledger.start) > 0


def test_a_leaf_is_of_the_group_of_its_longest_prefix() -> None:
    assert group_of("idle.host.python") == "host"
    assert group_of("idle.host.unframed") == "host"
    assert len({group_of(leaf) for leaf in LEAVES}) == 10
    with pytest.raises(KeyError, match=r"elsewhere\.x"):
        group_of("elsewhere.x")
