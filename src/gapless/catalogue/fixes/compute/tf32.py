"""Tensor cores for fp32 matrix products."""

from typing import Final

from gapless.catalogue.declare.fix import Changes, Option, fix
from gapless.catalogue.declare.selectors import torch_setting, uses_cuda
from gapless.catalogue.effects.kernels import kernel_effect
from gapless.catalogue.queries.compute import roof_of
from gapless.model.edit import Applicability, Edit, Proposal, SetEnv, SetGlobal
from gapless.model.evidence import Evidence
from gapless.model.facts import Facts
from gapless.roofline import formats

_AMPERE: Final = (8, 0)
_ENV: Final = "NVIDIA_TF32_OVERRIDE"
_CONVOLUTIONS: Final = "torch.backends.cudnn.allow_tf32"


@kernel_effect
def _predict_changes(evidence: Evidence, proposal: Proposal) -> Changes | None:
    """Return how long products take in TF32, for replay; on processors that depends on them."""
    if not evidence.on_device:
        return None
    targets = {edit.target for edit in proposal.edits if isinstance(edit, SetGlobal)}
    convolutions = _CONVOLUTIONS in targets
    return formats.tf32_changes(evidence.study.work, roof_of(evidence), convolutions=convolutions)


@fix(
    "tf32",
    effect=_predict_changes,
    cases="""
    # fp32, torch's default
    > risky: fp32 matrix products are rounded to TF32 (matmul precision highest → high)
    gpu(), SetGlobal("torch.set_float32_matmul_precision", "high")
    # Convolutions too
    > risky: fp32 matrix products are rounded to TF32 (matmul precision highest → high), and
      convolutions
    gpu(precision(allow_tf32_conv=False)), SetGlobal("torch.set_float32_matmul_precision", "high")
    SetGlobal("torch.backends.cudnn.allow_tf32", value=True)
    # Already so
    > nothing to change: fp32 matrix products may be rounded to TF32 already
    gpu(precision(matmul_precision="high", allow_tf32_matmul=True))
    # An older device
    > refused: Tesla V100 has no TF32: it came with compute capability 8.0, and this is 7.0
    gpu(machine(capability=(7, 0), device="Tesla V100"))
    # No device
    > refused: no CUDA device was used
    cpu()
    # Weights in bf16
    > nothing to change: no model has fp32 parameters
    gpu(model(dtype="torch.bfloat16"))
    # TF32 is forbidden
    > refused: NVIDIA_TF32_OVERRIDE=0 is set; --override unsets it
    gpu(machine(environment={_ENV: "0"}))
    # TF32 is forbidden, and that may be changed
    > risky: fp32 matrix products are rounded to TF32 (matmul precision highest → high)
    gpu(machine(environment={_ENV: "0"})), Option(override=True)
    SetGlobal("torch.set_float32_matmul_precision", "high"), SetEnv(_ENV, None)
    """,
)
def tf32(facts: Facts, option: Option) -> tuple[Proposal, ...]:
    """Let tensor cores compute fp32 matrix products, rounded to TF32.

    ## Precondition
    A CUDA device of compute capability 8.0 or higher, and a model with fp32 parameters.

    ## Safety
    Risky: factors are rounded to 10 bits of mantissa instead of 23; sums stay fp32. Most trainings
    are not affected; code that inverts matrices or solves equations may be. Losses are compared.
    """
    reason = _find_obstacle(facts, option)
    if reason is not None:
        return (tf32.refusal(reason),)
    if facts.models and not any(_is_fp32(model.dtype) for model in facts.models):
        return (tf32.no_change("no model has fp32 parameters"),)
    edits: list[Edit] = []
    summaries = list[str]()
    if torch_setting(facts, "matmul_precision") not in {"high", "medium"}:
        old_precision = torch_setting(facts, "matmul_precision") or "?"
        summaries.append(
            f"fp32 matrix products are rounded to TF32 (matmul precision {old_precision} → high)"
        )
        edits.append(SetGlobal("torch.set_float32_matmul_precision", "high"))
    if torch_setting(facts, "allow_tf32_conv") is False:
        summaries.append("and convolutions" if summaries else "convolutions are rounded to TF32")
        edits.append(SetGlobal("torch.backends.cudnn.allow_tf32", value=True))
    if not edits:
        return (tf32.no_change("fp32 matrix products may be rounded to TF32 already"),)
    if _ENV in facts.machine.environment:
        edits.append(SetEnv(_ENV, None))
    return (
        tf32.proposal(
            ", ".join(summaries),
            *edits,
            applicability=Applicability.RISKY,
            risk="factors are rounded to 10 bits of mantissa",
        ),
    )


def _find_obstacle(facts: Facts, option: Option) -> str | None:
    capability = facts.machine.capability
    if not uses_cuda(facts):
        return "no CUDA device was used"
    if capability is not None and capability < _AMPERE:
        device = facts.machine.device
        return (
            f"{device} has no TF32: it came with compute capability 8.0, and this is "
            f"{capability[0]}.{capability[1]}"
        )
    if facts.machine.environment.get(_ENV) == "0" and not option.override:
        return f"{_ENV}=0 is set; --override unsets it"
    return None


def _is_fp32(dtype: str | None) -> bool:
    return dtype in {None, "torch.float32"}
