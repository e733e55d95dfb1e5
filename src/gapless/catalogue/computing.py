"""What rules and effects ask of the computing in a run: its rows of work, the roof above them."""

from gapless.catalogue.choosing import setting
from gapless.catalogue.fixes.bf16 import autocast
from gapless.catalogue.ruling import NotSeenError
from gapless.model.facts import Facts
from gapless.model.interval import Interval
from gapless.model.seen import Seen
from gapless.model.work import Work
from gapless.replay.attention import unfused
from gapless.replay.peaks import device_peaks, processor_peaks
from gapless.replay.roofline import Roof, proven

_HALVES = frozenset(("torch.bfloat16", "torch.float16"))


def roof_of(seen: Seen) -> Roof | None:
    """Give the peaks of what the run computed on; ``None`` where they are not known."""
    machine = None if seen.facts is None else seen.facts.machine
    if seen.on_device:
        capability = None if machine is None else machine.capability
        peaks = device_peaks(
            seen.constants, capability, None if machine is None else machine.device
        )
    else:
        threads = None if machine is None else machine.intra_op_threads
        peaks = processor_peaks(seen.constants, threads)
    return None if peaks is None else Roof(proven(peaks, seen.study.work))


def host_events(seen: Seen) -> int:
    """Count the operators and calls that were traced in the windows."""
    return sum(one.calls for one in seen.study.tables.operators)


def work_of(seen: Seen) -> tuple[Work, ...]:
    """Give what operators computed and moved in the windows. Raises ``NotSeenError``."""
    if not seen.study.work:
        what = "windows" if seen.study.recorded is not None else "operators"
        raise NotSeenError(what, "no window tells what operators computed")
    return seen.study.work


def beside_attention(seen: Seen, *leaves: str) -> float:
    """Give which share of some leaves' kernels is no part of attention that is not fused.

    What that writes and casts is another cause's; 1.0 where inputs were not recorded.
    """
    mine = [one for one in seen.study.work if one.leaf.startswith(leaves)]
    found = unfused(seen.study.work)
    whole = sum(one.ns for one in mine)
    if found is None or not found.flops or not whole:
        return 1.0
    inside = set(map(id, found.rows))
    return sum(one.ns for one in mine if id(one) not in inside) / whole


def part(factor: Interval, share: float) -> Interval:
    """Give the factor of a whole of which a share takes another time."""
    return Interval(*(1 - share * (1 - one) for one in (factor.low, factor.mid, factor.high)))


def share(seen: Seen, ns: float) -> float:
    """Give what time of the windows is of their steps."""
    account = seen.study.account
    return ns / account.wall_ns if account.wall_ns else 0.0


def per_step(seen: Seen, ns: float) -> float:
    """Give time of the windows as that of one step, in ns."""
    return ns / (seen.study.account.steps or 1)


def in_half(facts: Facts) -> bool:
    """Tell whether products run in half precision: by autocast, or since the weights are so."""
    return bool(autocast(facts)) or any(one.dtype in _HALVES for one in facts.models)


def rounds_products(facts: Facts) -> bool | None:
    """Tell whether products in fp32 may be rounded to TF32; ``None``: not observed."""
    precision = setting(facts, "matmul_precision")
    if facts.machine.environment.get("NVIDIA_TF32_OVERRIDE") == "0":
        return False
    if precision in {"high", "medium"} or setting(facts, "allow_tf32_matmul"):
        return True
    return None if precision is None else False


def rounds_convolutions(facts: Facts) -> bool:
    """Tell whether convolutions in fp32 may be rounded to TF32, as torch has it."""
    if facts.machine.environment.get("NVIDIA_TF32_OVERRIDE") == "0":
        return False
    return setting(facts, "allow_tf32_conv") is not False
