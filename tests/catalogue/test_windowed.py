"""What the tables of windows hold of a step."""

import pytest

from gapless.catalogue import examples, optimizing, windowed
from gapless.catalogue.ruling import NotSeenError
from gapless.catalogue.seen_examples import seen
from gapless.catalogue.seen_parts import copied, kernel, operator
from gapless.model.edit import Where

LEAVES = {"busy.math": 10.0, "idle.launch.api": 2.0}


def test_calls_are_summed_by_pattern_and_told_of_one_step() -> None:
    parts = (
        operator("cudaStreamSynchronize", calls=3, host_ms=1.5),
        operator("cudaDeviceSynchronize", calls=1, host_ms=0.5),
        operator("aten::item", calls=7, host_ms=1),
    )
    found = windowed.calls(seen(examples.gpu(), LEAVES, *parts), "*Synchronize")
    assert (found.count, found.host_ns, found.mean_ns) == (4, 2e6, 5e5)


def test_copies_whose_bytes_are_not_all_known_have_none() -> None:
    parts = (
        copied("HtoD", "pinned", calls=2, ms=1, mib=3),
        copied("HtoD", "pageable", calls=1, ms=1),
        copied("DtoH", "pageable", calls=1, ms=1, mib=1),
    )
    of = seen(examples.gpu(), LEAVES, *parts)
    assert windowed.copies(of, "HtoD").bytes is None
    assert windowed.copies(of, "HtoD", "pinned").bytes == 3 << 20
    assert windowed.copies(of, "HtoD").count == 3


def test_kernels_are_summed_by_the_leaf_of_most_of_their_time() -> None:
    parts = (kernel("a", 4, 2, "busy.math"), kernel("b", 6, 1, "busy.index"))
    of = seen(examples.gpu(), LEAVES, *parts)
    assert windowed.kernels(of, "busy.math").mean_ns == 500_000
    assert windowed.kernels(of, "busy.").count == 10
    assert windowed.kernels(of, "busy.optimizer").mean_ns == 0


def test_nothing_is_told_of_steps_that_no_window_saw() -> None:
    with pytest.raises(NotSeenError, match="no window"):
        windowed.calls(seen(examples.gpu(), LEAVES, in_windows={}), "aten::item")
    with pytest.raises(NotSeenError, match="no steps"):
        windowed.kernels(seen(None, {}), "busy.")


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (windowed.ms(12_340_000), "12.3 ms"),
        (windowed.ms(4_200), "0.0042 ms"),
        (windowed.times(20.4), "20"),
        (windowed.times(2.0), "2"),
        (windowed.times(0.42), "0.4"),
        (windowed.size(37_748_736), "38 MB"),
        (windowed.size(1_500), "1.5 kB"),
        (windowed.size(12), "12 bytes"),
        (windowed.size(1.3), "1 byte"),
    ],
)
def test_figures_are_written_in_two_or_three_digits(said: str, words: str) -> None:
    assert said == words


@pytest.mark.parametrize(
    ("operators", "way"),
    [
        (("Optimizer.step#AdamW.step", "aten::_fused_adamw_"), "fused"),
        (("Optimizer.step#AdamW.step", "aten::_foreach_addcdiv_"), "foreach"),
        (("Optimizer.step#AdamW.step", "aten::_foreach_norm", "aten::addcdiv_"), "loop"),
        (("Optimizer.step#AdamW.step", "aten::_fused_sdp_choice"), "loop"),
        (("aten::addcdiv_",), None),
    ],
)
def test_how_an_optimizer_steps_is_told_by_its_operators(
    operators: tuple[str, ...], way: str | None
) -> None:
    parts = (operator(name, calls=1, host_ms=1) for name in operators)
    assert optimizing.way(seen(examples.gpu(), LEAVES, *parts)) == way


def test_parameters_of_all_optimizers_are_counted_and_the_largest_is_the_place() -> None:
    small = examples.optimizer(id=1, tensors=4, where=Where("train.py", 70))
    of = seen(examples.gpu(examples.optimizer(), small), LEAVES)
    assert optimizing.tensors(of) == 165
    assert optimizing.place(of) == examples.OPTIMIZER_LINE
    assert optimizing.tensors(seen(None, LEAVES)) is None
