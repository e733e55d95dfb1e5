"""Whether edited arms trained as the unedited ones did: on the same samples, to the same losses."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from gapless.model.recording import Drawn, Observed, Recording
from gapless.model.trial import Parity

_SPREADS: Final = 3.0  # times what unedited arms differ by
_ROUNDINGS: Final = 8.0  # of the coarsest type, for each step so far: errors grow with the steps
_MOST: Final = 0.05  # of the losses, however coarse
_EPSILON: Final = {
    "bfloat16": 2.0**-7,
    "medium": 2.0**-7,
    "float16": 2.0**-10,
    "tf32": 2.0**-10,
    "float32": 2.0**-23,
}
_TF32: Final = ("allow_tf32_matmul", "allow_tf32_conv")
_MORE_OFTEN: Final = 1.05  # than in unedited arms may a sample come
_FEWER: Final = 0.98  # of an epoch's samples must be there
_SHARED: Final = 0.5  # of the samples, from which it is the same ones in another order
Float = npt.NDArray[np.float64]
Signs = dict[int, list[str]]  # by loader


@dataclass(frozen=True)
class Likeness:
    """How edited arms trained beside unedited ones; ``refused``: why that is another training."""

    parity: Parity = Parity.NOT_OBSERVED
    note: str | None = None
    data: str | None = None  # "same" | "another order" | "other samples"; None: not observed
    refused: str | None = None


def observed(recording: Recording) -> Observed | None:
    """Give what the first rank that trained observed of itself; ``None`` where none did."""
    found = [one for one in recording.processes if one.trial is not None]
    found.sort(key=lambda one: (one.rank or 0, one.start))
    trials = [one.trial for one in found if one.trial is not None]
    return next((one for one in trials if one.losses or one.indices or one.samples), None)


def epsilon(recording: Recording) -> float:
    """Give the relative step of the coarsest type that a training says it computes in."""
    names = {"float32"}
    facts = [fact for process in recording.processes for fact in process.facts]
    on_device = any("cuda" in str(one.values.get("device")) for one in facts)
    for one in facts:
        if one.noun == "precision":
            names |= {"tf32" for name in _TF32 if on_device and one.values.get(name) is True}
            names.add(str(one.values.get("matmul_precision")))
        if one.noun in {"precision", "model"}:
            told = f"{one.values.get('autocast')} {one.values.get('dtype')}"
            names |= {name for name in ("bfloat16", "float16") if f".{name}" in told}
    return max(_EPSILON[name] for name in names if name in _EPSILON)


def likeness(unedited: Sequence[Observed], edited: Sequence[Observed], rounding: float) -> Likeness:
    """Compare what arms observed; ``rounding`` as ``epsilon`` gives it, the coarser of both sides.

    Losses are the *same* if all agree to the bit. They are *within the spread* if each differs from
    the middle of the unedited ones by no more than three times what unedited arms have differed by
    up to there, or 8 roundings of the coarsest type for each backward pass so far (5 % at most)
    of the usual loss. Else they are *different*. Losses that a GradScaler multiplied are compared
    but for powers of two.
    """
    if not unedited or not edited:
        return Likeness()
    data, refused = _data(unedited, edited)
    parity, note = _losses(unedited, edited, rounding)
    return Likeness(parity, note, data, refused)


# ── Losses ──────────────────────────────────────────────────────────────────────────────────────


def _losses(
    unedited: Sequence[Observed], edited: Sequence[Observed], rounding: float
) -> tuple[Parity, str | None]:
    count = min(len(one.losses) for one in (*unedited, *edited))
    if not count:
        return Parity.NOT_OBSERVED, None
    first, second = (np.array([one.losses[:count] for one in side]) for side in (unedited, edited))
    if any(one.scaled for one in (*unedited, *edited)):
        first, second = _unscaled(first, first[0]), _unscaled(second, first[0])
    if _equal(np.concatenate((first, second))):
        return Parity.SAME, f"{count} losses, equal to the bit"
    if len(unedited) < 2:  # noqa: PLR2004 - one arm has no spread
        return Parity.NOT_OBSERVED, "one unedited arm alone tells no spread"
    return _within(first, second, rounding)


def _equal(losses: Float) -> bool:
    return bool(((losses == losses[0]) | (np.isnan(losses) & np.isnan(losses[0]))).all())


def _unscaled(losses: Float, reference: Float) -> Float:
    """Take off the powers of two by which a scaler may have multiplied losses."""
    ratio = np.abs(losses) / np.abs(reference)
    able = np.isfinite(ratio) & (ratio > 0)
    power = np.round(np.log2(np.where(able, ratio, 1.0)))
    return losses / np.exp2(power)


def _within(first: Float, second: Float, rounding: float) -> tuple[Parity, str | None]:
    count = first.shape[1]
    passes = np.cumsum(np.ones(count))
    spread = np.maximum.accumulate(first.max(axis=0) - first.min(axis=0))
    usual = float(np.median(np.abs(first)))
    allowed = np.minimum(_MOST, _ROUNDINGS * rounding * passes) * usual
    off = np.abs(second - np.median(first, axis=0)).max(axis=0)
    bad = ~(off <= np.maximum(_SPREADS * spread, allowed))  # NaN is beyond, too
    widest = float(off.max() / usual) if usual else float(off.max())
    if not bad.any():
        return Parity.WITHIN_SPREAD, f"{count} losses differ by {_percent(widest)} at most"
    return Parity.DIFFERENT, (
        f"losses differ from backward pass {int(np.argmax(bad)) + 1} on, "
        f"by {_percent(widest)} at most"
    )


def _percent(share: float) -> str:
    return f"{share:.2g} of the usual loss" if share < 1e-4 else f"{share:.2%} of the usual loss"  # noqa: PLR2004 - so few are written as a power


# ── Samples ─────────────────────────────────────────────────────────────────────────────────────


def _data(
    unedited: Sequence[Observed], edited: Sequence[Observed]
) -> tuple[str | None, str | None]:
    """Say what the edited arms trained on, and why that is no training like the other."""
    often, usual = _times(edited), _times(unedited)
    if often is not None and usual is not None and often > _MORE_OFTEN * usual:
        beside = f"; {usual:.1f} times in the unedited runs" if usual >= _MORE_OFTEN else ""
        return "other samples", f"each sample came {often:.1f} times{beside}"
    every, mine = _fewest(unedited), _fewest(edited)
    for loader in sorted(every.keys() & mine.keys()):
        whole, had = every[loader], mine[loader]
        if had < _FEWER * whole:
            return "other samples", f"an epoch had {had} samples of {whole}"
    return _order(unedited[0], edited), None


def _times(arms: Sequence[Observed]) -> float | None:
    """Give how often each distinct sample came in an epoch; ``None``: not known."""
    found = [pair for arm in arms for pair in (*_drawn(arm), *_seen(arm))]
    distinct = sum(one for _, one in found)
    return sum(count for count, _ in found) / distinct if distinct else None


def _epochs(batches: Sequence[Drawn]) -> Iterator[tuple[int, int | None]]:
    """Give samples and distinct ones of each epoch of a loader."""
    for epoch in dict.fromkeys(one.epoch for one in batches):
        mine = [one for one in batches if one.epoch == epoch]
        yield sum(one.count for one in mine), mine[-1].distinct


def _drawn(arm: Observed) -> Iterator[tuple[int, int]]:
    for batches in arm.indices.values():
        for count, distinct in _epochs(batches):
            if distinct is not None:
                yield count, distinct


def _seen(arm: Observed) -> Iterator[tuple[int, int]]:
    for batches in arm.samples.values():
        for epoch in dict.fromkeys(one.epoch for one in batches):
            mine = [sign for one in batches if one.epoch == epoch for sign in one.samples]
            yield len(mine), len(set(mine))


def _fewest(arms: Sequence[Observed]) -> dict[int, int]:
    """Give the fewest samples of an epoch of each loader, of those that came to their end.

    One loader trains and another evaluates: an arm may have reached the end of one alone.
    """
    found: dict[int, int] = {}
    for arm in arms:
        for loader, batches in arm.indices.items():
            for count, _ in list(_epochs(batches))[:-1]:
                found[loader] = min(count, found.get(loader, count))
    return found


def _order(unedited: Observed, edited: Sequence[Observed]) -> str | None:
    """Say whether batches, or samples, came in the same sequence as in an unedited arm."""
    ours = _signs(unedited)
    found = [_alike(mine, signs) for one in edited for mine, signs in _both(ours, _signs(one))]
    known = [one for one in found if one is not None]
    if not known:
        return None
    if min(known) == 1:
        return "same"
    if all(one.indices for one in (unedited, *edited)):
        return "another order"  # none came twice, and none is missing: that was looked at before
    return "another order" if min(known) >= _SHARED else "other samples"


def _both(ours: Signs, theirs: Signs) -> Iterator[tuple[list[str], list[str]]]:
    for loader in sorted(ours.keys() & theirs.keys()):
        yield ours[loader], theirs[loader]


def _alike(ours: list[str], theirs: list[str]) -> float | None:
    """Give 1 for the same sequence, else the share, below 1, that both have in any order."""
    count = min(len(ours), len(theirs))
    if not count:
        return None
    if ours[:count] == theirs[:count]:
        return 1.0
    return (Counter(ours[:count]) & Counter(theirs[:count])).total() / (count + 1)


def _signs(arm: Observed) -> Signs:
    drawn = {loader: [one.checksum for one in some] for loader, some in arm.indices.items()}
    seen = {
        loader: [sign for one in some for sign in one.samples]
        for loader, some in arm.samples.items()
    }
    return {**seen, **drawn}
