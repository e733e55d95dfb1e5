"""What the tables of windows hold of a step."""

import pytest

from gapless.catalogue.examples import example_facts
from gapless.catalogue.examples.evidence import evidence_of
from gapless.catalogue.examples.parts import example_copies, kernel, operator
from gapless.catalogue.queries import optimizer_steps, windows
from gapless.model.edit import Location
from gapless.model.evidence import NotObservedError

LEAVES = {"busy.math": 10.0, "idle.launch.api": 2.0}


def test_calls_are_summed_by_pattern_and_told_of_one_step() -> None:
    parts = (
        operator("cudaStreamSynchronize", calls=3, host_ms=1.5),
        operator("cudaDeviceSynchronize", calls=1, host_ms=0.5),
        operator("aten::item", calls=7, host_ms=1),
    )
    sync_calls = windows.sum_calls(evidence_of(example_facts.gpu(), LEAVES, *parts), "*Synchronize")
    assert (sync_calls.count, sync_calls.host_ns, sync_calls.mean_ns) == (4, 2e6, 5e5)


def test_copies_whose_bytes_are_not_all_known_have_none() -> None:
    parts = (
        example_copies("HtoD", "pinned", calls=2, ms=1, mib=3),
        example_copies("HtoD", "pageable", calls=1, ms=1),
        example_copies("DtoH", "pageable", calls=1, ms=1, mib=1),
    )
    evidence = evidence_of(example_facts.gpu(), LEAVES, *parts)
    assert windows.sum_copies(evidence, "HtoD").bytes is None
    assert windows.sum_copies(evidence, "HtoD", "pinned").bytes == 3 << 20
    assert windows.sum_copies(evidence, "HtoD").count == 3


def test_kernels_are_summed_by_the_leaf_of_most_of_their_time() -> None:
    parts = (kernel("a", 4, 2, "busy.math"), kernel("b", 6, 1, "busy.index"))
    evidence = evidence_of(example_facts.gpu(), LEAVES, *parts)
    assert windows.sum_kernels(evidence, "busy.math").mean_ns == 500_000
    assert windows.sum_kernels(evidence, "busy.").count == 10
    assert windows.sum_kernels(evidence, "busy.optimizer").mean_ns == 0


def test_nothing_is_told_of_steps_that_no_window_saw() -> None:
    with pytest.raises(NotObservedError, match="no window"):
        windows.sum_calls(evidence_of(example_facts.gpu(), LEAVES, in_windows={}), "aten::item")
    with pytest.raises(NotObservedError, match="no steps"):
        windows.sum_kernels(evidence_of(None, {}), "busy.")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (windows.ms(12_340_000), "12.3 ms"),
        (windows.ms(4_200), "0.0042 ms"),
        (windows.format_count(20.4), "20"),
        (windows.format_count(2.0), "2"),
        (windows.format_count(0.42), "0.4"),
        (windows.format_size(37_748_736), "38 MB"),
        (windows.format_size(1_500), "1.5 kB"),
        (windows.format_size(12), "12 bytes"),
        (windows.format_size(1.3), "1 byte"),
    ],
)
def test_figures_are_written_in_two_or_three_digits(text: str, words: str) -> None:
    assert text == words


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
    assert optimizer_steps.find_way(evidence_of(example_facts.gpu(), LEAVES, *parts)) == way


def test_parameters_of_all_optimizers_are_counted_and_the_largest_is_the_place() -> None:
    small = example_facts.optimizer(id=1, tensors=4, location=Location("train.py", 70))
    evidence = evidence_of(example_facts.gpu(example_facts.optimizer(), small), LEAVES)
    assert optimizer_steps.count_tensors(evidence) == 165
    assert optimizer_steps.find_optimizer_line(evidence) == example_facts.OPTIMIZER_LINE
    assert optimizer_steps.count_tensors(evidence_of(None, LEAVES)) is None
