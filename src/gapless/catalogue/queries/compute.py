"""Queries on the computing of a run: its rows of work, and the roofline above them."""

from msgspec import Struct

from gapless.catalogue.declare.selectors import autocast_dtypes, torch_setting
from gapless.model.estimate import Estimate
from gapless.model.evidence import Evidence, NotObservedError
from gapless.model.facts import Facts
from gapless.model.work import Work
from gapless.roofline.attention import find_unfused
from gapless.roofline.peaks import device_peaks, processor_peaks
from gapless.roofline.roofline import Roof, narrow_peaks

_HALF_DTYPES = frozenset(("torch.bfloat16", "torch.float16"))
_SHORT_DTYPES = frozenset(("bf16", "fp16"))  # the same, as rows of work name them
_CAST = "busy.cast"
_MAX_UNKNOWN_SHARE = 0.05  # of the other work: of types that were not recorded


def roof_of(evidence: Evidence) -> Roof | None:
    """Return the peaks of what the run computed on; ``None`` if they are not known."""
    machine = evidence.facts.machine
    if evidence.on_device:
        peaks = device_peaks(evidence.constants, machine.capability, machine.device)
    else:
        peaks = processor_peaks(evidence.constants, machine.intra_op_threads)
    return None if peaks is None else Roof(narrow_peaks(peaks, evidence.study.work))


def count_host_events(evidence: Evidence) -> int:
    """Count the operators and calls that were traced in the windows."""
    return sum(operator.calls for operator in evidence.study.tables.operators)


def work_of(evidence: Evidence) -> tuple[Work, ...]:
    """Return what operators computed and moved in the windows. Raises ``NotObservedError``."""
    if not evidence.study.work:
        unobserved = "operators" if evidence.is_trace_only else "windows"
        raise NotObservedError(unobserved, "no window shows what operators computed")
    return evidence.study.work


def share_outside_attention(evidence: Evidence, *leaves: str) -> float:
    """Return the share of the kernels of some leaves that is not unfused attention.

    What attention writes and casts is another cause; 1.0 where inputs were not recorded.
    """
    rows = [row for row in evidence.study.work if row.leaf.startswith(leaves)]
    attention = find_unfused(evidence.study.work)
    total_ns = sum(row.ns for row in rows)
    if attention is None or not attention.flops or not total_ns:
        return 1.0
    attention_rows = set(map(id, attention.rows))
    return sum(row.ns for row in rows if id(row) not in attention_rows) / total_ns


class StoredCasts(Struct, frozen=True):
    """Casts to a type that nothing computes with, and back."""

    share: float  # of the time of all casts
    dtype: str = ""


def find_stored_casts(evidence: Evidence) -> StoredCasts:
    """Return how much of the casts only keep numbers in half precision, and make them wide again.

    None, where any operator computes in that (or too many do in what is not known), or several
    processes may send each other such numbers. Of each size as many casts count as go both ways.
    """
    rows = evidence.study.work
    casts, others = [
        [row for row in rows if (row.leaf == _CAST) is is_cast] for is_cast in (True, False)
    ]
    dtypes = {row.dtype for row in casts if row.dtype in _SHORT_DTYPES}
    unknown_ns = sum(row.ns for row in others if row.dtype is None)
    is_unknown = not others or unknown_ns > _MAX_UNKNOWN_SHARE * sum(row.ns for row in others)
    is_used = bool(dtypes & {row.dtype for row in others}) or evidence.facts.world.ranks > 1
    if len(dtypes) != 1 or is_used or is_unknown:
        return StoredCasts(0.0)
    (dtype,) = dtypes
    pairs: dict[str | None, tuple[list[Work], list[Work]]] = {}
    for row in casts:
        pairs.setdefault(row.inputs, ([], []))[row.dtype == dtype].append(row)
    stored_ns = sum(map(_both_ways_ns, pairs.values()))
    return StoredCasts(stored_ns / max(1, sum(row.ns for row in casts)), dtype or "")


def _both_ways_ns(ways: tuple[list[Work], list[Work]]) -> float:
    """Return the time of as many casts one way as the other."""
    counts = [sum(row.calls for row in rows) for rows in ways]
    return sum(
        min(counts) / n_calls * sum(row.ns for row in rows)
        for rows, n_calls in zip(ways, counts, strict=True)
        if n_calls
    )


def dilute_factor(factor: Estimate, changed_share: float) -> Estimate:
    """Return the factor of the total when only a share of it is scaled."""
    return Estimate(
        *(1 - changed_share * (1 - bound) for bound in (factor.low, factor.mid, factor.high))
    )


def window_share(evidence: Evidence, ns: float) -> float:
    """Return time in the windows as a share of their steps."""
    account = evidence.study.account
    return ns / account.wall_ns if account.wall_ns else 0.0


def ns_per_window_step(evidence: Evidence, ns: float) -> float:
    """Return time in the windows per step, in ns."""
    return ns / (evidence.study.account.steps or 1)


def uses_half_precision(facts: Facts) -> bool:
    """Return whether products run in half precision, by autocast or because the weights do."""
    return bool(autocast_dtypes(facts)) or any(
        model.dtype in _HALF_DTYPES for model in facts.models
    )


def rounds_products(facts: Facts) -> bool | None:
    """Return whether products in fp32 may be rounded to TF32; ``None``: not observed."""
    precision = torch_setting(facts, "matmul_precision")
    if facts.machine.environment.get("NVIDIA_TF32_OVERRIDE") == "0":
        return False
    if precision in {"high", "medium"} or torch_setting(facts, "allow_tf32_matmul"):
        return True
    return None if precision is None else False


def rounds_convolutions(facts: Facts) -> bool:
    """Return whether convolutions in fp32 may be rounded to TF32, as torch does by default."""
    if facts.machine.environment.get("NVIDIA_TF32_OVERRIDE") == "0":
        return False
    return torch_setting(facts, "allow_tf32_conv") is not False
