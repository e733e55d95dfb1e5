"""Other formats and layouts of kernels: factors that rooflines give, and where priors stand in."""

import pytest
from msgspec.structs import replace

from gapless.catalogue.examples.work import amx, example_work, h200
from gapless.model.change import Change, HostChange, Scale
from gapless.model.estimate import Estimate
from gapless.model.work import Work
from gapless.roofline import formats
from gapless.roofline.attention import find_unfused, fusion_changes
from gapless.roofline.peaks import device_peaks, processor_peaks
from gapless.roofline.recomputed import keep_activations
from gapless.roofline.roofline import Roof, narrow_peaks

PEAKS = device_peaks(h200(), None)
assert PEAKS is not None
ROOF = Roof(PEAKS)
LARGE = ((8192, 8192), (8192, 8192))  # 1.1e12 operations: 22 ms in fp32, 3.3 ms in TF32
TINY = ((64, 64), (64, 64))
SIMT, CORES = "busy.tc_eligible_not_used", "busy.tc_math"


def factors_by_leaf(changes: tuple[Change, ...]) -> dict[str, Estimate]:
    return {
        leaf: change.factor
        for change in changes
        if isinstance(change, Scale)
        for leaf in change.leaves
    }


def host_factors(changes: tuple[Change, ...]) -> list[Estimate]:
    return [change.factor for change in changes if isinstance(change, HostChange)]


def test_a_large_product_gains_what_the_peaks_say() -> None:
    rows = [example_work("aten::mm", LARGE, 23, SIMT)]
    factor = factors_by_leaf(formats.tf32_changes(rows, ROOF, convolutions=False))[SIMT]
    assert factor.low <= 50 / 330 <= factor.mid * 1.1
    assert factor.low < factor.mid < factor.high < 0.5


def test_a_tiny_product_gains_nothing() -> None:
    rows = [example_work("aten::mm", TINY, 0.2, SIMT, calls=100)]
    assert factors_by_leaf(formats.tf32_changes(rows, ROOF, convolutions=False))[SIMT].mid > 0.9


@pytest.mark.parametrize(
    "row",
    [
        example_work("aten::mm", LARGE, 4, CORES),
        example_work("aten::mm", LARGE, 2, CORES, dtype="bf16"),
        example_work("aten::add", LARGE, 0.3, "busy.elementwise"),
        example_work("aten::cudnn_convolution", ((2, 3, 8, 8), (5, 3, 3, 3)), 1, SIMT),
    ],
    ids=lambda row: f"{row.operator} {row.dtype}",
)
def test_tf32_leaves_alone_what_it_is_not_about(row: object) -> None:
    assert formats.tf32_changes([row], ROOF, convolutions=False) == ()  # type: ignore[list-item]


def test_half_precision_costs_casts_on_the_device_and_on_the_host() -> None:
    rows = [
        example_work("aten::mm", LARGE, 230, SIMT, calls=10),
        example_work("aten::mm", TINY, 1, SIMT),
    ]
    changes = formats.half_changes(rows, ROOF, "bf16")
    assert factors_by_leaf(changes)[SIMT].mid < 0.1
    (factor,) = host_factors(changes)
    assert 1 < factor.low < factor.mid < factor.high


def test_casts_cost_a_host_less_where_its_operators_are_many_events_each() -> None:
    rows = [example_work("aten::mm", LARGE, 23, SIMT)]
    few_events, many_events = (
        host_factors(formats.half_changes(rows, ROOF, "bf16", events))[0] for events in (100, 1000)
    )
    assert 1 < many_events.mid < few_events.mid


def test_without_peaks_a_prior_as_wide_as_it_is_uncertain_stands_in() -> None:
    rows = [example_work("aten::mm", LARGE, 23, SIMT)]
    factor = factors_by_leaf(formats.tf32_changes(rows, None, convolutions=False))[SIMT]
    assert factor.high - factor.low > 0.5


def test_a_generation_stands_in_for_peaks_that_were_not_measured_and_is_known_less_well() -> None:
    peaks = device_peaks(None, (9, 0))
    assert peaks is not None
    assert not peaks.measured
    rows = [example_work("aten::mm", LARGE, 23, SIMT)]
    near = factors_by_leaf(formats.tf32_changes(rows, ROOF, convolutions=False))[SIMT]
    far = factors_by_leaf(formats.tf32_changes(rows, Roof(peaks), convolutions=False))[SIMT]
    assert far.high - far.low > near.high - near.low
    assert device_peaks(None, (3, 5)) is None
    assert device_peaks(None, None) is None


def test_the_name_of_a_device_tells_its_memory_where_a_generation_does_not() -> None:
    usual, larger = device_peaks(None, (9, 0)), device_peaks(None, (9, 0), "NVIDIA H200")
    assert usual is not None
    assert larger is not None
    assert usual.bandwidth < larger.bandwidth


