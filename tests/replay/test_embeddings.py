"""Dense gradients of embeddings: which tables, what goes over them, what sparse ones leave."""

import pytest

from gapless.catalogue.examples.work import example_work
from gapless.model.work import Work
from gapless.roofline.embeddings import EmbeddingTables, dense_tables, sparse_factor
from gapless.roofline.roofline import NO_CHANGE

TABLE = (100_000, 16)
LOOKUP = example_work("aten::embedding", (TABLE, (8, 50)), 0.1, "busy.index", calls=2)
BACK = example_work(
    "aten::embedding_backward",
    ((8, 50, 16), (8, 50)),
    2,
    "busy.index",
    calls=2,
    backward=True,
    launches=0,
)
STEP = example_work("aten::add_", (TABLE, TABLE), 1, "busy.optimizer", calls=2, launches=0)
UNRELATED = example_work("aten::add_", ((64, 64),) * 2, 1, "busy.optimizer", launches=0)
ON_CPU = (LOOKUP, BACK, STEP, UNRELATED)


def find_tables(*rows: Work) -> EmbeddingTables:
    tables = dense_tables(rows)
    assert tables is not None
    return tables


def test_what_goes_over_a_table_are_its_gradient_and_the_optimizer() -> None:
    tables = find_tables(*ON_CPU)
    assert tables.rows == (BACK, STEP)
    assert tables.ns == BACK.ns + STEP.ns
    assert tables.rows_by_size == {TABLE: 400}
    assert tables.row_share == pytest.approx(0.004)


@pytest.mark.parametrize(
    "rows",
    [
        (LOOKUP, STEP),  # it is not trained
        (BACK, STEP),  # nothing tells the size of the table
        (example_work("aten::embedding", ((1000, 16), (8, 50)), 0.1, "busy.index"), BACK, STEP),
        (*ON_CPU, example_work("aten::mm", ((400, 16), TABLE[::-1]), 1, "busy.math")),  # tied
        (*ON_CPU, example_work("aten::linear", ((400, 16), TABLE), 1, "busy.math")),
    ],
)
def test_other_tables_are_left_alone(rows: tuple[Work, ...]) -> None:
    assert dense_tables(rows) is None


def test_of_tables_of_both_kinds_the_gradient_is_parted_by_their_size() -> None:
    small = example_work("aten::embedding", ((1280, 1250), (8, 50)), 0.1, "busy.index", calls=2)
    tables = find_tables(*ON_CPU, small)
    assert tables.table_share(BACK) == pytest.approx(0.5)
    assert tables.table_share(STEP) == 1


def test_an_optimizer_of_all_parameters_at_once_is_parted_too() -> None:
    foreach_add = example_work("aten::_foreach_add_", (TABLE, (400_000, 12)), 1, "busy.optimizer")
    assert find_tables(LOOKUP, BACK, foreach_add).table_share(foreach_add) == pytest.approx(0.25)


def test_a_device_fills_with_zeros_in_a_kernel_of_its_own() -> None:
    back = example_work(
        "aten::embedding_dense_backward", ((8, 50, 16),), 2, "busy.index", backward=True
    )
    zeros = example_work("aten::fill_", (TABLE,), 1, "busy.mem", backward=True)
    tables = find_tables(LOOKUP, back, zeros)
    assert tables.rows == (zeros,)
    factor = sparse_factor(tables, None, on_device=True, adam=False)
    assert factor(back) == NO_CHANGE
    assert factor(zeros).mid == pytest.approx(0.004)


def test_what_sparse_gradients_take_themselves_stays() -> None:
    tables = find_tables(*ON_CPU)
    plain = sparse_factor(tables, None, on_device=False, adam=False)
    assert plain(BACK).mid == pytest.approx(0.004 + 2 * 50_000 / 2e6)
    assert plain(STEP).mid == pytest.approx(0.004 + 2 * 20_000 / 1e6)
    assert plain(UNRELATED) == plain(LOOKUP) == NO_CHANGE
    adam = sparse_factor(tables, None, on_device=False, adam=True)
    assert adam(STEP).mid == pytest.approx(2.5 * 0.004 + 2 * 200_000 / 1e6)


def test_rows_cost_more_than_in_a_pass_that_is_fused() -> None:
    fused = example_work("aten::_fused_adam_", (TABLE,), 10, "busy.optimizer", launches=0)
    factor = sparse_factor(find_tables(LOOKUP, BACK, fused), None, on_device=False, adam=True)
    assert factor(fused).mid == pytest.approx(12 * 0.004 + 2 * 200_000 / 1e7)


def test_a_momentum_goes_over_the_whole_table_all_the_same() -> None:
    momentum = example_work("aten::mul_", (TABLE,), 1, "busy.optimizer", calls=2, launches=0)
    tables = find_tables(*ON_CPU, momentum)
    assert sparse_factor(tables, None, on_device=False, adam=False)(STEP).high == 1
    assert sparse_factor(tables, None, on_device=False, adam=True)(STEP).high < 1


def test_on_a_device_rows_are_gathered_number_by_number() -> None:
    gather = example_work("aten::gather", (TABLE, (400, 16), (400, 16)), 1, "busy.index", calls=2)
    assert find_tables(gather, BACK, STEP).rows_by_size == {TABLE: 400}
    pick = example_work("aten::gather", (TABLE, (400, 1)), 1, "busy.index")  # a number of each row
    assert dense_tables((pick, BACK, STEP)) is None


def test_of_an_optimizer_whose_lists_were_not_recorded_the_parameters_tell_the_part() -> None:
    fused = example_work("aten::_fused_adamw_", (), 1, "busy.optimizer")
    rows = (LOOKUP, BACK, fused)
    with_count = dense_tables(rows, parameters=40_000_000 * 10)  # two tables, in ten steps
    assert with_count is not None
    assert with_count.table_share(fused) == pytest.approx(0.08)
    without_count = dense_tables(rows)
    assert without_count is not None
    assert without_count.table_share(fused) == 0
