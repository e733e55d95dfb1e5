"""Other formats and layouts of kernels: factors that rooflines give, and where priors stand in."""

from dataclasses import replace

import pytest

from gapless.catalogue.work_examples import amx, h200, worked
from gapless.model.change import Change, Hosted, Scale
from gapless.model.interval import Interval
from gapless.model.work import Work
from gapless.replay import formats
from gapless.replay.attention import fused, unfused
from gapless.replay.peaks import device_peaks, processor_peaks
from gapless.replay.recomputed import kept
from gapless.replay.roofline import Roof, proven

PEAKS = device_peaks(h200(), None)
assert PEAKS is not None
ROOF = Roof(PEAKS)
LARGE = ((8192, 8192), (8192, 8192))  # 1.1e12 operations: 22 ms in fp32, 3.3 ms in TF32
TINY = ((64, 64), (64, 64))
SIMT, CORES = "busy.tc_eligible_not_used", "busy.tc_math"


def scaled(changes: tuple[Change, ...]) -> dict[str, Interval]:
    return {leaf: one.factor for one in changes if isinstance(one, Scale) for leaf in one.leaves}


def host(changes: tuple[Change, ...]) -> list[Interval]:
    return [one.factor for one in changes if isinstance(one, Hosted)]


def test_a_large_product_gains_what_the_peaks_say() -> None:
    rows = [worked("aten::mm", LARGE, 23, SIMT)]
    factor = scaled(formats.in_tf32(rows, ROOF, convolutions=False))[SIMT]
    assert factor.low <= 50 / 330 <= factor.mid * 1.1
    assert factor.low < factor.mid < factor.high < 0.5


def test_a_tiny_product_gains_nothing() -> None:
    rows = [worked("aten::mm", TINY, 0.2, SIMT, calls=100)]
    assert scaled(formats.in_tf32(rows, ROOF, convolutions=False))[SIMT].mid > 0.9


@pytest.mark.parametrize(
    "row",
    [
        worked("aten::mm", LARGE, 4, CORES),
        worked("aten::mm", LARGE, 2, CORES, dtype="bf16"),
        worked("aten::add", LARGE, 0.3, "busy.elementwise"),
        worked("aten::cudnn_convolution", ((2, 3, 8, 8), (5, 3, 3, 3)), 1, SIMT),
    ],
    ids=lambda row: f"{row.operator} {row.dtype}",
)
def test_tf32_leaves_alone_what_it_is_not_about(row: object) -> None:
    assert formats.in_tf32([row], ROOF, convolutions=False) == ()  # type: ignore[list-item]


def test_half_precision_costs_casts_on_the_device_and_on_the_host() -> None:
    rows = [worked("aten::mm", LARGE, 230, SIMT, calls=10), worked("aten::mm", TINY, 1, SIMT)]
    changes = formats.in_half(rows, ROOF, "bf16")
    assert scaled(changes)[SIMT].mid < 0.1
    (more,) = host(changes)
    assert 1 < more.low < more.mid < more.high


def test_casts_cost_a_host_less_where_its_operators_are_many_events_each() -> None:
    rows = [worked("aten::mm", LARGE, 23, SIMT)]
    few, many = (host(formats.in_half(rows, ROOF, "bf16", events))[0] for events in (100, 1000))
    assert 1 < many.mid < few.mid


def test_without_peaks_a_prior_as_wide_as_it_is_uncertain_stands_in() -> None:
    rows = [worked("aten::mm", LARGE, 23, SIMT)]
    factor = scaled(formats.in_tf32(rows, None, convolutions=False))[SIMT]
    assert factor.high - factor.low > 0.5


def test_a_generation_stands_in_for_peaks_that_were_not_measured_and_is_known_less_well() -> None:
    known = device_peaks(None, (9, 0))
    assert known is not None
    assert not known.measured
    rows = [worked("aten::mm", LARGE, 23, SIMT)]
    near = scaled(formats.in_tf32(rows, ROOF, convolutions=False))[SIMT]
    far = scaled(formats.in_tf32(rows, Roof(known), convolutions=False))[SIMT]
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
    fast = [worked("aten::mm", LARGE, 20, SIMT)]  # 55e12 a second
    slow = [worked("aten::mm", LARGE, 30, SIMT)]
    rounded = [worked("aten::mm", LARGE, 20, CORES)]  # fast for fp32, not for TF32
    assert proven(usual, slow) == proven(usual, rounded) == usual
    found = proven(usual, [*slow, *fast])
    assert found.known == Interval(usual.known.low, usual.known.mid, 1.0)
    assert found.flops == usual.flops
    assert proven(ROOF.peaks, fast) == ROOF.peaks  # measured ones are known better
    before, after = (
        scaled(formats.in_tf32(fast, Roof(one), convolutions=False))[SIMT] for one in (usual, found)
    )
    assert after.high < before.high
    assert (after.low, after.mid) == (before.low, before.mid)


