"""Chains of kernels that each read what the one before has written."""

from collections.abc import Iterable
from typing import Final

from msgspec import Struct
from msgspec.structs import astuple

from gapless.catalogue.declare.rule import rule
from gapless.catalogue.declare.selectors import name_line
from gapless.catalogue.fixes.compute.compile import compiled
from gapless.catalogue.frameworks.frameworks import is_of_framework
from gapless.catalogue.queries import samples, windows
from gapless.catalogue.queries.compute import dilute_factor, share_outside_attention
from gapless.model.change import Scale
from gapless.model.edit import Location
from gapless.model.estimate import Estimate
from gapless.model.evidence import Evidence
from gapless.model.finding import Detection, Measure
from gapless.model.study import Site
from gapless.model.tables import Kernel

_POINTWISE_LEAVES: Final = ("busy.elementwise", "busy.cast", "busy.rng")
_LEAVES: Final = (*_POINTWISE_LEAVES, "busy.norm_reduce")
_FILLED: Final = 0.05  # of the device: kernels that fill less wait for memory
_MIN_STEP_SHARE: Final = 0.25  # of the step
_MIN_KERNELS: Final = 10  # kernels a step
# Relative to single operators: chains of five become one pass, or nothing can be fused.
_POINTWISE_FACTOR: Final = Estimate(0.25, 0.55, 1.0)
_REDUCTION_FACTOR: Final = Estimate(0.5, 0.85, 1.1)
# Operators on the CPU that pass over memory and compute little, and conversions within them.
_POINTWISE: Final = frozenset(
    f"aten::{name}"
    for name in (
        *("abs", "add", "amax", "clamp", "cos", "div", "erf", "exp", "ge", "gt", "le", "log", "lt"),
        *("masked_fill", "maximum", "mean", "minimum", "mul", "neg", "pow", "reciprocal", "rsqrt"),
        *("rsub", "sigmoid", "sin", "sqrt", "square", "std", "sub", "sum", "tanh", "var", "where"),
    )
)
_CONVERSION: Final = "aten::_to_copy"
_COPY: Final = "aten::copy_"
_NODE: Final = "autograd::engine::evaluate_function:"
_TORCH_FILE: Final = "torch/"
_MIN_PASSES: Final = 3.0  # of a call: two may be what it takes
_MIN_LARGE_NS: Final = 100_000.0  # a call of an operator in a window; less is the calling
_MIN_FUNCTION_SHARE: Final = 0.1  # of the step, with its part of the backward pass
_MIN_OWN_SHARE: Final = 0.5  # of the function's time: the rest is layers, which nothing fuses
_BUILT_IN: Final = Estimate(1.0, 1.5, 2.5)  # passes of a built-in function, or a compiled one …
_MIN_KEPT: Final = Estimate(0.25, 0.4, 0.6)  # … and at least so much of the time
_SPARE_FACTOR: Final = Estimate(0.1, 0.35, 1.0)  # of reductions that leave most of the device idle


