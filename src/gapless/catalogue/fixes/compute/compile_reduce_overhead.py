"""Compile the model, and capture it into CUDA graphs."""

from typing import Final

from gapless.catalogue.declare.fix import Option, fix
from gapless.catalogue.declare.selectors import is_model_on_cuda, uses_cuda
from gapless.catalogue.declare.targets import MODULE
from gapless.catalogue.fixes.compute.compile import find_obstacle, name_models
from gapless.model.edit import Applicability, Proposal, Wrap
from gapless.model.facts import Facts

_OPTIONS: Final = {"mode": "reduce-overhead", "dynamic": None}


@fix(
    "compile-reduce-overhead",
    cases="""
    # A model that runs eagerly
    > risky: ResNet is compiled and captured into CUDA graphs
    gpu(), Wrap(MODULE, "compile", _OPTIONS)
    # No device
    > refused: no CUDA device was used, and CUDA graphs cannot hold what runs on the CPU
    cpu()
    # A model that is partly on the CPU
    > refused: ResNet has its parameters on the CPU, and CUDA graphs cannot hold what runs there
    gpu(model(device="cpu"))
    # nn.DataParallel
    > refused: nn.DataParallel copies the model in each step, which cannot be compiled
    gpu(parallel_model("data_parallel"))
    """,
)
def compile_reduce_overhead(facts: Facts, _option: Option) -> tuple[Proposal, ...]:
    """Compile the model and replay it as CUDA graphs (``mode="reduce-overhead"``).

    One launch replaces hundreds, where the host is too slow to keep the device busy.

    ## Precondition
    A model whose tensors are all on a CUDA device: a graph cannot hold what runs on the CPU.

    ## Safety
    Risky, as ``compile``; and graphs hold memory of their own, outputs are overwritten by the next
    replay, and shapes that change are captured again.
    """
    if not uses_cuda(facts):
        reason = "no CUDA device was used, and CUDA graphs cannot hold what runs on the CPU"
        return (compile_reduce_overhead.refusal(reason),)
    reason = find_obstacle(facts)
    if reason is not None:
        return (compile_reduce_overhead.refusal(reason),)
    cpu_model = next(
        (model for model in facts.models if model.device and not is_model_on_cuda(model)), None
    )
    if cpu_model is not None:
        name = cpu_model.name.rpartition(".")[2]
        reason = (
            f"{name} has its parameters on the CPU, and CUDA graphs cannot hold what runs there"
        )
        return (compile_reduce_overhead.refusal(reason),)
    return (
        compile_reduce_overhead.proposal(
            f"{name_models(facts)} is compiled and captured into CUDA graphs",
            Wrap(MODULE, "compile", _OPTIONS),
            applicability=Applicability.RISKY,
            risk="outputs are overwritten by the next step; more memory; the start takes longer",
        ),
    )
