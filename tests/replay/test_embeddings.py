"""Dense gradients of embeddings: which tables, what goes over them, what sparse ones leave."""

import pytest

from gapless.catalogue.work_examples import worked
from gapless.model.work import Work
from gapless.replay.embeddings import Tables, dense_tables, sparsely
from gapless.replay.roofline import SAME

TABLE = (100_000, 16)
LOOKUP = worked("aten::embedding", (TABLE, (8, 50)), 0.1, "busy.index", calls=2)
BACK = worked(
    "aten::embedding_backward",
    ((8, 50, 16), (8, 50)),
    2,
    "busy.index",
    calls=2,
    backward=True,
    launches=0,
)
STEP = worked("aten::add_", (TABLE, TABLE), 1, "busy.optimizer", calls=2, launches=0)
OTHER = worked("aten::add_", ((64, 64),) * 2, 1, "busy.optimizer", launches=0)
ON_CPU = (LOOKUP, BACK, STEP, OTHER)


def found(*rows: Work) -> Tables:
    tables = dense_tables(rows)
    assert tables is not None
    return tables


def test_what_goes_over_a_table_are_its_gradient_and_the_optimizer() -> None:
    tables = found(*ON_CPU)
    assert tables.rows == (BACK, STEP)
    assert tables.ns == BACK.ns + STEP.ns
    assert tables.looked_up == {TABLE: 400}
    assert tables.touched == pytest.approx(0.004)


@pytest.mark.parametrize(
    "rows",
    [
        (LOOKUP, STEP),  # it is not trained
        (BACK, STEP),  # nothing tells the size of the table
        (worked("aten::embedding", ((1000, 16), (8, 50)), 0.1, "busy.index"), BACK, STEP),
        (*ON_CPU, worked("aten::mm", ((400, 16), TABLE[::-1]), 1, "busy.math")),  # tied
        (*ON_CPU, worked("aten::linear", ((400, 16), TABLE), 1, "busy.math")),
    ],
)
def test_other_tables_are_left_alone(rows: tuple[Work, ...]) -> None:
    assert dense_tables(rows) is None


def test_of_tables_of_both_kinds_the_gradient_is_parted_by_their_size() -> None:
    small = worked("aten::embedding", ((1280, 1250), (8, 50)), 0.1, "busy.index", calls=2)
    tables = found(*ON_CPU, small)
    assert tables.part(BACK) == pytest.approx(0.5)
    assert tables.part(STEP) == 1


def test_an_optimizer_of_all_parameters_at_once_is_parted_too() -> None:
    every = worked("aten::_foreach_add_", (TABLE, (400_000, 12)), 1, "busy.optimizer")
    assert found(LOOKUP, BACK, every).part(every) == pytest.approx(0.25)


def test_a_device_fills_with_zeros_in_a_kernel_of_its_own() -> None:
    back = worked("aten::embedding_dense_backward", ((8, 50, 16),), 2, "busy.index", backward=True)
    zeros = worked("aten::fill_", (TABLE,), 1, "busy.mem", backward=True)
    tables = found(LOOKUP, back, zeros)
    assert tables.rows == (zeros,)
    factor = sparsely(tables, None, on_device=True, adam=False)
    assert factor(back) == SAME
    assert factor(zeros).mid == pytest.approx(0.004)


def test_what_sparse_gradients_take_themselves_stays() -> None:
    tables = found(*ON_CPU)
    plain = sparsely(tables, None, on_device=False, adam=False)
    assert plain(BACK).mid == pytest.approx(0.004 + 2 * 50_000 / 2e6)
    assert plain(STEP).mid == pytest.approx(0.004 + 2 * 20_000 / 1e6)
    assert plain(OTHER) == plain(LOOKUP) == SAME
    adam = sparsely(tables, None, on_device=False, adam=True)
    assert adam(STEP).mid == pytest.approx(0.004 + 2 * 200_000 / 1e6)


def test_a_momentum_goes_over_the_whole_table_all_the_same() -> None:
    moved = worked("aten::mul_", (TABLE,), 1, "busy.optimizer", calls=2, launches=0)
    tables = found(*ON_CPU, moved)
    assert sparsely(tables, None, on_device=False, adam=False)(STEP).high == 1
    assert sparsely(tables, None, on_device=False, adam=True)(STEP).high < 1


def test_on_a_device_rows_are_gathered_number_by_number() -> None:
    gather = worked("aten::gather", (TABLE, (400, 16), (400, 16)), 1, "busy.index", calls=2)
    assert found(gather, BACK, STEP).looked_up == {TABLE: 400}
    picked = worked("aten::gather", (TABLE, (400, 1)), 1, "busy.index")  # a number of each row
    assert dense_tables((picked, BACK, STEP)) is None


def test_of_an_optimizer_whose_lists_were_not_recorded_the_parameters_tell_the_part() -> None:
    fused = worked("aten::_fused_adamw_", (), 1, "busy.optimizer")
    rows = (LOOKUP, BACK, fused)
    known = dense_tables(rows, parameters=40_000_000 * 10)  # two tables, in ten steps
    assert known is not None
    assert known.part(fused) == pytest.approx(0.08)
    unknown = dense_tables(rows)
    assert unknown is not None
    assert unknown.part(fused) == 0
