"""What may be asked of a study, and selections of steps and ranks ("3-7", "0,2,5-")."""

import re
from collections.abc import Callable
from typing import Final

from msgspec import Struct

from gapless.errors import UsageError
from gapless.model.leaf import LEAVES

STANDARD_INPUT: Final = "-"  # as the name of a file
_NUMBER: Final = re.compile(r"[0-9]{1,18}")
Progress = Callable[[str], None]  # progress, a few words at a time


class Selection(Struct, frozen=True):
    """Numbers in closed intervals; the last may be open to the right (``None``)."""

    intervals: tuple[tuple[int, int | None], ...]

    def __contains__(self, number: int) -> bool:
        """Return whether a number is selected."""
        return any(
            low <= number and (high is None or number <= high) for low, high in self.intervals
        )


def parse_selection(text: str, option_name: str) -> Selection:
    """Read "5", "3-7", "3-" or several with commas. Raises ``UsageError`` that names the option."""
    return Selection(
        tuple(
            _parse_interval(range_text.strip(), text, option_name) for range_text in text.split(",")
        )
    )


def _parse_interval(range_text: str, text: str, option_name: str) -> tuple[int, int | None]:
    low, dash, high = range_text.partition("-")
    numbers = [low] + ([high] if high else [])
    if not all(_NUMBER.fullmatch(number) for number in numbers):
        raise UsageError(
            f"{option_name} {text!r} is no selection; "
            "write a number or a range: 5, 3-7, 3-, 0,2,8-9"
        )
    last_number = int(high) if high else (None if dash else int(low))
    if last_number is not None and last_number < int(low):
        raise UsageError(
            f"{option_name} {text!r} runs backwards; write the smaller number first: {high}-{low}"
        )
    return int(low), last_number


class Options(Struct, frozen=True):
    """What is asked of a study.

    All of it but ``on`` is part of the key under which the result is kept.
    """

    by_shape: bool = False
    rank: str | None = None  # a selection
    steps: str | None = None  # a selection
    leaf: str | None = None  # a leaf or a prefix of leaves
    pieces: int = 10  # how many of the leaf's longest pieces
    cache: bool = True
    price: float | None = None  # of a GPU for an hour
    pictured: bool = False  # with what only a page draws
    step: str | None = None  # the ranges that are steps: a name, or a pattern with * and ?
    on: str | None = None  # the Ray cluster that reads the ranks; None: processes of this machine
    diagnose: bool = True  # look for causes, unless steps or a leaf are selected

    def __post_init__(self) -> None:
        """Refuse what cannot be followed. Raises ``UsageError``."""
        for text, option_name in ((self.rank, "rank"), (self.steps, "steps")):
            if text is not None:
                parse_selection(text, option_name)
        if self.on is not None and not self.cache:
            raise UsageError(
                "workers of a cluster need their caches; leave --no-cache or --on away"
            )
        if self.pieces < 1:
            raise UsageError(f"{self.pieces} pieces are none; ask for one at least")
        if self.price is not None and not self.price >= 0:
            raise UsageError(f"a price of {self.price} an hour is none; give a number from 0 on")
        if self.leaf is not None and not leaves_below(self.leaf):
            tops = sorted({".".join(leaf.split(".")[:2]) for leaf in LEAVES})
            raise UsageError(f"no leaf begins with {self.leaf!r}; there are: {', '.join(tops)}")

    @property
    def concludes(self) -> bool:
        """Return whether causes are looked for: not in a selection of steps, nor in one leaf."""
        return self.diagnose and self.steps is None and self.leaf is None

    def ranks(self) -> Selection | None:
        """Return the selected ranks, ``None`` for all."""
        return None if self.rank is None else parse_selection(self.rank, "rank")

    def numbers(self) -> Selection | None:
        """Return the selected steps, ``None`` for all that are usually counted."""
        return None if self.steps is None else parse_selection(self.steps, "steps")


def leaves_below(prefix: str) -> tuple[str, ...]:
    """Return the leaves at or below a prefix of whole words."""
    prefix = prefix.rstrip(".*")
    return tuple(leaf for leaf in LEAVES if leaf == prefix or leaf.startswith(f"{prefix}."))
