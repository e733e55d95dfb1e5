"""Queries on the computing of a run: its rows of work, and the roofline above them."""

from gapless.catalogue.declare.selectors import autocast_dtypes, torch_setting
from gapless.model.estimate import Estimate
from gapless.model.evidence import Evidence, NotObservedError
from gapless.model.facts import Facts
from gapless.model.work import Work
from gapless.roofline.attention import find_unfused
from gapless.roofline.peaks import device_peaks, processor_peaks
from gapless.roofline.roofline import Roof, narrow_peaks

_HALF_DTYPES = frozenset(("torch.bfloat16", "torch.float16"))


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
