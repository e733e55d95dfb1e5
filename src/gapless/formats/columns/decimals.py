"""Decimal text → exact integer nanoseconds, a column at a time. A float is never made."""

import re
from collections.abc import Sequence
from decimal import ROUND_HALF_EVEN, Decimal, DecimalException, localcontext
from enum import IntEnum
from typing import Final, cast

import numpy as np
import numpy.typing as npt
from msgspec import Raw

from gapless.model.trace import Int64, Uint8

LIMIT: Final = 2**62 - 1  # ns, 146 years: the sum of two times fits 64 bits
_DIGITS: Final = b"0123456789"
_COMMA, _POINT, _ZERO, _FOUR = b",.04"
_MAX_DIGITS: Final = 16  # digits before the point, the first of 16 below 4: surely within LIMIT
_DECIMAL_PLACES: Final = 3  # digits after the point that are whole nanoseconds
_SPLIT_SIGN: Final = re.compile(r"^-?(\d+)\.-(\d+)$")


class Doubt(IntEnum):
    """What was wrong with a number."""

    CLEAR = 0
    TEXT = 1  # written as text, or in a form that only one writer uses; its meaning is clear
    UNUSABLE = 2  # no number, or none that can be a time


def nanoseconds(texts: Sequence[Raw]) -> tuple[Int64, Uint8 | None]:
    """Return ``round_half_even(1000 · x)`` of each, and its ``Doubt`` (``None``: no doubt)."""
    joined = b",".join(texts)
    shape = joined.translate(None, _DIGITS)
    if shape == b".," * (len(texts) - 1) + b"." and _has_thousandths(joined, len(texts)):
        return np.fromstring(joined.replace(b".", b""), dtype=np.int64, sep=","), None
    return _parse_mixed(joined, texts)


def _has_thousandths(joined: bytes, count: int) -> bool:
    """Return whether all have three decimals and are within the limit."""
    letters = np.frombuffer(joined, dtype=np.uint8)
    points = np.flatnonzero(letters == _POINT)
    ends = np.append(np.flatnonzero(letters == _COMMA), len(letters))
    starts = np.append(0, ends[:-1] + 1)
    if len(points) != count:
        return False
    return bool(
        (ends - points == _DECIMAL_PLACES + 1).all() and _fits(letters, starts, points).all()
    )


def _fits(
    letters: npt.NDArray[np.uint8], starts: npt.NDArray[np.intp], points: npt.NDArray[np.intp]
) -> npt.NDArray[np.bool_]:
    n_digits = points - starts
    is_short = (n_digits > 0) & (n_digits < _MAX_DIGITS)
    return is_short | ((n_digits == _MAX_DIGITS) & (letters[starts] < _FOUR))


def _parse_mixed(joined: bytes, texts: Sequence[Raw]) -> tuple[Int64, Uint8 | None]:
    letters = np.frombuffer(joined + b",", dtype=np.uint8)
    if np.count_nonzero(letters == _COMMA) != len(texts):  # an array, or text with a comma
        return _one_by_one(texts, np.arange(len(texts)), np.zeros(len(texts), np.int64))
    ends = np.flatnonzero(letters == _COMMA)
    starts = np.append(0, ends[:-1] + 1)
    points = _first_positions(letters == _POINT, starts, ends)
    digits = (letters >= _ZERO) & (letters < _ZERO + 10)
    count = np.add.reduceat(digits, starts, dtype=np.int64)
    is_plain = (
        (count == ends - starts - (points < ends))
        & _fits(letters, starts, points)
        & (ends - points <= _DECIMAL_PLACES + 1)
    )
    values = _sum_digits(letters, starts, points, ends)
    return _one_by_one(texts, np.flatnonzero(~is_plain), np.where(is_plain, values, 0))


def _first_positions(
    is_match: npt.NDArray[np.bool_], starts: npt.NDArray[np.intp], ends: npt.NDArray[np.intp]
) -> npt.NDArray[np.intp]:
    """Return the first position of each field where ``is_match`` is true, else the field's end."""
    positions = np.append(np.flatnonzero(is_match), len(is_match))
    return np.minimum(positions[np.searchsorted(positions, starts)], ends)


def _sum_digits(
    letters: npt.NDArray[np.uint8],
    starts: npt.NDArray[np.intp],
    points: npt.NDArray[np.intp],
    ends: npt.NDArray[np.intp],
) -> Int64:
    total = np.zeros(len(starts), dtype=np.int64)
    n_digits = min(int((points - starts).max(initial=0)), _MAX_DIGITS)
    for k in range(n_digits):
        position = points - 1 - k
        digit = letters[np.maximum(position, 0)].astype(np.int64) - _ZERO
        total += np.where(position >= starts, digit, 0) * (1000 * 10**k)
    for k in range(_DECIMAL_PLACES):
        position = points + 1 + k
        digit = letters[np.minimum(position, len(letters) - 1)].astype(np.int64) - _ZERO
        total += np.where(position < ends, digit, 0) * 10 ** (_DECIMAL_PLACES - 1 - k)
    return total


def _one_by_one(
    texts: Sequence[Raw], rows: npt.NDArray[np.intp], values: Int64
) -> tuple[Int64, Uint8 | None]:
    doubts = np.zeros(len(texts), dtype=np.uint8)
    for row in rows.tolist():  # only the rows that are unlike all others
        values[row], doubts[row] = parse_exact(bytes(cast("bytes", texts[row])))
    return values, doubts if doubts.any() else None


def parse_exact(text: bytes) -> tuple[int, Doubt]:
    """Return ``round_half_even(1000 · x)`` of one JSON value, and what was wrong with it."""
    plain = text.decode("ascii", "replace").strip()
    inner = plain.strip('"').strip()
    doubt = Doubt.TEXT if inner != plain else Doubt.CLEAR
    odd_form = _SPLIT_SIGN.match(inner)
    if odd_form is not None:  # a C++ writer's "-1.-500": quotient and remainder, each with its sign
        return -(int(odd_form[1]) * 1000 + int(odd_form[2])), Doubt.TEXT
    try:
        with localcontext(prec=60):
            value = Decimal(inner) * 1000
            if not value.is_finite() or abs(value) > LIMIT:
                return 0, Doubt.UNUSABLE
            return int(value.to_integral_value(ROUND_HALF_EVEN)), doubt
    except DecimalException:
        return 0, Doubt.UNUSABLE