def test_products_that_come_to_the_peak_of_a_generation_prove_that_it_is_no_slower_one() -> None:
    usual = device_peaks(None, (9, 0))
    assert usual is not None
    fast = [example_work("aten::mm", LARGE, 20, SIMT)]  # 55e12 a second
    slow = [example_work("aten::mm", LARGE, 30, SIMT)]
    rounded = [example_work("aten::mm", LARGE, 20, CORES)]  # fast for fp32, not for TF32
    assert narrow_peaks(usual, slow) == narrow_peaks(usual, rounded) == usual
    narrowed = narrow_peaks(usual, [*slow, *fast])
    assert narrowed.spread == Estimate(usual.spread.low, usual.spread.mid, 1.0)
    assert narrowed.flops == usual.flops
    assert narrow_peaks(ROOF.peaks, fast) == ROOF.peaks  # measured ones are known better
    before, after = (
        factors_by_leaf(formats.tf32_changes(fast, Roof(peaks), convolutions=False))[SIMT]
        for peaks in (usual, narrowed)
    )
    assert after.high < before.high
    assert (after.low, after.mid) == (before.low, before.mid)


def test_processors_have_peaks_only_as_measured() -> None:
    peaks = processor_peaks(amx(), 16)
    assert peaks is not None
    assert peaks.flops["bf16"] == pytest.approx(3.9e12)
    assert processor_peaks(None, 16) is None
    assert processor_peaks(h200(), 16) is None  # of the GPU alone


def test_images_with_channels_last_are_not_turned_round_and_norms_stream() -> None:
    image = (16, 64, 256, 256)
    rows = [
        example_work("aten::cudnn_convolution", (image, (64, 64, 3, 3)), 5, "busy.layout",
               dtype="bf16", kernel="nchwToNhwcKernel"),
        example_work("aten::native_batch_norm", (image, (64,)), 10, "busy.norm_reduce",
               dtype="bf16", channels_first=True),
    ]  # fmt: skip
    factors = factors_by_leaf(formats.channels_last_changes(rows, ROOF, half=True, tf32=True))
    assert factors["busy.layout"].mid < 0.1
    assert factors["busy.norm_reduce"].high < 0.5  # a tenth of the bandwidth now


