"""How close a run is to what its machine can do: what is left to gain of kernels at most."""

from collections.abc import Sequence
from typing import Final

from gapless.catalogue.computing import roof_of
from gapless.catalogue.loading import percent
from gapless.model.machine import Constants
from gapless.model.seen import Seen
from gapless.model.work import Work
from gapless.replay.roofline import MATH, Roof

_LEAST: Final = 0.5  # of the busy time must be known: its inputs, and a formula for them
_WORTH: Final = 0.1  # of the known time: less of a kind is left out of the sentence
_UNITS: Final = ((1e12, "T"), (1e9, "G"))


def outlook(seen: Seen, constants: Constants | None = None) -> str | None:
    """Say how close a run's kernels come to the peaks of its device or processors.

    ``None`` where inputs were not recorded, or the peaks are not known. ``constants``: of the
    machine, where they are not among what was seen.
    """
    if constants is not None and seen.constants is None:
        seen = Seen(seen.study, seen.facts, constants)
    roof = roof_of(seen)
    known = [] if roof is None else [one for one in seen.study.work if _bound(one, roof)]
    spent, busy = sum(one.ns for one in known), seen.study.account.busy_ns()
    if roof is None or not spent or spent < _LEAST * busy:
        return None
    share = min(1.0, sum(_bound(one, roof) or 0.0 for one in known) / spent)
    parts = [one for one in (*_products(known, spent, roof), _memory(known, spent, roof)) if one]
    told = f" ({'; '.join(parts)})" if parts else ""
    how = "measured at another time" if roof.peaks.measured else "far as its generation tells"
    sure = f", as {how}"
    return f"its kernels come to {percent(share)} of what the machine can do{sure}{told}"


def _products(known: Sequence[Work], spent: int, roof: Roof) -> list[str]:
    """Tell how fast products are, in each format that matters."""
    found: list[str] = []
    for form, peak in roof.peaks.flops.items():
        mine = [one for one in known if one.leaf in MATH and _form(one) == form]
        ns = sum(one.ns for one in mine)
        if ns >= _WORTH * spent:
            rate = sum(one.flops or 0.0 for one in mine) / ns * 1e9
            found.append(f"products in {form} at {percent(rate / peak)} of {_rate(peak)}FLOP/s")
    return found


def _memory(known: Sequence[Work], spent: int, roof: Roof) -> str | None:
    mine = [one for one in known if one.leaf not in MATH]
    ns = sum(one.ns for one in mine)
    if ns < _WORTH * spent:
        return None
    rate = sum(one.bytes or 0.0 for one in mine) / ns * 1e9
    peak = roof.peaks.bandwidth
    return f"the others at {percent(min(1.0, rate / peak))} of {_rate(peak)}B/s"


def _bound(work: Work, roof: Roof) -> float | None:
    form = _form(work)
    return None if form is None else roof.bound_ns(work, form)


def _form(work: Work) -> str | None:
    """Give the format that a row computes in: fp32 on tensor cores is TF32."""
    if work.dtype == "fp32" and work.leaf == "busy.tc_math" and "attention" not in work.operator:
        return "tf32"
    return work.dtype


def _rate(value: float) -> str:
    for unit, letter in _UNITS:
        if value >= unit:
            return f"{value / unit:.3g} {letter}"
    return f"{value:.3g} "
