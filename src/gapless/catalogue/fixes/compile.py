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
            examples.gpu(examples.parallel_model("data_parallel")),
            "refused: nn.DataParallel copies the model in each step, which cannot be compiled",
        ),
        Case("No model", examples.bare_facts(), "refused: no model was seen"),
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
    reason = find_obstacle(facts)
    if reason is not None:
        return (compiled.refusal(reason),)
    model_names = name_models(facts)
    if all(model.compiled for model in facts.models):
        return (compiled.no_change(f"{model_names} is compiled already"),)
    return (
        compiled.proposal(
            f"{model_names} is compiled (torch.compile)",
            Wrap(MODULE, "compile", {"mode": "default", "dynamic": None}),
            applicability=Applicability.RISKY,
            risk="sums are made in another order; the start takes longer",
        ),
    )


def find_obstacle(facts: Facts) -> str | None:
    """Return why the model cannot be compiled; ``None``: nothing is known against it."""
    if not facts.models:
        return "no model was seen"
    if any(module.kind == "data_parallel" for module in facts.parallel):
        return "nn.DataParallel copies the model in each step, which cannot be compiled"
    return None


def name_models(facts: Facts) -> str:
    """Name the models."""
    return ", ".join(dict.fromkeys(model.name.rpartition(".")[2] for model in facts.models))
