"""How full a loader's batches are, from the looks that the recorder took."""

import pytest
from msgspec.structs import replace

from gapless.model.facts import Loader, PaddingStats
from gapless.recorded.facts import facts
from tests.study.recording import Log, recording

TEXT = {"rows": 8, "length": 100, "kind": "int", "dimensions": 2, "along": 1, "by": "mask"}
SHARES = {"filled": 0.4, "longest": 0.8, "square": 0.2}


def loader(*batches: list[dict[str, object]] | object, number: int = 0) -> Loader:
    log = Log()
    log.add_fact("loader", 0, ("train.py", 41), num_workers=0, batch_size=8)
    log.add_steps(100, 200, 300)
    for index, lengths in enumerate(batches):
        log.add_fact("filling", index, None, loader=number, window=False, ns=index, lengths=lengths)
    return facts(recording(log)).loaders[0]


def look(**changes: object) -> list[dict[str, object]]:
    return [TEXT | SHARES | changes]


def test_shares_are_means_of_the_batches_that_were_looked_at() -> None:
    batches = (look(), look(), look(filled=0.7, longest=1.0, square=0.5))
    padding = loader(*batches).padding
    assert padding is not None
    assert (padding.filled, padding.longest, padding.square) == pytest.approx((0.5, 2.6 / 3, 0.3))
    assert replace(padding, filled=0.5, longest=0.9, square=0.3) == PaddingStats(
        batches=3,
        rows=8,
        length=100,
        lengths=(100,),
        filled=0.5,
        longest=0.9,
        square=0.3,
        declared=True,
        varies=False,
        kind="int",
        dimensions=2,
    )


def test_a_long_batch_counts_by_its_positions() -> None:
    padding = loader(look(), look(), look(length=200, filled=0.8)).padding
    assert padding is not None
    assert padding.filled == pytest.approx((0.4 + 0.4 + 1.6) / 4)
    assert (padding.lengths, padding.varies) == ((100, 200), True)


@pytest.mark.parametrize(
    ("changes", "is_padding"),
    [
        ({"by": None}, True),  # whole numbers: a rule sees whether they are looked up
        ({"by": None, "kind": "float"}, False),
        ({"by": None, "kind": "float", "dimensions": 4, "along": 3}, False),
        ({"by": "lengths", "kind": "float", "dimensions": 4, "along": 3}, True),
    ],
)
def test_a_border_is_no_padding_unless_something_says_so(
    changes: dict[str, object], *, is_padding: bool
) -> None:
    assert (loader(*[look(**changes)] * 3).padding is not None) is is_padding


def test_batches_that_differ_in_length_have_one() -> None:
    changes = {"by": None, "kind": "float", "dimensions": 3}
    batches = [look(**changes, length=length) for length in (90, 100, 110)]
    assert loader(*batches).padding is not None
    pictures = [look(**changes | {"dimensions": 4}, length=length) for length in (90, 100, 110)]
    assert loader(*pictures).padding is None


def test_of_several_lengths_the_one_that_is_told_of_counts() -> None:
    looks = [*look(), *look(kind="float", dimensions=3, along=2, length=80, filled=0.1, by=None)]
    padding = loader(*[looks] * 3).padding
    assert padding is not None
    assert (padding.length, padding.filled) == (100, pytest.approx(0.4))


def test_of_two_batches_or_of_another_loader_nothing_is_said() -> None:
    assert loader(look(), look()).padding is None
    assert loader(*[look()] * 3, number=1).padding is None
    assert loader().padding is None


@pytest.mark.parametrize("lengths", [None, 7, ["text"], [{"rows": 8}], look(filled="much")])
def test_what_is_no_look_is_passed_over(lengths: object) -> None:
    assert loader(*[lengths] * 3).padding is None
