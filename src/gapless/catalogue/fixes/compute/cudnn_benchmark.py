"""Let cuDNN measure which kernels are fastest."""

from gapless.catalogue.declare.fix import Case, Option, fix
from gapless.catalogue.declare.selectors import deterministic_setting, torch_setting, uses_cuda
from gapless.catalogue.examples import example_facts
from gapless.model.edit import Applicability, Proposal, SetGlobal
from gapless.model.facts import Facts


@fix(
    "cudnn-benchmark",
    since="0.1",
    cases=lambda: [
        Case(
            "A network of convolutions",
            example_facts.gpu(),
            "equivalent: torch.backends.cudnn.benchmark False → True",
            edits=(SetGlobal("torch.backends.cudnn.benchmark", value=True),),
        ),
        Case(
            "Already so",
            example_facts.gpu(example_facts.precision(cudnn_benchmark=True)),
            "nothing to change: torch.backends.cudnn.benchmark is already True",
        ),
        Case(
            "Reproducible results are asked for",
            example_facts.gpu(example_facts.precision(cudnn_deterministic=True)),
            "refused: torch.backends.cudnn.deterministic = True asks for reproducible "
            "results; --override chooses kernels by time anyway",
        ),
        Case(
            "No convolutions",
            example_facts.gpu(example_facts.model(convolutions=0)),
            "nothing to change: no model has convolutions, which is what cuDNN would choose for",
        ),
        Case("No device", example_facts.cpu(), "refused: no CUDA device was used"),
    ],
)
def cudnn_benchmark(facts: Facts, option: Option) -> tuple[Proposal, ...]:
    """Let cuDNN try its kernels for each new shape, and use the fastest.

    ## Precondition
    A CUDA device and a model with convolutions, whose shapes do not change all the time: each new
    shape costs a search. Refused where reproducible results are asked for, unless ``--override``.

    ## Safety
    Equivalent: another kernel sums in another order, and the next run may choose yet another. A
    kernel may need more memory.
    """
    if not uses_cuda(facts):
        return (cudnn_benchmark.refusal("no CUDA device was used"),)
    if facts.models and all(model.convolutions == 0 for model in facts.models):
        reason = "no model has convolutions, which is what cuDNN would choose for"
        return (cudnn_benchmark.no_change(reason),)
    determinism = deterministic_setting(facts)
    if determinism is not None and not option.override:
        reason = f"{determinism} asks for reproducible results; --override chooses kernels by time"
        return (cudnn_benchmark.refusal(f"{reason} anyway"),)
    if torch_setting(facts, "cudnn_benchmark") is True:
        return (cudnn_benchmark.no_change("torch.backends.cudnn.benchmark is already True"),)
    return (
        cudnn_benchmark.proposal(
            "torch.backends.cudnn.benchmark False → True",
            SetGlobal("torch.backends.cudnn.benchmark", value=True),
            applicability=Applicability.EQUIVALENT,
            risk="sums are made in another order, which differs from run to run",
        ),
    )
