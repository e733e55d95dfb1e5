"""Another implementation of attention."""

from typing import Final

from gapless.catalogue.declare.fix import Changes, Option, fix
from gapless.catalogue.declare.selectors import autocast_dtypes, torch_setting, uses_cuda
from gapless.catalogue.effects.kernels import kernel_effect
from gapless.catalogue.queries.compute import roof_of
from gapless.errors import UsageError
from gapless.model.edit import Applicability, Proposal, Wrap
from gapless.model.evidence import Evidence
from gapless.model.facts import Facts
from gapless.roofline.attention import find_unfused, fusion_changes

_TARGET: Final = "torch.nn.functional.scaled_dot_product_attention"
_BACKENDS: Final = ("flash", "efficient", "cudnn", "math")
_MATH_OPERATOR: Final = "_scaled_dot_product_attention_math"  # the fallback
_AMPERE: Final = (8, 0)
_HALF_DTYPES: Final = frozenset(("torch.float16", "torch.bfloat16"))


@kernel_effect
def _predict_changes(evidence: Evidence, proposal: Proposal) -> Changes | None:
    """Return what leaving the fallback changes; which fused kernel is best has to be tried."""
    uses_fallback = any(
        _MATH_OPERATOR in operator.name for operator in evidence.study.tables.operators
    )
    attention = find_unfused(evidence.study.work) if uses_fallback else None
    has_no_flash = torch_setting(evidence.facts, "flash_sdp") is False
    backends = {edit.options.get("backend") for edit in proposal.edits if isinstance(edit, Wrap)}
    if attention is None or has_no_flash or "math" in backends:
        return None
    return fusion_changes(evidence.study.work, attention, roof_of(evidence))


@fix(
    "sdpa",
    effect=_predict_changes,
    value="BACKEND",
    cases="""
    # Mixed precision
    > equivalent: scaled_dot_product_attention uses flash
    gpu(precision(autocast={"cuda": "torch.bfloat16"}))
    Wrap(_TARGET, "sdpa", {"backend": "flash"})
    # fp32
    > equivalent: scaled_dot_product_attention uses efficient
    gpu()
    # Flash is asked for in fp32
    > refused: flash needs float16 or bfloat16, and neither was seen: bf16 first
    gpu(), Option(value="flash")
    # An older device
    > refused: flash needs compute capability 8.0, and Tesla T4 has 7.5
    gpu(machine(capability=(7, 5), device="Tesla T4")), Option(value="flash")
    # No device
    > refused: no CUDA device was used
    cpu()
    """,
)
def sdpa(facts: Facts, option: Option) -> tuple[Proposal, ...]:
    """Let ``scaled_dot_product_attention`` use one backend: flash, efficient, cudnn or math.

    Without a value: flash if tensors are in half precision, else efficient. A call that the
    backend does not support is left to torch's choice.

    ## Precondition
    A CUDA device, and a model that calls ``scaled_dot_product_attention``. Flash needs float16 or
    bfloat16, and compute capability 8.0.

    ## Safety
    Equivalent: the same formula, summed in another order. Dropout draws other numbers.
    """
    if not uses_cuda(facts):
        return (sdpa.refusal("no CUDA device was used"),)
    is_half = bool(autocast_dtypes(facts)) or any(
        model.dtype in _HALF_DTYPES for model in facts.models
    )
    default_backend = "flash" if is_half and _has_flash(facts) else "efficient"
    backend = option.value or default_backend
    if backend not in _BACKENDS:
        raise UsageError(f"sdpa={backend}: there are {', '.join(_BACKENDS)}")
    if backend == "flash" and not _has_flash(facts):
        capability_text = ".".join(map(str, facts.machine.capability or ()))
        reason = (
            f"flash needs compute capability 8.0, and {facts.machine.device} has {capability_text}"
        )
        return (sdpa.refusal(reason),)
    if backend == "flash" and facts.models and not is_half:
        reason = "flash needs float16 or bfloat16, and neither was seen: bf16 first"
        return (sdpa.refusal(reason),)
    return (
        sdpa.proposal(
            f"scaled_dot_product_attention uses {backend}",
            Wrap(_TARGET, "sdpa", {"backend": backend}),
            applicability=Applicability.EQUIVALENT,
            risk="sums are made in another order; dropout draws other numbers",
        ),
    )


def _has_flash(facts: Facts) -> bool:
    return facts.machine.capability is None or facts.machine.capability >= _AMPERE
