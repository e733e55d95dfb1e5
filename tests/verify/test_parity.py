"""Whether edited arms trained as the unedited ones: losses to the bit or in the spread, samples."""

import math
from collections.abc import Sequence

import pytest

from gapless.model.recording import ArmObservation, BatchIndices, BatchSamples
from gapless.model.trial import Parity
from gapless.verify.arms.parity import compare_training, epsilon, find_observation
from tests.study.recording import Log, recording
from tests.verify.arms import add_observation

FP32 = 2.0**-23


def losses(*values: float, scaled: bool = False) -> ArmObservation:
    return ArmObservation(values, scaled, {}, {})


def indices(*batches: tuple[int, str, int, int | None]) -> ArmObservation:
    return ArmObservation(
        (), scaled=False, indices={0: tuple(BatchIndices(*batch) for batch in batches)}, samples={}
    )


def samples(*batches: Sequence[str]) -> ArmObservation:
    batch_samples = tuple(BatchSamples(0, tuple(batch)) for batch in batches)
    return ArmObservation((), scaled=False, indices={}, samples={0: batch_samples})


def noisy_losses(increment: float, count: int = 50) -> ArmObservation:
    return losses(*(2.0 + increment * index for index in range(count)))


# ── Losses ──────────────────────────────────────────────────────────────────────────────────────


def test_equal_losses_are_the_same_to_the_bit() -> None:
    comparison = compare_training([noisy_losses(0), noisy_losses(0)], [noisy_losses(0)], FP32)
    assert (comparison.parity, comparison.note) == (Parity.IDENTICAL, "50 losses, equal to the bit")


def test_losses_that_are_no_numbers_in_all_arms_are_the_same() -> None:
    arms = [losses(1.0, math.nan)] * 2
    assert compare_training(arms, arms, FP32).parity is Parity.IDENTICAL


def test_only_the_losses_that_all_arms_have_are_compared() -> None:
    comparison = compare_training([losses(1.0, 2.0), losses(1.0)], [losses(1.0, 5.0)], FP32)
    assert comparison.parity is Parity.IDENTICAL


def test_losses_in_the_spread_of_unedited_arms_are_within_it() -> None:
    unedited = [noisy_losses(0), noisy_losses(1e-3)]
    assert compare_training(unedited, [noisy_losses(1.5e-3)], FP32).parity is Parity.WITHIN_SPREAD
    comparison = compare_training(unedited, [noisy_losses(5e-3)], FP32)
    assert comparison.parity is Parity.DIFFERENT
    assert (
        comparison.note
        == "losses differ from backward pass 2 on, by 11.03% of the usual loss at most"
    )
    note = compare_training(unedited, [noisy_losses(5e3)], FP32).note
    assert note is not None
    assert note.endswith(" times the usual loss at most")


def test_roundings_grow_with_the_steps() -> None:
    exact = [noisy_losses(0), noisy_losses(0)]
    late_losses, early_losses = [2.0] * 50, [2.0] * 50
    late_losses[-1] = early_losses[0] = 2.0 + 4e-5
    assert compare_training(exact, [losses(*late_losses)], FP32).parity is Parity.WITHIN_SPREAD
    assert compare_training(exact, [losses(*early_losses)], FP32).parity is Parity.DIFFERENT
    assert compare_training(exact, [losses(*early_losses)], 2.0**-7).parity is Parity.WITHIN_SPREAD
    note = compare_training(exact, [losses(*late_losses)], FP32).note
    assert note == "50 losses differ by 2e-05 of the usual loss at most"


def test_no_type_is_so_coarse_that_a_tenth_is_a_rounding() -> None:
    exact = [noisy_losses(0), noisy_losses(0)]
    far_losses = losses(*[2.2] * 50)
    assert compare_training(exact, [far_losses], 2.0**-7).parity is Parity.DIFFERENT


def test_a_loss_that_is_no_number_is_different() -> None:
    assert (
        compare_training([noisy_losses(0)] * 2, [losses(*[math.nan] * 50)], FP32).parity
        is Parity.DIFFERENT
    )


def test_losses_of_nothing_have_no_usual_size() -> None:
    comparison = compare_training([losses(0.0, 0.0)] * 2, [losses(0.0, 1.0)], FP32)
    assert comparison.parity is Parity.DIFFERENT


def test_one_unedited_arm_tells_equality_and_no_spread() -> None:
    assert compare_training([noisy_losses(0)], [noisy_losses(0)], FP32).parity is Parity.IDENTICAL
    assert (
        compare_training([noisy_losses(0)], [noisy_losses(1e-9)], FP32).parity
        is Parity.NOT_OBSERVED
    )


def test_scaled_losses_are_compared_but_for_powers_of_two() -> None:
    plain_arms = [losses(1.0, 0.9), losses(1.0, 0.9)]
    scaled_losses = losses(65536.0, 0.9 * 32768, scaled=True)
    assert compare_training(plain_arms, [scaled_losses], FP32).parity is Parity.IDENTICAL
    other_losses = losses(65536.0, 1.2 * 32768, scaled=True)
    assert compare_training(plain_arms, [other_losses], FP32).parity is Parity.DIFFERENT
    assert compare_training(plain_arms, [losses(65536.0, 29491.2)], FP32).parity is Parity.DIFFERENT


def test_without_losses_or_arms_nothing_was_observed() -> None:
    assert compare_training([], [noisy_losses(0)], FP32).parity is Parity.NOT_OBSERVED
    assert compare_training([noisy_losses(0)], [], FP32).parity is Parity.NOT_OBSERVED
    assert compare_training([losses()], [losses()], FP32).parity is Parity.NOT_OBSERVED


