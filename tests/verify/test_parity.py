"""Whether edited arms trained as the unedited ones: losses to the bit or in the spread, samples."""

import math
from collections.abc import Sequence

import pytest

from gapless.model.recording import Drawn, Observed, Seen
from gapless.model.trial import Parity
from gapless.verify.parity import epsilon, likeness, observed
from tests.study.recording import Log, recording
from tests.verify.arms import with_trial

FP32 = 2.0**-23


def losses(*values: float, scaled: bool = False) -> Observed:
    return Observed(values, scaled, {}, {})


def drawn(*batches: tuple[int, str, int, int | None]) -> Observed:
    return Observed(
        (), scaled=False, indices={0: tuple(Drawn(*one) for one in batches)}, samples={}
    )


def seen(*batches: Sequence[str]) -> Observed:
    some = tuple(Seen(0, tuple(one)) for one in batches)
    return Observed((), scaled=False, indices={}, samples={0: some})


def noisy(by: float, count: int = 50) -> Observed:
    return losses(*(2.0 + by * at for at in range(count)))


# ── Losses ──────────────────────────────────────────────────────────────────────────────────────


def test_equal_losses_are_the_same_to_the_bit() -> None:
    found = likeness([noisy(0), noisy(0)], [noisy(0)], FP32)
    assert (found.parity, found.note) == (Parity.SAME, "50 losses, equal to the bit")


def test_losses_that_are_no_numbers_in_all_arms_are_the_same() -> None:
    arms = [losses(1.0, math.nan)] * 2
    assert likeness(arms, arms, FP32).parity is Parity.SAME


def test_only_the_losses_that_all_arms_have_are_compared() -> None:
    found = likeness([losses(1.0, 2.0), losses(1.0)], [losses(1.0, 5.0)], FP32)
    assert found.parity is Parity.SAME


def test_losses_in_the_spread_of_unedited_arms_are_within_it() -> None:
    unedited = [noisy(0), noisy(1e-3)]
    assert likeness(unedited, [noisy(1.5e-3)], FP32).parity is Parity.WITHIN_SPREAD
    found = likeness(unedited, [noisy(5e-3)], FP32)
    assert found.parity is Parity.DIFFERENT
    assert (
        found.note == "losses differ from backward pass 2 on, by 11.03% of the usual loss at most"
    )


def test_roundings_grow_with_the_steps() -> None:
    exact = [noisy(0), noisy(0)]
    late, soon = [2.0] * 50, [2.0] * 50
    late[-1] = soon[0] = 2.0 + 4e-5
    assert likeness(exact, [losses(*late)], FP32).parity is Parity.WITHIN_SPREAD
    assert likeness(exact, [losses(*soon)], FP32).parity is Parity.DIFFERENT
    assert likeness(exact, [losses(*soon)], 2.0**-7).parity is Parity.WITHIN_SPREAD
    small = likeness(exact, [losses(*late)], FP32).note
    assert small == "50 losses differ by 2e-05 of the usual loss at most"


def test_no_type_is_so_coarse_that_a_tenth_is_a_rounding() -> None:
    exact = [noisy(0), noisy(0)]
    off = losses(*[2.2] * 50)
    assert likeness(exact, [off], 2.0**-7).parity is Parity.DIFFERENT


def test_a_loss_that_is_no_number_is_different() -> None:
    assert likeness([noisy(0)] * 2, [losses(*[math.nan] * 50)], FP32).parity is Parity.DIFFERENT


def test_losses_of_nothing_have_no_usual_size() -> None:
    found = likeness([losses(0.0, 0.0)] * 2, [losses(0.0, 1.0)], FP32)
    assert found.parity is Parity.DIFFERENT


def test_one_unedited_arm_tells_equality_and_no_spread() -> None:
    assert likeness([noisy(0)], [noisy(0)], FP32).parity is Parity.SAME
    assert likeness([noisy(0)], [noisy(1e-9)], FP32).parity is Parity.NOT_OBSERVED


def test_scaled_losses_are_compared_but_for_powers_of_two() -> None:
    plain = [losses(1.0, 0.9), losses(1.0, 0.9)]
    scaled = losses(65536.0, 0.9 * 32768, scaled=True)
    assert likeness(plain, [scaled], FP32).parity is Parity.SAME
    other = losses(65536.0, 1.2 * 32768, scaled=True)
    assert likeness(plain, [other], FP32).parity is Parity.DIFFERENT
    assert likeness(plain, [losses(65536.0, 29491.2)], FP32).parity is Parity.DIFFERENT


