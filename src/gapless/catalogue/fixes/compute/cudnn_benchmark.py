"""Let cuDNN measure which kernels are fastest."""

from collections.abc import Sequence
from typing import Final

from gapless.catalogue.declare.fix import Changes, Option, fix
from gapless.catalogue.declare.selectors import deterministic_setting, torch_setting, uses_cuda
from gapless.catalogue.effects.kernels import kernel_effect
from gapless.model.edit import Applicability, Proposal, SetGlobal
from gapless.model.estimate import Estimate
from gapless.model.facts import Facts
from gapless.model.work import Work
from gapless.roofline.roofline import MATH, NO_CHANGE, kind_of, scale_changes

_BENCHMARK_FACTOR: Final = Estimate(
    0.8, 0.97, 1.01
)  # of convolutions: measured, not chosen by a table


@fix(
    "cudnn-benchmark",
    effect=kernel_effect(lambda evidence, _proposal: choose_by_time(evidence.study.work)),
    cases="""
    # A network of convolutions
    > equivalent: torch.backends.cudnn.benchmark False → True
    gpu(), SetGlobal("torch.backends.cudnn.benchmark", value=True)
    # Already so
    > nothing to change: torch.backends.cudnn.benchmark is already True
    gpu(precision(cudnn_benchmark=True))
    # Reproducible results are asked for
    > refused: torch.backends.cudnn.deterministic = True asks for reproducible results; --override
      chooses kernels by time anyway
    gpu(precision(cudnn_deterministic=True))
    # No convolutions
    > nothing to change: no model has convolutions, which is what cuDNN would choose for
    gpu(model(convolutions=0))
    # No device
    > refused: no CUDA device was used
    cpu()
    """,
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


def choose_by_time(rows: Sequence[Work]) -> Changes:
    """Return what changes if kernels of convolutions are chosen by their time."""

    def factor(work: Work) -> Estimate:
        return (
            _BENCHMARK_FACTOR if work.leaf in MATH and kind_of(work) == "convolution" else NO_CHANGE
        )

    return scale_changes(rows, factor)
