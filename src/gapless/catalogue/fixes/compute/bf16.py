"""Mixed precision in bf16."""

from typing import Final

from gapless.catalogue.declare.fix import Changes, Option, fix
from gapless.catalogue.declare.selectors import autocast_dtypes, uses_cuda
from gapless.catalogue.declare.targets import MODULE
from gapless.catalogue.effects.kernels import kernel_effect
from gapless.catalogue.queries.compute import count_host_events, roof_of
from gapless.model.edit import Applicability, Proposal, Wrap
from gapless.model.evidence import Evidence
from gapless.model.facts import Facts
from gapless.roofline import formats

_AMPERE: Final = (8, 0)


@kernel_effect
def _predict_changes(evidence: Evidence, _proposal: Proposal) -> Changes | None:
    """Return how long products take in bf16, for replay; a processor may not have it."""
    roof = roof_of(evidence)
    if not evidence.on_device and (roof is None or "bf16" not in roof.peaks.flops):
        return None
    return formats.half_changes(evidence.study.work, roof, "bf16", count_host_events(evidence))


@fix(
    "bf16",
    effect=_predict_changes,
    cases="""
    # A model in fp32
    > risky: the model's forward runs under autocast in bfloat16
    gpu(), Wrap(MODULE, "autocast", {"dtype": "bfloat16"})
    # The same on a CPU
    > risky: the model's forward runs under autocast in bfloat16
    cpu()
    # Already so
    > nothing to change: autocast in bfloat16 is in use already
    gpu(precision(autocast={"cuda": "torch.bfloat16"}))
    # fp16 with a scaler
    > refused: autocast in float16 was chosen; --override tries bfloat16 instead
    gpu(precision(autocast={"cuda": "torch.float16"}, scaler=True))
    # Weights in fp64
    > refused: parameters in float64 are a choice of precision; --override tries bfloat16
    gpu(model(dtype="torch.float64"))
    # Weights in bf16
    > nothing to change: the parameters are in bfloat16 already
    gpu(model(dtype="torch.bfloat16"))
    # An older device
    > refused: Tesla T4 computes bfloat16 in software: compute capability 8.0 is needed, and this is
      7.5; try fp16
    gpu(machine(capability=(7, 5), device="Tesla T4"))
    # Processors without instructions for it
    > refused: these processors have no instructions for bfloat16: torch would turn each number into
      fp32 and back; --override tries it anyway
    cpu(machine(cpus=2, device=None, bf16=False))
    # No model
    > refused: no model was seen
    bare_facts()
    # fp16 with a scaler, which may be changed
    > risky: the model's forward runs under autocast in bfloat16
    gpu(precision(autocast={"cuda": "torch.float16"}, scaler=True)), Option(override=True)
    """,
)
def bf16(facts: Facts, option: Option) -> tuple[Proposal, ...]:
    """Let the model's forward run under autocast in bfloat16.

    Matrix products and convolutions run in bfloat16 on tensor cores; parameters, their gradients
    and the optimizer stay fp32.

    ## Precondition
    A model with fp32 parameters; on a GPU compute capability 8.0, on processors instructions that
    oneDNN takes for bfloat16. Refused where another precision was chosen (autocast in float16,
    parameters in float64), or where those instructions are missing, unless ``--override``.

    ## Safety
    Risky: 8 bits of mantissa instead of 24. The exponent is as long as that of fp32, so gradients
    do not vanish and no scaler is needed. Losses are compared over some steps, which is no proof
    that the training converges as before.
    """
    reason = refuse_autocast(facts, option, "bfloat16") or (
        None if option.override else _find_emulation(facts)
    )
    capability = facts.machine.capability
    if reason is None and uses_cuda(facts) and capability is not None and capability < _AMPERE:
        reason = (
            f"{facts.machine.device} computes bfloat16 in software: compute capability 8.0 is "
            f"needed, and this is {capability[0]}.{capability[1]}; try fp16"
        )
    if reason is not None:
        return (bf16.refusal(reason),)
    already = describe_use(facts, "bfloat16")
    if already is not None:
        return (bf16.no_change(already),)
    return (
        bf16.proposal(
            "the model's forward runs under autocast in bfloat16",
            Wrap(MODULE, "autocast", {"dtype": "bfloat16"}),
            applicability=Applicability.RISKY,
            risk="matrix products and convolutions have 8 bits of mantissa",
        ),
    )


def _find_emulation(facts: Facts) -> str | None:
    if uses_cuda(facts) or facts.machine.bf16 is not False:
        return None
    return (
        "these processors have no instructions for bfloat16: torch would turn each number into "
        "fp32 and back; --override tries it anyway"
    )


def refuse_autocast(facts: Facts, option: Option, dtype: str) -> str | None:
    """Return why autocast to this type must not be used; ``None`` if no reason is known."""
    if not facts.models:
        return "no model was seen"
    if option.override:
        return None
    other_dtype = next((name for name in autocast_dtypes(facts) if name != dtype), None)
    if other_dtype is not None:
        return f"autocast in {other_dtype} was chosen; --override tries {dtype} instead"
    if any(model.dtype == "torch.float64" for model in facts.models):
        return f"parameters in float64 are a choice of precision; --override tries {dtype}"
    return None


def describe_use(facts: Facts, dtype: str) -> str | None:
    """Return a sentence that the type is in use already; ``None`` if it is not."""
    if dtype in autocast_dtypes(facts):
        return f"autocast in {dtype} is in use already"
    if all(model.dtype == f"torch.{dtype}" for model in facts.models):
        return f"the parameters are in {dtype} already"
    return None
