"""Images with their channels last in memory."""

from gapless.catalogue.declare.fix import Changes, Option, fix
from gapless.catalogue.declare.targets import MODULE
from gapless.catalogue.effects.kernels import kernel_effect
from gapless.catalogue.queries.compute import roof_of, rounds_convolutions, uses_half_precision
from gapless.model.edit import Applicability, Proposal, Wrap
from gapless.model.evidence import Evidence
from gapless.model.facts import Facts
from gapless.roofline import formats


@kernel_effect
def _predict_changes(evidence: Evidence, _proposal: Proposal) -> Changes | None:
    """Return how long convolutions take with channels last, for replay."""
    if not evidence.on_device:
        return None
    return formats.channels_last_changes(
        evidence.study.work,
        roof_of(evidence),
        half=uses_half_precision(evidence.facts),
        tf32=rounds_convolutions(evidence.facts),
    )


@fix(
    "channels-last",
    effect=_predict_changes,
    cases="""
    # A network of 53 convolutions
    > equivalent: ResNet and its images are laid out channels last
    gpu(), Wrap(MODULE, "channels-last")
    # Already so
    > nothing to change: ResNet is laid out channels last already
    gpu(model(channels_last=True))
    # No convolutions
    > refused: no model has weights of four dimensions, so there is nothing to lay out
    gpu(model(convolutions=0, channels_last=None))
    # No model
    > refused: no model was seen
    bare_facts()
    """,
)
def channels_last(facts: Facts, _option: Option) -> tuple[Proposal, ...]:
    """Lay the model's weights and images out with channels last, as tensor cores need them.

    ## Precondition
    A model with convolutions (weights of four dimensions).

    ## Safety
    Equivalent: other kernels sum in another order. Code that calls ``.view()`` on images between
    layers fails, where ``.reshape()`` would not.
    """
    if not facts.models:
        return (channels_last.refusal("no model was seen"),)
    candidates = [model for model in facts.models if model.convolutions != 0]
    if not candidates:
        reason = "no model has weights of four dimensions, so there is nothing to lay out"
        return (channels_last.refusal(reason),)
    channels_first = [model for model in candidates if not model.channels_last]
    names = ", ".join(
        dict.fromkeys(model.name.rpartition(".")[2] for model in channels_first or candidates)
    )
    if not channels_first:
        return (channels_last.no_change(f"{names} is laid out channels last already"),)
    return (
        channels_last.proposal(
            f"{names} and its images are laid out channels last",
            Wrap(MODULE, "channels-last"),
            applicability=Applicability.EQUIVALENT,
            risk="sums are made in another order; .view() between layers may fail",
        ),
    )