@rule(
    "G506",
    "unfused-elementwise",
    figures="""
    chain = ("aten::gt", "aten::mul", "aten::sigmoid", "aten::sub")
    product(ms, **changes) = example_work("aten::mul", ((512, 4096),), ms, "busy.elementwise",
      **changes)
    calls(ns) = [Site(name, "model.py", 8, "gated", ns // 4, STEPS) for name in chain]
    backward(ns) = Site("autograd::engine::evaluate_function: MulBackward0", "train.py", 20,
      "train", ns, STEPS)
    lines(ns) = (Line("model.py", 8, "gated", STEPS, 0, ns, None, 0), *calls(ns), backward(ns))
    written_out(ms) = (*lines(round(STEPS * ms * 1e6)), product(ms), product(ms, backward=True))
    # Activations, masks, norms
    > 120 kernels a step that only read and write memory take 18.0 ms of each 40.0 ms step.
    gpu()
    busy.tc_math 22, busy.elementwise 12, busy.norm_reduce 6
    kernel("vectorized_elementwise_kernel", 90, 12, "busy.elementwise")
    kernel("vectorized_layer_norm_kernel", 30, 6, "busy.norm_reduce")
    # Products, mostly
    gpu()
    busy.tc_math 36, busy.elementwise 4
    kernel("vectorized_elementwise_kernel", 90, 4, "busy.elementwise")
    # Compiled: fused already
    gpu(model(compiled=True))
    busy.tc_math 22, busy.elementwise 18
    kernel("triton_poi_fused_add_mul_0", 90, 18, "busy.elementwise")
    # An activation written out, on the CPU
    > `gated` (model.py:8) passes over memory 4 times in each call, in operators of its own: with
      its backward pass that takes 8.0 ms of each 20.0 ms step.
    cpu()
    busy.elementwise 8, busy.math 12
    *written_out(4.0)
    # The same on small tensors
    cpu()
    busy.elementwise 0.4, busy.math 12
    *written_out(0.15)
    """,
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

    Without a device: by stacks of windows, a function of the user's that calls three such operators
    or more on large tensors, conversions counted, that spends half of its time in them, and that
    with its part of the backward pass takes a tenth of the step. A built-in function, or a compiled
    one, passes over memory once or twice.
    """
    facts = evidence.facts
    if not evidence.on_device:
        return _detect_written_out(evidence)
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


class _WrittenOut(Struct, frozen=True):
    location: Location  # of a function
    passes: float  # over memory, in each call
    forward_ns: float  # in the steps of windows


def _detect_written_out(evidence: Evidence) -> Detection | None:
    written, step_ns = _find_written_out(evidence), evidence.step_ns
    if written is None or not step_ns or any(model.compiled for model in evidence.facts.models):
        return None
    forward_ns, backward_ns = (
        sum(
            row.ns
            for row in evidence.study.work
            if row.backward == backward and row.operator in (*_POINTWISE, _COPY)
        )
        for backward in (False, True)
    )
    part = min(1.0, written.forward_ns / forward_ns) if forward_ns else 0.0
    spent_ns = (written.forward_ns + part * backward_ns) / windows.count_steps(evidence)
    share = min(1.0, spent_ns / step_ns)
    if share < _MIN_FUNCTION_SHARE:
        return None
    high, mid, low = (
        share * (1 - min(1.0, max(n_passes / written.passes, kept_share)))
        for n_passes, kept_share in zip(astuple(_BUILT_IN), astuple(_MIN_KEPT), strict=True)
    )
    return unfused_elementwise.detection(
        f"`{written.location.function}` ({name_line(written.location)}) passes over memory "
        f"{windows.format_count(written.passes)} times in each call, in operators of its own: with "
        f"its backward pass that takes {windows.format_step_part(evidence, spent_ns)}.",
        samples.remove_share(evidence, Estimate(low, mid, high)),
        location=written.location,
        measures=(Measure("its operators, a step", spent_ns, "ns"),),
        no_remedy=(
            "call a built-in function (torch.nn.functional: relu, gelu, softmax, layer_norm, "
            "cdist, mse_loss …), or decorate it with torch.compile"
        ),
        inferred=True,
    )


def _find_written_out(evidence: Evidence) -> _WrittenOut | None:
    """Return the function whose own operators pass over memory most often for their work."""
    lines = {(line.file, line.line, line.function): line for line in evidence.study.tables.lines}
    written_out: list[_WrittenOut] = []
    for function, sites in windows.group_sites(evidence).items():
        line, own_ns = lines.get(function), sum(site.ns for site in filter(_is_large, sites))
        has_backward = any(site.name.startswith(_NODE) for site in sites)
        is_library = function[0].startswith(_TORCH_FILE) or is_of_framework(function[0])
        if line is None or not line.calls or has_backward or is_library:
            continue
        passes = (_count_large(sites) + _count_conversions(sites)) / line.calls
        if passes >= _MIN_PASSES and own_ns >= _MIN_OWN_SHARE * line.host_total_ns:
            written_out.append(_WrittenOut(Location(*function), passes, own_ns))
    return max(written_out, key=lambda function: function.forward_ns, default=None)


def _is_large(site: Site) -> bool:
    return site.name in _POINTWISE and site.ns >= _MIN_LARGE_NS * site.calls


def _count_large(sites: Iterable[Site]) -> int:
    return sum(site.calls for site in sites if _is_large(site))


def _count_conversions(sites: Iterable[Site]) -> int:
    return sum(site.calls for site in sites if site.name == _CONVERSION)


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