# ── Samples ─────────────────────────────────────────────────────────────────────────────────────


def test_the_same_batches_in_the_same_order_are_the_same() -> None:
    short_arm = indices((0, "a", 4, 4), (0, "b", 4, 8))
    long_arm = indices((0, "a", 4, 4), (0, "b", 4, 8), (0, "c", 4, 12))
    assert compare_training([short_arm], [long_arm, short_arm], FP32).data == "same"


def test_shuffled_otherwise_is_another_order() -> None:
    comparison = compare_training([indices((0, "a", 4, 4))], [indices((0, "x", 4, 4))], FP32)
    assert (comparison.data, comparison.refused) == ("another order", None)


def test_samples_that_come_twice_are_refused() -> None:
    distinct_samples, repeated_samples = samples("ab", "cd", "ef"), samples("ab", "ab", "cd", "cd")
    comparison = compare_training([distinct_samples], [repeated_samples], FP32)
    assert comparison.refused == "each sample came 2.0 times"
    assert comparison.data == "other samples"


def test_samples_that_always_come_again_are_no_fault_of_the_edit() -> None:
    repeating_arm = indices((0, "a", 4, 2), (0, "b", 4, 4))
    assert compare_training([repeating_arm], [repeating_arm], FP32).refused is None
    worse_arm = indices((0, "a", 4, 1), (0, "b", 4, 1))
    comparison = compare_training([repeating_arm], [worse_arm], FP32)
    assert comparison.refused == "each sample came 8.0 times; 2.0 times in the unedited runs"


def test_an_evaluation_is_no_epoch_that_lost_samples() -> None:
    train = (BatchIndices(0, "a", 8, 8), BatchIndices(1, "a", 8, 8), BatchIndices(2, "a", 8, 8))
    evaluation = (BatchIndices(0, "v", 2, 2), BatchIndices(1, "v", 2, 2))
    slow_arm = ArmObservation(
        (), scaled=False, indices={0: train[:2], 1: evaluation[:1]}, samples={}
    )
    fast_arm = ArmObservation((), scaled=False, indices={0: train, 1: evaluation}, samples={})
    assert compare_training([slow_arm], [fast_arm], FP32).refused is None
    reduced_arm = ArmObservation(
        (), scaled=False, indices={0: evaluation, 1: evaluation}, samples={}
    )
    assert (
        compare_training([slow_arm], [reduced_arm], FP32).refused == "an epoch had 2 samples of 8"
    )


def test_an_epoch_that_lost_samples_is_refused() -> None:
    full_arm = indices((0, "a", 4, 4), (0, "b", 4, 8), (1, "a", 4, 4))
    short_arm = indices((0, "a", 4, 4), (1, "a", 4, 4), (1, "b", 4, 8))
    assert compare_training([full_arm], [short_arm], FP32).refused == "an epoch had 4 samples of 8"
    cut_arm = indices((0, "a", 4, 4))  # it may go on
    assert compare_training([full_arm], [cut_arm], FP32).refused is None


def test_samples_too_many_to_be_told_apart_are_compared_by_order_alone() -> None:
    arm = indices((0, "a", 4, None), (0, "b", 4, None))
    assert compare_training([arm], [arm], FP32).data == "same"


def test_a_stream_in_another_order_is_told_from_another_stream() -> None:
    unedited_arm = samples("abcd", "efgh")
    assert compare_training([unedited_arm], [samples("efgh", "abcd")], FP32).data == "another order"
    assert compare_training([unedited_arm], [samples("ijkl", "mnop")], FP32).data == "other samples"


def test_each_loader_is_compared_with_itself() -> None:
    def observe_both(n_more: int) -> ArmObservation:
        train = tuple(BatchIndices(0, str(index), 4, 4 * index + 4) for index in range(3 + n_more))
        val = (BatchIndices(0, "v", 4, 4),)
        return ArmObservation((), scaled=False, indices={0: train, 1: val}, samples={})

    assert compare_training([observe_both(0)], [observe_both(1)], FP32).data == "same"


def test_without_batches_the_samples_are_not_known() -> None:
    assert compare_training([noisy_losses(0)], [noisy_losses(0)], FP32).data is None
    assert compare_training([samples()], [samples()], FP32).data is None


# ── What a recording tells ──────────────────────────────────────────────────────────────────────


def test_the_first_rank_that_observed_something_tells() -> None:
    empty_observation, observation = losses(), losses(1.0)
    two_ranks = recording(Log(rank=0), Log(rank=1, pid=11))
    assert find_observation(two_ranks) is None
    assert find_observation(add_observation(two_ranks, empty_observation)) is None
    assert find_observation(add_observation(two_ranks, observation)) is observation


@pytest.mark.parametrize(
    ("device", "values", "expected"),
    [
        ("cpu", {}, 2.0**-23),
        ("cpu", {"allow_tf32_conv": True}, 2.0**-23),
        ("cuda:0", {"allow_tf32_conv": True}, 2.0**-10),
        ("cpu", {"matmul_precision": "medium"}, 2.0**-7),
        ("cpu", {"autocast": {"cpu": "torch.bfloat16"}}, 2.0**-7),
        ("cuda:0", {"autocast": {"cuda": "torch.float16"}}, 2.0**-10),
    ],
)
def test_the_coarsest_type_decides(device: str, values: dict[str, object], expected: float) -> None:
    log = Log()
    log.add_fact("model", 0, None, device=device, dtype="torch.float32")
    log.add_fact("precision", 0, None, **values)
    assert epsilon(recording(log)) == expected