@pytest.mark.parametrize(
    ("kernel", "few_ratio", "many_ratio"),
    [
        ("void at::native::batch_norm_collect_statistics_kernel<bf16>", 1.4, 1.1),
        ("void cudnn::bn_fw_tr_1C11_singleread<bf16>", 1.0, 1.0),
    ],
)
def test_norms_of_few_channels_ask_for_too_little_at_a_time(
    kernel: str, few_ratio: float, many_ratio: float
) -> None:
    """As much memory in both, in images of 32 channels and of 256."""

    def factor(channels: int, name: str | None) -> float:
        image = (16, channels, 512, 512 * 32 // channels)
        row = example_work("aten::native_batch_norm", (image, (channels,)), 14, "busy.norm_reduce",
                     dtype="bf16", channels_first=True, kernel=name)  # fmt: skip
        return factors_by_leaf(formats.channels_last_changes([row], ROOF, half=True, tf32=True))[
            row.leaf
        ].mid

    usual = factor(32, None)
    assert usual == factor(256, None)
    assert factor(32, kernel) >= few_ratio * usual
    assert usual <= factor(256, kernel) <= many_ratio * usual


def test_a_norm_that_streams_already_gains_nothing() -> None:
    image = (16, 64, 256, 256)
    row = example_work(
        "aten::native_batch_norm",
        (image, (64,)),
        0.3,
        "busy.norm_reduce",
        dtype="bf16",
        channels_first=True,
    )
    assert (
        factors_by_leaf(formats.channels_last_changes([row], ROOF, half=True, tf32=True))[
            "busy.norm_reduce"
        ].low
        >= 0.6
    )


def test_attention_is_found_by_the_size_of_its_scores_and_nothing_else_is() -> None:
    scores = (96, 1024, 1024)
    products = [
        example_work("aten::bmm", ((96, 1024, 64), (96, 64, 1024)), 4, CORES, dtype="bf16"),
        example_work("aten::bmm", (scores, (96, 1024, 64)), 4, CORES, dtype="bf16"),
    ]
    between = [
        example_work("aten::_softmax", (scores,), 8, "busy.norm_reduce"),
        example_work("aten::mul", (scores,), 8, "busy.elementwise", dtype="bf16"),
    ]
    gelu = example_work("aten::gelu", ((8192, 3072),), 2, "busy.elementwise")
    attention = find_unfused([*products, *between, gelu])
    assert attention is not None
    assert set(attention.rows) == {*products, *between}
    factors = factors_by_leaf(fusion_changes([*products, *between, gelu], attention, ROOF))
    assert factors["busy.norm_reduce"].high < 0.5
    assert factors["busy.elementwise"].mid > factors["busy.norm_reduce"].mid  # gelu stays


@pytest.mark.parametrize(
    "row",
    [
        example_work("aten::_softmax", ((512, 1000),), 1, "busy.norm_reduce"),  # of classes
        example_work("aten::_softmax", ((8, 12, 32, 32),), 1, "busy.norm_reduce"),  # of few tokens
        example_work("aten::_log_softmax", ((8, 1024, 1024),), 1, "busy.norm_reduce"),
    ],
    ids=lambda row: row.inputs,
)
def test_a_softmax_of_something_else_is_no_attention(row: object) -> None:
    assert find_unfused([row]) is None  # type: ignore[list-item]


def test_what_is_computed_again_goes_with_its_launches() -> None:
    row = example_work("aten::mm", LARGE, 3, CORES, dtype="bf16")
    recomputed = replace(row, again=True, backward=True)
    changes = keep_activations([row, row, row, recomputed])
    assert factors_by_leaf(changes)[CORES].mid == pytest.approx(0.755)
    assert host_factors(changes)[0].mid == pytest.approx(0.755)
    assert keep_activations([row]) == ()


def test_what_goes_of_the_host_follows_the_time_that_it_takes_to_come_to_the_launches() -> None:
    row = replace(example_work("aten::mm", LARGE, 3, CORES, dtype="bf16"), host_ns=1_000)
    recomputed = replace(row, again=True, backward=True, host_ns=3_000)
    (host_change,) = [
        change for change in keep_activations([row, recomputed]) if isinstance(change, HostChange)
    ]
    assert host_change.factor.mid == pytest.approx(1 - 0.98 * 3 / 4)
    assert host_change.factor.low < host_change.factor.mid < host_change.factor.high
    assert "idle.host.python" in host_change.leaves


def test_copies_that_lay_out_heads_belong_to_attention_and_other_copies_do_not() -> None:
    def copy(*sizes: int, leaf: str = "busy.layout") -> Work:
        return example_work("aten::copy_", (sizes,), 1, leaf, dtype="bf16")

    rows = [
        example_work("aten::bmm", ((96, 1024, 64), (96, 64, 1024)), 4, CORES, dtype="bf16"),
        example_work("aten::_softmax", ((8, 12, 1024, 1024),), 8, "busy.norm_reduce"),
    ]
    head_copies = [copy(8, 12, 1024, 64), copy(8, 12, 64, 1024)]
    other_copies = [copy(8, 1024, 12, 64), copy(8, 12, 1024, 64, leaf="busy.cast")]
    attention = find_unfused([*rows, *head_copies, *other_copies])
    assert attention is not None
    assert set(attention.rows) == {*rows, *head_copies}


def test_a_softmax_over_pixels_between_convolutions_is_no_attention() -> None:
    image = (8, 16, 128, 128)
    rows = [
        example_work("aten::_softmax", (image,), 1, "busy.norm_reduce"),
        example_work(
            "aten::cudnn_convolution",
            (image, (16, 16, 3, 3)),
            1,
            CORES,
            concrete=("", "", "[1, 1]", "[1, 1]", "[1, 1]", "1"),
        ),
    ]
    attention = find_unfused(rows)
    assert attention is None or not attention.flops


def test_what_has_as_many_numbers_as_scores_but_not_their_shape_is_no_attention() -> None:
    scores = (4, 4, 128, 128)
    rows = [
        example_work("aten::softmax", (scores,), 1, "busy.norm_reduce"),
        example_work("aten::gelu", ((4, 128, 512),), 1, "busy.elementwise"),
        example_work("aten::mm", ((512, 512), (512, 128)), 1, "busy.math"),
        example_work("aten::masked_fill", (scores, (1, 1, 128, 128)), 1, "busy.elementwise"),
    ]
    attention = find_unfused(rows)
    assert attention is not None
    assert attention.rows == (rows[0], rows[3])


def factor_on_processors(*rows: Work) -> Estimate | None:
    attention = find_unfused(rows)
    assert attention is not None
    return factors_by_leaf(fusion_changes(rows, attention, None)).get("busy.math")


def test_fused_on_processors_products_reach_about_the_speed_of_the_best() -> None:
    """All of one leaf, so that its factor is that of attention."""
    scores = (4, 4, 128, 128)

    def make_row(operator: str, ms: float, *sizes: tuple[int, ...], backward: bool = False) -> Work:
        return example_work(operator, sizes, ms, "busy.math", launches=0, backward=backward)

    products = (
        make_row("aten::matmul", 3, (4, 4, 128, 32), (4, 4, 32, 128)),
        make_row("aten::bmm", 4, (16, 128, 128), (16, 128, 32), backward=True),
    )
    softmax = make_row("aten::softmax", 1, scores)
    mask, scale = make_row("aten::masked_fill", 5, scores), make_row("aten::mul", 5, scores)
    plain, masked = (
        factor_on_processors(*products, softmax, scale),
        factor_on_processors(*products, softmax, mask),
    )
    assert plain is not None
    assert masked is not None
    needs = (1 + 1.25) * 3  # as fast as the first product; a fifth one in the backward pass
    assert plain.low == pytest.approx(needs / 0.9 / 13)
    assert plain.high == pytest.approx((8 + 1 + 1) / 13)  # no slower than now, the softmax again
    assert masked.low == pytest.approx(plain.low / 2)
    with_dropout = factor_on_processors(*products, softmax, make_row("aten::bernoulli_", 5, scores))
    assert with_dropout is not None
    assert with_dropout.mid > plain.mid  # torch has no fused kernel with dropout for processors
