"""What shorter rows leave of a step: which work goes with the length, and how far."""

import pytest
from msgspec.structs import replace

from gapless.catalogue.examples.work import example_work
from gapless.model.facts import PaddingStats
from gapless.model.work import Work
from gapless.roofline.padding import (
    find_host_factor,
    is_looked_up,
    length_target,
    rows_with_length,
    shorten_factor,
)
from gapless.roofline.roofline import NO_CHANGE

PADDING = PaddingStats(
    batches=9,
    rows=8,
    length=600,
    lengths=(600,),
    filled=0.2,
    longest=0.4,
    square=0.06,
    declared=True,
    varies=False,
    kind="float",
    dimensions=3,
)
STRIDED = example_work("aten::conv1d", ((8, 80, 600), (64, 80, 3)), 10, "busy.math")
SHORT = example_work(
    "aten::mm", ((1200, 64), (64, 256)), 5, "busy.math"
)  # 8 times a quarter of 600
HEAD = example_work("aten::mm", ((8, 64), (64, 32)), 1, "busy.math")
STEP = example_work("aten::add_", ((600, 64), (600, 64)), 2, "busy.optimizer")
WEIGHTS = example_work("aten::to", ((600, 64),), 1, "busy.cast")  # as a parameter is


def test_what_goes_with_the_length_has_it_among_its_sizes_beside_the_batch() -> None:
    rows = (STRIDED, SHORT, HEAD, STEP, WEIGHTS)
    assert rows_with_length(rows, PADDING) == (STRIDED, SHORT)


def test_without_strides_a_shorter_size_is_no_length() -> None:
    assert rows_with_length((SHORT,), PADDING) == ()
    full = example_work("aten::mm", ((4800, 64), (64, 256)), 5, "busy.math")
    assert rows_with_length((full, SHORT), PADDING) == (full,)


def test_what_a_recurrent_network_does_at_each_position_is_done_less_often() -> None:
    layer = example_work("aten::gru", ((8, 600, 64), (1, 8, 32)), 5, "busy.other", calls=1)
    backward = example_work("aten::mm", ((96, 8), (8, 32)), 5, "busy.math", calls=600)
    once = example_work("aten::mm", ((8, 32), (32, 1)), 5, "busy.math", calls=4)
    rows = (layer, backward, once)
    assert rows_with_length(rows, PADDING) == (layer, backward)
    assert shorten_factor(rows, PADDING, None)(backward).low == pytest.approx(0.2)
    assert find_host_factor(rows, PADDING).low == pytest.approx(1 - 0.8 * 600 / 605)
    assert find_host_factor((backward, once), PADDING) == NO_CHANGE


def test_what_is_done_often_beside_a_recurrent_network_is_not_done_at_each_position() -> None:
    lengths = replace(PADDING, rows=32, lengths=(9, 20, 70, 100))
    layer = example_work("aten::gru", ((32, 100, 64), (1, 32, 32)), 5, "busy.other", calls=1)
    pictures = ((32, 64, 56, 56), (64, 64, 3, 3))
    encoder = example_work("aten::convolution", pictures, 50, "busy.math", calls=53)
    added = example_work("aten::add_", pictures[:1], 5, "busy.elementwise", calls=53)
    heads = example_work("aten::mm", ((32, 44), (44, 1)), 5, "busy.math", calls=30)
    rows = (layer, encoder, added, heads)
    assert rows_with_length(rows, lengths) == (layer,)
    assert find_host_factor(rows, lengths) == NO_CHANGE


def test_packed_rows_are_left_alone() -> None:
    packed_rows = example_work("aten::mm", ((963, 64), (64, 256)), 5, "busy.math")
    assert rows_with_length((packed_rows,), PADDING) == ()


def factor_of(work: Work, padding: PaddingStats = PADDING, kernel_ns: float | None = 0.0) -> float:
    estimate = shorten_factor((work,), padding, kernel_ns)(work)
    assert estimate.low <= estimate.mid <= estimate.high
    return estimate.low


def test_at_best_all_of_it_goes_but_what_the_mean_row_fills() -> None:
    long = example_work("aten::mm", ((4800, 64), (64, 256)), 1e6, "busy.math")
    assert factor_of(long) == pytest.approx(0.2)
    assert factor_of(HEAD) == NO_CHANGE.low


def test_scores_go_with_the_square_of_the_length() -> None:
    scores = example_work("aten::_softmax", ((8, 4, 600, 600),), 1e6, "busy.norm_reduce")
    fused = example_work("aten::_flash_attention_forward", ((8, 600, 4, 64),), 1e6, "busy.tc_math")
    assert factor_of(scores) == pytest.approx(0.06)
    assert factor_of(fused) == pytest.approx(0.06)


def test_the_fixed_cost_of_calls_stays() -> None:
    half = example_work("aten::gelu", ((8, 600, 64),), 0.007, "busy.elementwise", launches=0)
    assert factor_of(half) == pytest.approx(0.5 + 0.5 * 0.2)  # 3.5 µs of 7
    launch = example_work("aten::gelu", ((8, 600, 64),), 0.004, "busy.elementwise")
    assert factor_of(launch, kernel_ns=2000.0) == pytest.approx(0.5 + 0.5 * 0.2)


def test_at_worst_rows_are_cut_where_the_longest_of_their_batch_ends() -> None:
    assert length_target(PADDING).linear.high == pytest.approx(0.4)  # the same as three quarters
    assert length_target(replace(PADDING, longest=0.3)).linear.high == pytest.approx(0.3)
    sorting = length_target(replace(PADDING, longest=1.0))
    assert sorting.linear.high == pytest.approx(0.2 + 0.25 * 0.8)
    assert sorting.squared.high == pytest.approx(0.06 + 0.4**2 - 0.2**2)
    alike = length_target(replace(PADDING, filled=1.0, longest=1.0, square=1.0))
    assert alike.linear == alike.squared == NO_CHANGE


def test_whole_batches_are_looked_up_in_tables() -> None:
    ids = replace(PADDING, kind="int", dimensions=2)
    embedding = example_work("aten::embedding", ((1000, 64), (8, 600)), 1, "busy.index")
    assert is_looked_up((embedding,), ids)
    assert not is_looked_up((embedding,), replace(ids, lengths=(300,)))
    assert not is_looked_up((example_work("aten::add", ((8, 600),), 1, "busy.math"),), ids)
