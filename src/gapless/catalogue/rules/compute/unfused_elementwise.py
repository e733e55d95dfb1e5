"""Chains of kernels that each read what the one before has written."""

from typing import Final

from msgspec.structs import astuple

from gapless.catalogue.declare.rule import rule
from gapless.catalogue.examples import example_facts
from gapless.catalogue.examples.evidence import figure
from gapless.catalogue.examples.parts import kernel
from gapless.catalogue.fixes.compute.compile import compiled
from gapless.catalogue.queries import windows
from gapless.catalogue.queries.compute import dilute_factor, share_outside_attention
from gapless.model.change import Scale
from gapless.model.estimate import Estimate
from gapless.model.evidence import Evidence
from gapless.model.finding import Detection, Measure
from gapless.model.tables import Kernel

_POINTWISE_LEAVES: Final = ("busy.elementwise", "busy.cast", "busy.rng")
_LEAVES: Final = (*_POINTWISE_LEAVES, "busy.norm_reduce")
_FILLED: Final = 0.05  # of the device: kernels that fill less wait for memory
_MIN_STEP_SHARE: Final = 0.25  # of the step
_MIN_KERNELS: Final = 10  # kernels a step
# Relative to single operators: chains of five become one pass, or nothing can be fused.
_POINTWISE_FACTOR: Final = Estimate(0.25, 0.55, 1.0)
_REDUCTION_FACTOR: Final = Estimate(0.5, 0.85, 1.1)
_SPARE_FACTOR: Final = Estimate(0.1, 0.35, 1.0)  # of reductions that leave most of the device idle


@rule(
    "G506",
    "unfused-elementwise",
    figures=lambda: [
        figure(
            "Activations, masks, norms",
            "120 kernels a step that only read and write memory take 18.0 ms of each 40.0 ms step.",
            example_facts.gpu(),
            {"busy.tc_math": 22, "busy.elementwise": 12, "busy.norm_reduce": 6},
            kernel("vectorized_elementwise_kernel", 90, 12, "busy.elementwise"),
            kernel("vectorized_layer_norm_kernel", 30, 6, "busy.norm_reduce"),
        ),
        figure(
            "Products, mostly",
            None,
            example_facts.gpu(),
            {"busy.tc_math": 36, "busy.elementwise": 4},
            kernel("vectorized_elementwise_kernel", 90, 4, "busy.elementwise"),
        ),
        figure(
            "Compiled: fused already",
            None,
            example_facts.gpu(example_facts.model(compiled=True)),
            {"busy.tc_math": 22, "busy.elementwise": 18},
            kernel("triton_poi_fused_add_mul_0", 90, 18, "busy.elementwise"),
        ),
    ],
)
def unfused_elementwise(evidence: Evidence) -> Detection | None:
    """Recognise steps in which kernels that move memory, and hardly compute, take long.

    ## Why it costs time
    Each operator reads its inputs from memory and writes its output; the next one reads that again.
    A compiler makes one kernel of a chain of them, which reads and writes once.

    ## How it is measured
    By the busy time of elementwise kernels, casts, norms and reductions in a model that is not
    compiled. What a compiler finds to fuse is not known before it is tried, so the gain is a wide
    interval. Reductions that fill little of the device (the gradients of a norm's weights, over
    many rows of few columns) gain most: a compiler divides them differently.
    """
    facts = evidence.facts
    can_compile = bool(facts.models) and not evidence.is_trace_only
    is_compiled = any(model.compiled for model in facts.models)
    kernels, outside_share = (
        windows.sum_kernels(evidence, *_LEAVES),
        share_outside_attention(evidence, *_LEAVES),
    )
    has_triton = any(kernel.name.startswith("triton") for kernel in evidence.study.tables.kernels)
    if (
        is_compiled
        or has_triton
        or kernels.count < _MIN_KERNELS
        or outside_share * evidence.share(*_LEAVES) < _MIN_STEP_SHARE
    ):
        return None
    spent_ns = evidence.per_step(*_LEAVES)
    return unfused_elementwise.detection(
        f"{windows.format_count(kernels.count)} kernels a step that only read and write memory "
        f"take {windows.format_step_part(evidence, spent_ns)}.",
        Scale(dilute_factor(_POINTWISE_FACTOR, outside_share), leaves=_POINTWISE_LEAVES),
        Scale(
            dilute_factor(_reduction_factor(evidence), outside_share), leaves=("busy.norm_reduce",)
        ),
        measures=(
            Measure("such kernels, a step", kernels.count, ""),
            Measure("their time, a step", spent_ns, "ns"),
        ),
        helps=(compiled.request(),) if can_compile else (),
        no_remedy=None if can_compile else "torch.compile the model.",
    )


def _reduction_factor(evidence: Evidence) -> Estimate:
    """Return the factor of reductions, some of which leave most of the device idle."""
    reductions = [
        kernel for kernel in evidence.study.tables.kernels if kernel.leaf == "busy.norm_reduce"
    ]
    total_ns = sum(kernel.device_ns for kernel in reductions)
    spare_kernels = [kernel for kernel in reductions if _filled_share(kernel) <= _FILLED]
    share = sum(kernel.device_ns for kernel in spare_kernels) / total_ns if total_ns else 0.0
    bounds = zip(astuple(_REDUCTION_FACTOR), astuple(_SPARE_FACTOR), strict=True)
    return Estimate(*((1 - share) * usual + share * idle for usual, idle in bounds))


def _filled_share(kernel: Kernel) -> float:
    """Return the share of a device that a kernel keeps busy; 1 if that is not known."""
    occupancy = None if kernel.geometry is None else kernel.geometry.occupancy
    return 1.0 if occupancy is None else occupancy
