"""Compile the model."""

from gapless.catalogue.declare.fix import Case, Option, fix
from gapless.catalogue.declare.targets import MODULE
from gapless.catalogue.examples import example_facts
from gapless.model.edit import Applicability, Proposal, Wrap
from gapless.model.facts import Facts


@fix(
    "compile",
    cases=lambda: [
        Case(
            "A model that runs eagerly",
            example_facts.gpu(),
            "risky: ResNet is compiled (torch.compile)",
            edits=(Wrap(MODULE, "compile", {"mode": "default", "dynamic": None}),),
        ),
        Case(
            "Already so",
            example_facts.gpu(example_facts.model(compiled=True)),
            "nothing to change: ResNet is compiled already",
        ),
        Case(
            "nn.DataParallel",
            example_facts.gpu(example_facts.parallel_model("data_parallel")),
            "refused: nn.DataParallel copies the model in each step, which cannot be compiled",
        ),
        Case("No model", example_facts.bare_facts(), "refused: no model was seen"),
    ],
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
