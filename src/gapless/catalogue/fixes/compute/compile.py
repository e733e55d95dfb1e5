"""Compile the model."""

from gapless.catalogue.declare.fix import Option, fix
from gapless.catalogue.declare.targets import MODULE
from gapless.model.edit import Applicability, Proposal, Wrap
from gapless.model.facts import Facts


@fix(
    "compile",
    cases="""
    # A model that runs eagerly
    > risky: ResNet is compiled (torch.compile)
    gpu(), Wrap(MODULE, "compile", {"mode": "default", "dynamic": None})
    # Already so
    > nothing to change: ResNet is compiled already
    gpu(model(compiled=True))
    # nn.DataParallel
    > refused: nn.DataParallel copies the model in each step, which cannot be compiled
    gpu(parallel_model("data_parallel"))
    # No model
    > refused: no model was seen
    bare_facts()
    """,
)
def compiled(facts: Facts, _option: Option) -> tuple[Proposal, ...]:
    """Compile the model's forward and backward (``torch.compile``).

    ## Precondition
    A model that is not compiled yet, and a compiler on the machine (for a GPU: Triton).

    ## Safety
    Risky: kernels are fused, so sums are made in another order; dropout may draw other random
    numbers. Shapes that change are compiled again, and the first steps take long: a trial also
    counts the start of a job.
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
    """Return why the model cannot be compiled; ``None`` if no reason is known."""
    if not facts.models:
        return "no model was seen"
    if any(module.kind == "data_parallel" for module in facts.parallel):
        return "nn.DataParallel copies the model in each step, which cannot be compiled"
    return None


def name_models(facts: Facts) -> str:
    """Return the names of the models, joined."""
    return ", ".join(dict.fromkeys(model.name.rpartition(".")[2] for model in facts.models))
