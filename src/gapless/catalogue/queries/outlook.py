"""How close a run is to what its machine can do: the most that kernels can still gain."""

from collections.abc import Sequence
from typing import Final

from gapless.catalogue.queries.compute import roof_of
from gapless.catalogue.queries.input.loaders import percent
from gapless.model.evidence import Evidence
from gapless.model.machine import Constants
from gapless.model.work import Work
from gapless.roofline.roofline import MATH, Roof

_MIN_KNOWN_SHARE: Final = 0.5  # of the busy time, with known inputs and a formula
_MIN_KIND_SHARE: Final = 0.1  # of the known time: a smaller kind is left out
_UNITS: Final = ((1e12, "T"), (1e9, "G"))


def describe_outlook(evidence: Evidence, constants: Constants | None = None) -> str | None:
    """Return a sentence on how close a run's kernels come to the peaks of its device or processors.

    ``None`` if inputs were not recorded, or the peaks are not known. ``constants``: those of the
    machine, if the evidence has none.
    """
    if constants is not None and evidence.constants is None:
        evidence = Evidence(evidence.study, evidence.facts, constants)
    roof = roof_of(evidence)
    bounded_rows = (
        [] if roof is None else [row for row in evidence.study.work if _bound_ns(row, roof)]
    )
    spent_ns, busy_ns = sum(row.ns for row in bounded_rows), evidence.study.account.busy_ns()
    if roof is None or not spent_ns or spent_ns < _MIN_KNOWN_SHARE * busy_ns:
        return None
    share = min(1.0, sum(_bound_ns(row, roof) or 0.0 for row in bounded_rows) / spent_ns)
    phrases = [
        phrase
        for phrase in (
            *_describe_products(bounded_rows, spent_ns, roof),
            _describe_memory(bounded_rows, spent_ns, roof),
        )
        if phrase
    ]
    details = f" ({'; '.join(phrases)})" if phrases else ""
    peak_source = (
        "measured at another time" if roof.peaks.measured else "far as its generation tells"
    )
    source_words = f", as {peak_source}"
    return f"its kernels come to {percent(share)} of what the machine can do{source_words}{details}"


def _describe_products(rows: Sequence[Work], spent_ns: int, roof: Roof) -> list[str]:
    """Return how fast products are, for each format that matters."""
    phrases: list[str] = []
    for dtype, peak in roof.peaks.flops.items():
        dtype_rows = [row for row in rows if row.leaf in MATH and _compute_dtype(row) == dtype]
        ns = sum(row.ns for row in dtype_rows)
        if ns >= _MIN_KIND_SHARE * spent_ns:
            rate = sum(row.flops or 0.0 for row in dtype_rows) / ns * 1e9
            phrases.append(
                f"products in {dtype} at {percent(rate / peak)} of {_format_rate(peak)}FLOP/s"
            )
    return phrases


def _describe_memory(rows: Sequence[Work], spent_ns: int, roof: Roof) -> str | None:
    memory_rows = [row for row in rows if row.leaf not in MATH]
    ns = sum(row.ns for row in memory_rows)
    if ns < _MIN_KIND_SHARE * spent_ns:
        return None
    rate = sum(row.bytes or 0.0 for row in memory_rows) / ns * 1e9
    peak = roof.peaks.bandwidth
    return f"the others at {percent(min(1.0, rate / peak))} of {_format_rate(peak)}B/s"


def _bound_ns(work: Work, roof: Roof) -> float | None:
    dtype = _compute_dtype(work)
    return None if dtype is None else roof.bound_ns(work, dtype)


def _compute_dtype(work: Work) -> str | None:
    """Return the format that a row computes in; fp32 on tensor cores is TF32."""
    if work.dtype == "fp32" and work.leaf == "busy.tc_math" and "attention" not in work.operator:
        return "tf32"
    return work.dtype


def _format_rate(value: float) -> str:
    for unit, letter in _UNITS:
        if value >= unit:
            return f"{value / unit:.3g} {letter}"
    return f"{value:.3g} "
