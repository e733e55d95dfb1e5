"""Numbers as people read them: one unit for a whole account, digits that visibly sum."""

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from gapless.model.rounding import apportion


class Unit(Struct, frozen=True):
    """A unit of time and how many decimals of it are printed."""

    name: str
    ns: int
    decimals: int

    def digits(self, ns: float) -> int:
        """Return a time in units of the last printed digit."""
        return round(ns * 10**self.decimals / self.ns)

    def text(self, digits: int) -> str:
        """Format what ``digits`` counted."""
        return f"{digits / 10**self.decimals:,.{self.decimals}f}"

    def fmt(self, ns: float) -> str:
        """Format a time, without the unit's name."""
        return self.text(self.digits(ns))


_UNITS: Final = (  # the first whose bound is not above the time
    (10_000_000_000, Unit("s", 1_000_000_000, 2)),
    (100_000_000, Unit("ms", 1_000_000, 1)),
    (10_000_000, Unit("ms", 1_000_000, 2)),
    (1_000_000, Unit("ms", 1_000_000, 3)),
    (100_000, Unit("µs", 1_000, 1)),
    (0, Unit("µs", 1_000, 2)),
)


def unit_for(ns: float) -> Unit:
    """Choose the unit in which a time has at least four digits."""
    return next(unit for bound, unit in _UNITS if abs(ns) >= bound)


def duration(ns: float) -> str:
    """Format one time with its unit, at three or four digits."""
    unit = unit_for(ns)
    return f"{unit.fmt(ns)} {unit.name}"


def span(ns: float) -> str:
    """Format a duration of a run at three digits: it is not compared to the ns."""
    seconds = ns / 1e9
    if seconds >= 6000:  # noqa: PLR2004 - from 100 minutes on
        hours, minutes = divmod(round(seconds / 60), 60)
        return f"{hours:,} h {minutes:02} min"
    for bound, factor, unit in ((1, 1, "s"), (1e-3, 1e3, "ms"), (0, 1e6, "µs")):
        if seconds >= bound:
            value = seconds * factor
            digits = 0 if value >= 100 else 1 if value >= 10 else 2  # noqa: PLR2004
            return f"{value:,.{digits}f} {unit}"
    return f"{ns} ns"


def shares(parts: Sequence[int]) -> tuple[str, ...]:
    """Format shares of the sum in percent with one decimal, which visibly sum to 100.0."""
    return tuple(f"{share / 10:.1f}" for share in apportion(parts, 1000))


def percent(share: float) -> str:
    """Format one share: whole percents, but more digits near nothing and near all."""
    value = share * 100
    if value in (0, 100):
        return f"{value:.0f} %"
    close = min(value, 100 - value)
    if close < 0.1:  # noqa: PLR2004 - a tenth is the finest that is printed
        return "< 0.1 %" if value < 50 else "> 99.9 %"  # noqa: PLR2004
    return f"{value:.1f} %" if close < 10 else f"{value:.0f} %"  # noqa: PLR2004


def count(number: float) -> str:
    """Format a count: whole numbers plain, others with two or one decimals."""
    if number == round(number):
        return f"{number:,.0f}"
    return f"{number:,.2f}" if number < 10 else f"{number:,.1f}"  # noqa: PLR2004


def size(number: float) -> str:
    """Format bytes with binary prefixes, as ``nvidia-smi`` and torch do."""
    for prefix in ("B", "KiB", "MiB", "GiB"):
        if abs(number) < 1024:  # noqa: PLR2004 - a binary prefix
            return f"{number:.0f} {prefix}" if prefix == "B" else f"{number:.1f} {prefix}"
        number /= 1024
    return f"{number:,.1f} TiB"


def rate(per_s: float) -> str:
    """Format bytes a second in decimal units, as links and memories are sold."""
    return f"{per_s / 1e9:.1f} GB/s" if per_s >= 1e8 else f"{per_s / 1e6:.1f} MB/s"  # noqa: PLR2004