def test_without_losses_or_arms_nothing_was_observed() -> None:
    assert likeness([], [noisy(0)], FP32).parity is Parity.NOT_OBSERVED
    assert likeness([noisy(0)], [], FP32).parity is Parity.NOT_OBSERVED
    assert likeness([losses()], [losses()], FP32).parity is Parity.NOT_OBSERVED


# ── Samples ─────────────────────────────────────────────────────────────────────────────────────


def test_the_same_batches_in_the_same_order_are_the_same() -> None:
    one = drawn((0, "a", 4, 4), (0, "b", 4, 8))
    longer = drawn((0, "a", 4, 4), (0, "b", 4, 8), (0, "c", 4, 12))
    assert likeness([one], [longer, one], FP32).data == "same"


def test_shuffled_otherwise_is_another_order() -> None:
    found = likeness([drawn((0, "a", 4, 4))], [drawn((0, "x", 4, 4))], FP32)
    assert (found.data, found.refused) == ("another order", None)


def test_samples_that_come_twice_are_refused() -> None:
    once, twice = seen("ab", "cd", "ef"), seen("ab", "ab", "cd", "cd")
    found = likeness([once], [twice], FP32)
    assert found.refused == "each sample came 2.0 times"
    assert found.data == "other samples"


def test_samples_that_always_come_again_are_no_fault_of_the_edit() -> None:
    again = drawn((0, "a", 4, 2), (0, "b", 4, 4))
    assert likeness([again], [again], FP32).refused is None
    worse = drawn((0, "a", 4, 1), (0, "b", 4, 1))
    found = likeness([again], [worse], FP32)
    assert found.refused == "each sample came 8.0 times; 2.0 times in the unedited runs"


def test_an_evaluation_is_no_epoch_that_lost_samples() -> None:
    train = (Drawn(0, "a", 8, 8), Drawn(1, "a", 8, 8), Drawn(2, "a", 8, 8))
    evaluated = (Drawn(0, "v", 2, 2), Drawn(1, "v", 2, 2))
    slow = Observed((), scaled=False, indices={0: train[:2], 1: evaluated[:1]}, samples={})
    fast = Observed((), scaled=False, indices={0: train, 1: evaluated}, samples={})
    assert likeness([slow], [fast], FP32).refused is None
    less = Observed((), scaled=False, indices={0: evaluated, 1: evaluated}, samples={})
    assert likeness([slow], [less], FP32).refused == "an epoch had 2 samples of 8"


def test_an_epoch_that_lost_samples_is_refused() -> None:
    whole = drawn((0, "a", 4, 4), (0, "b", 4, 8), (1, "a", 4, 4))
    short = drawn((0, "a", 4, 4), (1, "a", 4, 4), (1, "b", 4, 8))
    assert likeness([whole], [short], FP32).refused == "an epoch had 4 samples of 8"
    cut = drawn((0, "a", 4, 4))  # it may go on
    assert likeness([whole], [cut], FP32).refused is None


def test_samples_too_many_to_be_told_apart_are_compared_by_order_alone() -> None:
    one = drawn((0, "a", 4, None), (0, "b", 4, None))
    assert likeness([one], [one], FP32).data == "same"


def test_a_stream_in_another_order_is_told_from_another_stream() -> None:
    ours = seen("abcd", "efgh")
    assert likeness([ours], [seen("efgh", "abcd")], FP32).data == "another order"
    assert likeness([ours], [seen("ijkl", "mnop")], FP32).data == "other samples"


def test_each_loader_is_compared_with_itself() -> None:
    def both(more: int) -> Observed:
        train = tuple(Drawn(0, str(at), 4, 4 * at + 4) for at in range(3 + more))
        val = (Drawn(0, "v", 4, 4),)
        return Observed((), scaled=False, indices={0: train, 1: val}, samples={})

    assert likeness([both(0)], [both(1)], FP32).data == "same"


def test_without_batches_the_samples_are_not_known() -> None:
    assert likeness([noisy(0)], [noisy(0)], FP32).data is None
    assert likeness([seen()], [seen()], FP32).data is None


# ── What a recording tells ──────────────────────────────────────────────────────────────────────


def test_the_first_rank_that_observed_something_tells() -> None:
    empty, told = losses(), losses(1.0)
    found = recording(Log(rank=0), Log(rank=1, pid=11))
    assert observed(found) is None
    assert observed(with_trial(found, empty)) is None
    assert observed(with_trial(found, told)) is told


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
    log.fact("model", 0, None, device=device, dtype="torch.float32")
    log.fact("precision", 0, None, **values)
    assert epsilon(recording(log)) == expected
