"""Compile the model."""

from gapless.catalogue import examples
from gapless.catalogue.declare import Case, Option, fix
from gapless.catalogue.targets import MODULE
from gapless.model.edit import Applicability, Proposal, Wrap
from gapless.model.facts import Facts


@fix(
    "compile",
    since="0.1",
    cases=[
        Case(
            "A model that runs eagerly",
            examples.gpu(),
            "risky: ResNet is compiled (torch.compile)",
            edits=(Wrap(MODULE, "compile", {"mode": "default", "dynamic": None}),),
        ),
        Case(
            "It is so already",
            examples.gpu(examples.model(compiled=True)),
            "nothing to change: ResNet is compiled already",
        ),
        Case(
            "nn.DataParallel",
            examples.gpu(examples.spread("data_parallel")),
            "refused: nn.DataParallel copies the model in each step, which cannot be compiled",
        ),
        Case("No model", examples.bare(), "refused: no model was seen"),
    ],
)
def compiled(facts: Facts, _option: Option) -> tuple[Proposal, ...]:
    """Compile the model's forward and backward (``torch.compile``).

    ## Precondition
    A model that is not compiled yet, and a compiler on the machine (for a GPU: Triton).

    ## Safety
    Risky: kernels are fused, so sums are made in another order; random numbers of dropout may be
    others. Shapes that change are compiled anew, and the first steps take long: a trial counts the
    start of a job too.
    """
    why = uncompilable(facts)
    if why is not None:
        return (compiled.refusal(why),)
    names = models(facts)
    if all(one.compiled for one in facts.models):
        return (compiled.nothing(f"{names} is compiled already"),)
    return (
        compiled.proposal(
            f"{names} is compiled (torch.compile)",
            Wrap(MODULE, "compile", {"mode": "default", "dynamic": None}),
            applicability=Applicability.RISKY,
            risk="sums are made in another order; the start takes longer",
        ),
    )


def uncompilable(facts: Facts) -> str | None:
    """Give why the model cannot be compiled; ``None``: nothing is known against it."""
    if not facts.models:
        return "no model was seen"
    if any(one.kind == "data_parallel" for one in facts.parallel):
        return "nn.DataParallel copies the model in each step, which cannot be compiled"
    return None


def models(facts: Facts) -> str:
    """Name the models."""
    return ", ".join(dict.fromkeys(one.name.rpartition(".")[2] for one in facts.models))
