"""What operators need at least, against sums worked out by hand."""

import pytest

from gapless.model.trace import Shape
from gapless.roofline.formulas import channels_first, dtype_of, operator_demand

FLOAT, HALF = "float", "c10::BFloat16"


def shape(*sizes: object, types: str = FLOAT, arguments: dict[int, str] | None = None) -> Shape:
    concrete = [(arguments or {}).get(index, "") for index in range(20)]
    names = tuple(types if size else "Scalar" for size in sizes)
    return Shape(tuple(sizes), tuple(() for _ in sizes), names, tuple(concrete))


@pytest.mark.parametrize(
    ("operator", "inputs", "flops", "moved"),
    [
        ("aten::mm", shape((10, 20), (20, 30)), 12_000, 4 * (200 + 600 + 300)),
        ("aten::addmm", shape((30,), (10, 20), (20, 30)), 12_000, 4 * (200 + 600 + 300)),
        ("aten::bmm", shape((5, 10, 20), (5, 20, 30)), 60_000, 20 * (200 + 600 + 300)),
        ("aten::linear", shape((10, 20), (30, 20), (30,)), 12_000, 4 * (200 + 600 + 300)),
        ("aten::mm", shape((10, 20), (20, 30), types=HALF), 12_000, 2 * (200 + 600 + 300)),
        ("aten::add", shape((8, 8), (8, 8)), 0, 4 * 3 * 64),
        ("aten::copy_", shape((8, 8), (8, 8)), 0, 4 * 2 * 64),
        ("aten::native_batch_norm", shape((2, 4, 8, 8), (4,)), 0, 4 * 3 * 512),
        ("aten::native_batch_norm_backward", shape((2, 4, 8, 8), (4,)), 0, 4 * 5 * 512),
    ],
)
def test_operators_need_what_their_inputs_say(
    operator: str, inputs: Shape, flops: float, moved: float
) -> None:
    needs = operator_demand(operator, inputs)
    assert needs is not None
    assert (needs.flops, needs.bytes) == (flops, moved)


def test_a_convolution_is_counted_window_by_window() -> None:
    inputs = shape((2, 3, 8, 8), (5, 3, 3, 3), arguments={2: "[1, 1]", 3: "[2, 2]", 4: "[1, 1]"})
    needs = operator_demand("aten::cudnn_convolution", inputs)
    assert needs is not None
    assert needs.flops == 2 * (2 * 5 * 4 * 4) * 27
    assert needs.bytes == 4 * (384 + 135 + 160)


def test_padding_makes_no_difference_between_names_of_the_same_convolution() -> None:
    settings = {3: "[1, 1]", 4: "[1, 1]", 5: "[1, 1]", 6: "False"}
    outer_demand = operator_demand(
        "aten::convolution", shape((2, 3, 8, 8), (5, 3, 3, 3), arguments=settings)
    )
    inner = {2: "[1, 1]", 3: "[1, 1]", 4: "[1, 1]"}
    kernel = operator_demand(
        "aten::cudnn_convolution", shape((2, 3, 8, 8), (5, 3, 3, 3), arguments=inner)
    )
    assert outer_demand == kernel


def test_a_transposed_convolution_spreads_each_pixel() -> None:
    inputs = shape((2, 3, 8, 8), (3, 5, 2, 2), arguments={6: "True"})
    needs = operator_demand("aten::convolution", inputs)
    assert needs is not None
    assert needs.flops == 2 * (2 * 3 * 64) * (5 * 4)


@pytest.mark.parametrize(
    ("mask", "n_gradients"), [("[True, True, False]", 2), ("[False, True, True]", 1)]
)
def test_gradients_of_a_convolution_that_nobody_asks_for_are_not_counted(
    mask: str, n_gradients: int
) -> None:
    inputs = shape((2, 5, 8, 8), (2, 3, 8, 8), (5, 3, 3, 3), arguments={7: "False", 10: mask})
    needs = operator_demand("aten::convolution_backward", inputs)
    assert needs is not None
    assert needs.flops == n_gradients * 2 * (2 * 5 * 64) * 27


def test_a_convolution_without_its_settings_stays_open() -> None:
    assert operator_demand("aten::cudnn_convolution", shape((2, 3, 8, 8), (5, 3, 3, 3))) is None


def test_attention_computes_two_products_and_half_of_them_under_a_causal_mask() -> None:
    sizes = ((2, 128, 4, 16),) * 3
    full = operator_demand("aten::_flash_attention_forward", shape(*sizes))
    half = operator_demand("aten::_flash_attention_forward", shape(*sizes, arguments={8: "True"}))
    back = operator_demand("aten::_flash_attention_backward", shape(sizes[0], *sizes))
    assert full is not None
    assert half is not None
    assert back is not None
    assert full.flops == 2 * 2 * (2 * 4 * 128 * 128 * 16)
    assert half.flops == full.flops / 2
    assert back.flops == 2.5 * full.flops


@pytest.mark.parametrize("operator", ["aten::index", "aten::embedding", "aten::_foreach_add_"])
def test_what_depends_on_values_stays_open(operator: str) -> None:
    assert operator_demand(operator, shape((64, 64), (64,))) is None


def test_nothing_is_said_without_inputs() -> None:
    assert operator_demand("aten::mm", Shape()) is None
    assert dtype_of(Shape()) is None


@pytest.mark.parametrize(
    ("strides", "is_first"), [((256, 64, 8, 1), True), ((256, 1, 32, 4), False), ((), None)]
)
def test_the_layout_of_images_is_read_off_their_strides(
    strides: tuple[int, ...], is_first: bool | None
) -> None:
    assert channels_first(Shape(((2, 4, 8, 8),), (strides,), (HALF,), ())) is is_first
