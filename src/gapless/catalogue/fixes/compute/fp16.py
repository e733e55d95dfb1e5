"""Mixed precision in fp16, with a gradient scaler."""

from gapless.catalogue.declare.fix import Changes, Option, fix
from gapless.catalogue.declare.selectors import torch_setting, uses_cuda
from gapless.catalogue.declare.targets import MODULE, OPTIMIZER
from gapless.catalogue.effects.kernels import kernel_effect
from gapless.catalogue.fixes.compute.bf16 import describe_use, refuse_autocast
from gapless.catalogue.queries.compute import count_host_events, roof_of
from gapless.model.edit import Applicability, Proposal, Wrap
from gapless.model.evidence import Evidence
from gapless.model.facts import Facts
from gapless.roofline import formats


@kernel_effect
def _predict_changes(evidence: Evidence, _proposal: Proposal) -> Changes | None:
    """Return how long products take in fp16, for replay."""
    if not evidence.on_device:
        return None
    return formats.half_changes(
        evidence.study.work, roof_of(evidence), "fp16", count_host_events(evidence)
    )


@fix(
    "fp16",
    effect=_predict_changes,
    cases="""
    # A model in fp32
    > risky: the model's forward runs under autocast in float16, with a gradient scaler
    gpu(), Wrap(MODULE, "autocast", {"dtype": "float16"}), Wrap(OPTIMIZER, "grad-scaler")
    # Already so
    > nothing to change: autocast in float16 is in use already
    gpu(precision(autocast={"cuda": "torch.float16"}, scaler=True))
    # bf16 is in use
    > refused: autocast in bfloat16 was chosen; --override tries float16 instead
    gpu(precision(autocast={"cuda": "torch.bfloat16"}))
    # No device
    > refused: no CUDA device was used: bf16 is for CPUs
    cpu()
    """,
)
def fp16(facts: Facts, option: Option) -> tuple[Proposal, ...]:
    """Let the model's forward run under autocast in float16, and scale the loss.

    For devices without bfloat16. The loss is scaled up, gradients are scaled down before the step,
    and steps with infinite gradients are skipped.

    ## Precondition
    A CUDA device, and a model with fp32 parameters. Refused where another precision was chosen,
    unless ``--override``.

    ## Safety
    Risky: numbers beyond 65,504 overflow and small ones vanish; the scaler skips steps. A loop that
    clips gradients must see them unscaled.
    """
    if not uses_cuda(facts):
        return (fp16.refusal("no CUDA device was used: bf16 is for CPUs"),)
    reason = refuse_autocast(facts, option, "float16")
    if reason is not None:
        return (fp16.refusal(reason),)
    already = describe_use(facts, "float16")
    if already is not None:
        return (fp16.no_change(already),)
    autocast_edit = Wrap(MODULE, "autocast", {"dtype": "float16"})
    scaler_edits = () if torch_setting(facts, "scaler") else (Wrap(OPTIMIZER, "grad-scaler"),)
    return (
        fp16.proposal(
            "the model's forward runs under autocast in float16, with a gradient scaler",
            autocast_edit,
            *scaler_edits,
            applicability=Applicability.RISKY,
            risk="matrix products and convolutions have 11 bits of mantissa and may overflow",
        ),
    )
