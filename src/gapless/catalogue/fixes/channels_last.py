"""Images with their channels last in memory."""

from gapless.catalogue import examples
from gapless.catalogue.declare import Case, Option, fix
from gapless.catalogue.targets import MODULE
from gapless.model.edit import Applicability, Proposal, Wrap
from gapless.model.facts import Facts


@fix(
    "channels-last",
    since="0.1",
    cases=[
        Case(
            "A network of 53 convolutions",
            examples.gpu(),
            "equivalent: ResNet and its images are laid out channels last",
            edits=(Wrap(MODULE, "channels-last"),),
        ),
        Case(
            "It is so already",
            examples.gpu(examples.model(channels_last=True)),
            "nothing to change: ResNet is laid out channels last already",
        ),
        Case(
            "No convolutions",
            examples.gpu(examples.model(convolutions=0, channels_last=None)),
            "refused: no model has weights of four dimensions, so there is nothing to lay out",
        ),
        Case("No model", examples.bare_facts(), "refused: no model was seen"),
    ],
)
def channels_last(facts: Facts, _option: Option) -> tuple[Proposal, ...]:
    """Lay the model's weights and its images out with channels last, as tensor cores want them.

    ## Precondition
    A model with convolutions (weights of four dimensions).

    ## Safety
    Equivalent: another kernel sums in another order. Code that calls ``.view()`` on images between
    layers fails, where ``.reshape()`` would not.
    """
    if not facts.models:
        return (channels_last.refusal("no model was seen"),)
    candidates = [model for model in facts.models if model.convolutions != 0]
    if not candidates:
        reason = "no model has weights of four dimensions, so there is nothing to lay out"
        return (channels_last.refusal(reason),)
    channels_first = [model for model in candidates if not model.channels_last]
    names = ", ".join(dict.fromkeys(model.name.rpartition(".")[2] for model in channels_first or candidates))
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