def test_processors_have_peaks_only_as_measured() -> None:
    found = processor_peaks(amx(), 16)
    assert found is not None
    assert found.flops["bf16"] == pytest.approx(3.9e12)
    assert processor_peaks(None, 16) is None
    assert processor_peaks(h200(), 16) is None  # of the GPU alone


def test_images_with_channels_last_are_not_turned_round_and_norms_stream() -> None:
    image = (16, 64, 256, 256)
    rows = [
        worked("aten::cudnn_convolution", (image, (64, 64, 3, 3)), 5, "busy.layout",
               dtype="bf16", kernel="nchwToNhwcKernel"),
        worked("aten::native_batch_norm", (image, (64,)), 10, "busy.norm_reduce",
               dtype="bf16", channels_first=True),
    ]  # fmt: skip
    factors = scaled(formats.channels_last(rows, ROOF, half=True, tf32=True))
    assert factors["busy.layout"].mid < 0.1
    assert factors["busy.norm_reduce"].high < 0.5  # a tenth of the bandwidth now


@pytest.mark.parametrize(
    ("kernel", "few", "many"),
    [
        ("void at::native::batch_norm_collect_statistics_kernel<bf16>", 1.4, 1.1),
        ("void cudnn::bn_fw_tr_1C11_singleread<bf16>", 1.0, 1.0),
    ],
)
def test_norms_of_few_channels_ask_for_too_little_at_a_time(
    kernel: str, few: float, many: float
) -> None:
    """As much memory in both, in images of 32 channels and of 256."""

    def factor(channels: int, name: str | None) -> float:
        image = (16, channels, 512, 512 * 32 // channels)
        row = worked("aten::native_batch_norm", (image, (channels,)), 14, "busy.norm_reduce",
                     dtype="bf16", channels_first=True, kernel=name)  # fmt: skip
        return scaled(formats.channels_last([row], ROOF, half=True, tf32=True))[row.leaf].mid

    usual = factor(32, None)
    assert usual == factor(256, None)
    assert factor(32, kernel) >= few * usual
    assert usual <= factor(256, kernel) <= many * usual


def test_a_norm_that_streams_already_gains_nothing() -> None:
    image = (16, 64, 256, 256)
    row = worked("aten::native_batch_norm", (image, (64,)), 0.3, "busy.norm_reduce", dtype="bf16",
                 channels_first=True)  # fmt: skip
    assert (
        scaled(formats.channels_last([row], ROOF, half=True, tf32=True))["busy.norm_reduce"].low
        >= 0.6
    )


def test_attention_is_found_by_the_size_of_its_scores_and_nothing_else_is() -> None:
    scores = (96, 1024, 1024)
    products = [
        worked("aten::bmm", ((96, 1024, 64), (96, 64, 1024)), 4, CORES, dtype="bf16"),
        worked("aten::bmm", (scores, (96, 1024, 64)), 4, CORES, dtype="bf16"),
    ]
    between = [
        worked("aten::_softmax", (scores,), 8, "busy.norm_reduce"),
        worked("aten::mul", (scores,), 8, "busy.elementwise", dtype="bf16"),
    ]
    other = worked("aten::gelu", ((8192, 3072),), 2, "busy.elementwise")
    found = unfused([*products, *between, other])
    assert found is not None
    assert set(found.rows) == {*products, *between}
    factors = scaled(fused([*products, *between, other], found, ROOF))
    assert factors["busy.norm_reduce"].high < 0.5
    assert factors["busy.elementwise"].mid > factors["busy.norm_reduce"].mid  # gelu stays


@pytest.mark.parametrize(
    "row",
    [
        worked("aten::_softmax", ((512, 1000),), 1, "busy.norm_reduce"),  # of classes
        worked("aten::_softmax", ((8, 12, 32, 32),), 1, "busy.norm_reduce"),  # of few tokens
        worked("aten::_log_softmax", ((8, 1024, 1024),), 1, "busy.norm_reduce"),
    ],
    ids=lambda row: row.inputs,
)
def test_a_softmax_of_something_else_is_no_attention(row: object) -> None:
    assert unfused([row]) is None  # type: ignore[list-item]


def test_what_is_computed_again_goes_with_its_launches() -> None:
    row = worked("aten::mm", LARGE, 3, CORES, dtype="bf16")
    again = replace(row, again=True, backward=True)
    changes = kept([row, row, row, again])
    assert scaled(changes)[CORES].mid == pytest.approx(0.755)
    assert host(changes)[0].mid == pytest.approx(0.755)
    assert kept([row]) == ()


def test_what_goes_of_the_host_follows_the_time_that_it_takes_to_come_to_the_launches() -> None:
    row = replace(worked("aten::mm", LARGE, 3, CORES, dtype="bf16"), host_ns=1_000)
    again = replace(row, again=True, backward=True, host_ns=3_000)
    (found,) = [one for one in kept([row, again]) if isinstance(one, Hosted)]
    assert found.factor.mid == pytest.approx(1 - 0.98 * 3 / 4)
    assert found.factor.low < found.factor.mid < found.factor.high
    assert "idle.host.python" in found.leaves


def test_copies_that_lay_out_heads_belong_to_attention_and_other_copies_do_not() -> None:
    def copy(*sizes: int, leaf: str = "busy.layout") -> Work:
        return worked("aten::copy_", (sizes,), 1, leaf, dtype="bf16")

    rows = [
        worked("aten::bmm", ((96, 1024, 64), (96, 64, 1024)), 4, CORES, dtype="bf16"),
        worked("aten::_softmax", ((8, 12, 1024, 1024),), 8, "busy.norm_reduce"),
    ]
    mine = [copy(8, 12, 1024, 64), copy(8, 12, 64, 1024)]
    others = [copy(8, 1024, 12, 64), copy(8, 12, 1024, 64, leaf="busy.cast")]
    found = unfused([*rows, *mine, *others])
    assert found is not None
    assert set(found.rows) == {*rows, *mine}


def test_a_softmax_over_pixels_between_convolutions_is_no_attention() -> None:
    image = (8, 16, 128, 128)
    rows = [
        worked("aten::_softmax", (image,), 1, "busy.norm_reduce"),
        worked(
            "aten::cudnn_convolution",
            (image, (16, 16, 3, 3)),
            1,
            CORES,
            concrete=("", "", "[1, 1]", "[1, 1]", "[1, 1]", "1"),
        ),
    ]
    found = unfused(rows)
    assert found is None or not found.flops


def test_what_has_as_many_numbers_as_scores_but_not_their_shape_is_no_attention() -> None:
    scores = (4, 4, 128, 128)
    rows = [
        worked("aten::softmax", (scores,), 1, "busy.norm_reduce"),
        worked("aten::gelu", ((4, 128, 512),), 1, "busy.elementwise"),
        worked("aten::mm", ((512, 512), (512, 128)), 1, "busy.math"),
        worked("aten::masked_fill", (scores, (1, 1, 128, 128)), 1, "busy.elementwise"),
    ]
    found = unfused(rows)
    assert found is not None
    assert found.rows == (rows[0], rows[3])


def on_processors(*rows: Work) -> Interval | None:
    found = unfused(rows)
    assert found is not None
    return scaled(fused(rows, found, None)).get("busy.math")


def test_fused_on_processors_products_reach_about_the_speed_of_the_best() -> None:
    """All of one leaf, so that its factor is that of attention."""
    scores = (4, 4, 128, 128)

    def of(operator: str, ms: float, *sizes: tuple[int, ...], backward: bool = False) -> Work:
        return worked(operator, sizes, ms, "busy.math", launches=0, backward=backward)

    products = (
        of("aten::matmul", 3, (4, 4, 128, 32), (4, 4, 32, 128)),
        of("aten::bmm", 4, (16, 128, 128), (16, 128, 32), backward=True),
    )
    soft = of("aten::softmax", 1, scores)
    mask, scale = of("aten::masked_fill", 5, scores), of("aten::mul", 5, scores)
    found, hidden = on_processors(*products, soft, scale), on_processors(*products, soft, mask)
    assert found is not None
    assert hidden is not None
    needs = (1 + 1.25) * 3  # as fast as the first product; a fifth one in the backward pass
    assert found.low == pytest.approx(needs / 0.9 / 13)
    assert found.high == pytest.approx((8 + 1 + 1) / 13)  # no slower than now, the softmax again
    assert hidden.low == pytest.approx(found.low / 2)
    dropped = on_processors(*products, soft, of("aten::bernoulli_", 5, scores))
    assert dropped is not None
    assert dropped.mid > found.mid  # torch has no fused kernel with dropout for processors
