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
        Case("No model", examples.bare(), "refused: no model was seen"),
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
    able = [one for one in facts.models if one.convolutions != 0]
    if not able:
        why = "no model has weights of four dimensions, so there is nothing to lay out"
        return (channels_last.refusal(why),)
    lacking = [one for one in able if not one.channels_last]
    names = ", ".join(dict.fromkeys(one.name.rpartition(".")[2] for one in lacking or able))
    if not lacking:
        return (channels_last.nothing(f"{names} is laid out channels last already"),)
    return (
        channels_last.proposal(
            f"{names} and its images are laid out channels last",
            Wrap(MODULE, "channels-last"),
            applicability=Applicability.EQUIVALENT,
            risk="sums are made in another order; .view() between layers may fail",
        ),
    )
