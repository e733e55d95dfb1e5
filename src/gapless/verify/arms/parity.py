"""Whether edited arms trained as the unedited ones did: on the same samples, to the same losses."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from gapless.model.recording import ArmObservation, BatchIndices, Recording
from gapless.model.trial import Parity

_SPREAD_FACTOR: Final = 3.0  # times the difference of unedited arms
# of the coarsest type, for each step so far: errors grow with the steps
_ROUNDING_FACTOR: Final = 8.0
_MAX_DEVIATION: Final = 0.05  # of the losses, however coarse
_EPSILON: Final = {
    "bfloat16": 2.0**-7,
    "medium": 2.0**-7,
    "float16": 2.0**-10,
    "tf32": 2.0**-10,
    "float32": 2.0**-23,
}
_TF32: Final = ("allow_tf32_matmul", "allow_tf32_conv")
_MAX_REPETITION: Final = 1.05  # than in unedited arms may a sample come
_MIN_EPOCH_SHARE: Final = 0.98  # of an epoch's samples must be there
_MIN_SHARED_SHARE: Final = 0.5  # of the samples, from which it is the same ones in another order
_MAX_PERCENT: Final = 10.0  # times the usual loss: more is no share of it
Float = npt.NDArray[np.float64]
Signs = dict[int, list[str]]  # by loader


class Likeness(Struct, frozen=True):
    """How edited arms trained; ``refused``: why that is another training than the unedited one."""

    parity: Parity = Parity.NOT_OBSERVED
    note: str | None = None
    data: str | None = None  # "same" | "another order" | "other samples"; None: not observed
    refused: str | None = None


def find_observation(recording: Recording) -> ArmObservation | None:
    """Return what the first rank that trained observed about itself; ``None`` where none did."""
    processes = [process for process in recording.processes if process.trial is not None]
    processes.sort(key=lambda process: (process.rank or 0, process.start))
    observations = [process.trial for process in processes if process.trial is not None]
    return next(
        (
            observation
            for observation in observations
            if observation.losses or observation.indices or observation.samples
        ),
        None,
    )


def epsilon(recording: Recording) -> float:
    """Return the relative step of the coarsest type in which a training says that it computes."""
    names = {"float32"}
    facts = [fact for process in recording.processes for fact in process.facts]
    on_device = any("cuda" in str(fact.values.get("device")) for fact in facts)
    for fact in facts:
        if fact.noun == "precision":
            names |= {"tf32" for name in _TF32 if on_device and fact.values.get(name) is True}
            names.add(str(fact.values.get("matmul_precision")))
        if fact.noun in {"precision", "model"}:
            precision_text = f"{fact.values.get('autocast')} {fact.values.get('dtype')}"
            names |= {name for name in ("bfloat16", "float16") if f".{name}" in precision_text}
    return max(_EPSILON[name] for name in names if name in _EPSILON)


def compare_training(
    unedited: Sequence[ArmObservation], edited: Sequence[ArmObservation], rounding: float
) -> Likeness:
    """Compare what arms observed; ``rounding`` as ``epsilon`` gives it, the coarser of both sides.

    Losses are the *same* if all agree to the bit. They are *within the spread* if each differs from
    the middle of the unedited ones by no more than three times what unedited arms have differed by
    up to there, or 8 roundings of the coarsest type for each backward pass so far (5 % at most) of
    the usual loss. Else they are *different*. Losses that a GradScaler multiplied are compared up
    to powers of two.
    """
    if not unedited or not edited:
        return Likeness()
    data, refused = _compare_data(unedited, edited)
    parity, note = _compare_losses(unedited, edited, rounding)
    return Likeness(parity, note, data, refused)


# ── Losses ──────────────────────────────────────────────────────────────────────────────────────


def _compare_losses(
    unedited: Sequence[ArmObservation], edited: Sequence[ArmObservation], rounding: float
) -> tuple[Parity, str | None]:
    count = min(len(arm.losses) for arm in (*unedited, *edited))
    if not count:
        return Parity.NOT_OBSERVED, None
    unedited_losses, edited_losses = (
        np.array([arm.losses[:count] for arm in side]) for side in (unedited, edited)
    )
    if any(arm.scaled for arm in (*unedited, *edited)):
        unedited_losses, edited_losses = (
            _remove_scale(unedited_losses, unedited_losses[0]),
            _remove_scale(edited_losses, unedited_losses[0]),
        )
    if _are_equal(np.concatenate((unedited_losses, edited_losses))):
        return Parity.IDENTICAL, f"{count} losses, equal to the bit"
    if len(unedited) < 2:  # noqa: PLR2004 - one arm has no spread
        return Parity.NOT_OBSERVED, "one unedited arm alone shows no spread"
    return _compare_spread(unedited_losses, edited_losses, rounding)


def _are_equal(losses: Float) -> bool:
    return bool(((losses == losses[0]) | (np.isnan(losses) & np.isnan(losses[0]))).all())


def _remove_scale(losses: Float, reference: Float) -> Float:
    """Remove the powers of two by which a scaler may have multiplied losses."""
    ratio = np.abs(losses) / np.abs(reference)
    is_comparable = np.isfinite(ratio) & (ratio > 0)
    power = np.round(np.log2(np.where(is_comparable, ratio, 1.0)))
    return losses / np.exp2(power)


def _compare_spread(
    unedited_losses: Float, edited_losses: Float, rounding: float
) -> tuple[Parity, str | None]:
    count = unedited_losses.shape[1]
    passes = np.cumsum(np.ones(count))
    spread = np.maximum.accumulate(unedited_losses.max(axis=0) - unedited_losses.min(axis=0))
    usual = float(np.median(np.abs(unedited_losses)))
    allowed = np.minimum(_MAX_DEVIATION, _ROUNDING_FACTOR * rounding * passes) * usual
    deviation = np.abs(edited_losses - np.median(unedited_losses, axis=0)).max(axis=0)
    is_beyond = ~(deviation <= np.maximum(_SPREAD_FACTOR * spread, allowed))  # NaN is beyond, too
    widest = float(deviation.max() / usual) if usual else float(deviation.max())
    if not is_beyond.any():
        return Parity.WITHIN_SPREAD, f"{count} losses differ by {_format_share(widest)} at most"
    return Parity.DIFFERENT, (
        f"losses differ from backward pass {int(np.argmax(is_beyond)) + 1} on, "
        f"by {_format_share(widest)} at most"
    )


def _format_share(share: float) -> str:
    if share > _MAX_PERCENT:
        return f"{share:,.0f} times the usual loss"
    return f"{share:.2g} of the usual loss" if share < 1e-4 else f"{share:.2%} of the usual loss"  # noqa: PLR2004 - so few are written as a power


# ── Samples ─────────────────────────────────────────────────────────────────────────────────────


def _compare_data(
    unedited: Sequence[ArmObservation], edited: Sequence[ArmObservation]
) -> tuple[str | None, str | None]:
    """Describe what the edited arms trained on, and why that is not the same training."""
    edited_times, unedited_times = _count_repetitions(edited), _count_repetitions(unedited)
    if (
        edited_times is not None
        and unedited_times is not None
        and edited_times > _MAX_REPETITION * unedited_times
    ):
        comparison = (
            f"; {unedited_times:.1f} times in the unedited runs"
            if unedited_times >= _MAX_REPETITION
            else ""
        )
        return "other samples", f"each sample came {edited_times:.1f} times{comparison}"
    unedited_counts, edited_counts = _find_fewest_samples(unedited), _find_fewest_samples(edited)
    for loader in sorted(unedited_counts.keys() & edited_counts.keys()):
        full_count, count = unedited_counts[loader], edited_counts[loader]
        if count < _MIN_EPOCH_SHARE * full_count:
            return "other samples", f"an epoch had {count} samples of {full_count}"
    return _compare_order(unedited[0], edited), None


def _count_repetitions(arms: Sequence[ArmObservation]) -> float | None:
    """Return how often each distinct sample came in an epoch; ``None``: not known."""
    counts = [pair for arm in arms for pair in (*_count_indices(arm), *_count_samples(arm))]
    distinct = sum(n_distinct for _, n_distinct in counts)
    return sum(count for count, _ in counts) / distinct if distinct else None


def _count_epochs(batches: Sequence[BatchIndices]) -> Iterator[tuple[int, int | None]]:
    """Return samples and distinct ones of each epoch of a loader."""
    for epoch in dict.fromkeys(batch.epoch for batch in batches):
        epoch_batches = [batch for batch in batches if batch.epoch == epoch]
        yield sum(batch.count for batch in epoch_batches), epoch_batches[-1].distinct


def _count_indices(arm: ArmObservation) -> Iterator[tuple[int, int]]:
    for batches in arm.indices.values():
        for count, distinct in _count_epochs(batches):
            if distinct is not None:
                yield count, distinct


def _count_samples(arm: ArmObservation) -> Iterator[tuple[int, int]]:
    for batches in arm.samples.values():
        for epoch in dict.fromkeys(batch.epoch for batch in batches):
            signs = [sign for batch in batches if batch.epoch == epoch for sign in batch.samples]
            yield len(signs), len(set(signs))


def _find_fewest_samples(arms: Sequence[ArmObservation]) -> dict[int, int]:
    """Return the fewest samples of an epoch of each loader, of those that came to their end.

    One loader trains and another evaluates: an arm may have reached the end of one alone.
    """
    fewest: dict[int, int] = {}
    for arm in arms:
        for loader, batches in arm.indices.items():
            for count, _ in list(_count_epochs(batches))[:-1]:
                fewest[loader] = min(count, fewest.get(loader, count))
    return fewest


def _compare_order(unedited: ArmObservation, edited: Sequence[ArmObservation]) -> str | None:
    """Return whether batches, or samples, came in the same sequence as in an unedited arm."""
    unedited_signs = _read_signs(unedited)
    shares = [
        _share_in_common(reference, signs)
        for arm in edited
        for reference, signs in _pair_signs(unedited_signs, _read_signs(arm))
    ]
    known_shares = [share for share in shares if share is not None]
    if not known_shares:
        return None
    if min(known_shares) == 1:
        return "same"
    if all(arm.indices for arm in (unedited, *edited)):
        return "another order"  # none came twice, and none is missing: that was checked before
    return "another order" if min(known_shares) >= _MIN_SHARED_SHARE else "other samples"


def _pair_signs(ours: Signs, theirs: Signs) -> Iterator[tuple[list[str], list[str]]]:
    for loader in sorted(ours.keys() & theirs.keys()):
        yield ours[loader], theirs[loader]


def _share_in_common(ours: list[str], theirs: list[str]) -> float | None:
    """Return 1 for the same sequence, else the share, below 1, that both have in any order."""
    count = min(len(ours), len(theirs))
    if not count:
        return None
    if ours[:count] == theirs[:count]:
        return 1.0
    return (Counter(ours[:count]) & Counter(theirs[:count])).total() / (count + 1)


def _read_signs(arm: ArmObservation) -> Signs:
    index_signs = {
        loader: [batch.checksum for batch in batches] for loader, batches in arm.indices.items()
    }
    sample_signs = {
        loader: [sign for batch in batches for sign in batch.samples]
        for loader, batches in arm.samples.items()
    }
    return {**sample_signs, **index_signs}
