"""Chains of kernels that each read and write what the one before has written."""

from dataclasses import astuple
from typing import Final

from gapless.catalogue import examples, windowed
from gapless.catalogue.computing import beside_attention, part
from gapless.catalogue.ruling import Figure, rule
from gapless.catalogue.seen_examples import seen as stated
from gapless.catalogue.seen_parts import kernel
from gapless.model.change import Scale
from gapless.model.finding import Loss, Measure
from gapless.model.interval import Interval
from gapless.model.seen import Seen
from gapless.model.tables import Kernel

_POINTS: Final = ("busy.elementwise", "busy.cast", "busy.rng")
_LEAVES: Final = (*_POINTS, "busy.norm_reduce")
_FILLED: Final = 0.05  # of the device: kernels that fill less of it wait for memory, or one another
_LEAST: Final = 0.25  # of the step: other tools ask for 30 % of the busy time
_MANY: Final = 10  # kernels a step: one has nothing to be fused with
# Of the time of single operators: chains of five become one pass, or there is nothing to fuse.
_POINTWISE: Final = Interval(0.25, 0.55, 1.0)
_REDUCED: Final = Interval(0.5, 0.85, 1.1)
_SPARE: Final = Interval(0.1, 0.35, 1.0)  # of reductions that leave most of the device idle


@rule(
    "G506",
    "unfused-elementwise",
    since="0.1",
    figures=[
        Figure(
            "Activations, masks, norms",
            "120 kernels a step that only read and write memory take 18.0 ms of each 40.0 ms step.",
            stated(
                examples.gpu(),
                {"busy.tc_math": 22, "busy.elementwise": 12, "busy.norm_reduce": 6},
                kernel("vectorized_elementwise_kernel", 90, 12, "busy.elementwise"),
                kernel("vectorized_layer_norm_kernel", 30, 6, "busy.norm_reduce"),
            ),
        ),
        Figure(
            "Products, mostly",
            None,
            stated(
                examples.gpu(),
                {"busy.tc_math": 36, "busy.elementwise": 4},
                kernel("vectorized_elementwise_kernel", 90, 4, "busy.elementwise"),
            ),
        ),
        Figure(
            "Compiled: fused already",
            None,
            stated(
                examples.gpu(examples.model(compiled=True)),
                {"busy.tc_math": 22, "busy.elementwise": 18},
                kernel("triton_poi_fused_add_mul_0", 90, 18, "busy.elementwise"),
            ),
        ),
    ],
)
def unfused_elementwise(seen: Seen) -> Loss | None:
    """Recognise steps in which kernels that hardly compute, and move much memory, take long.

    ## Why it costs time
    Each operator reads its inputs from memory and writes its output; the next one reads that again.
    A compiler makes one kernel of a chain of them, which reads and writes once.

    ## How it is measured
    By the busy time of elementwise kernels, casts, norms and reductions in a model that is not
    compiled. What a compiler finds to fuse is not known before it is tried, so the gain is a wide
    interval. Reductions that fill little of the device (the gradients of a norm's weights, over
    many rows of few columns) gain most: a compiler parts them otherwise.
    """
    facts = seen.facts
    able = facts is not None and bool(facts.models) and not seen.foreign
    compiled = facts is not None and any(one.compiled for one in facts.models)
    found, beside = windowed.kernels(seen, *_LEAVES), beside_attention(seen, *_LEAVES)
    triton = any(one.name.startswith("triton") for one in seen.study.tables.kernels)
    if compiled or triton or found.count < _MANY or beside * seen.share(*_LEAVES) < _LEAST:
        return None
    spent = seen.per_step(*_LEAVES)
    return unfused_elementwise.loss(
        f"{windowed.times(found.count)} kernels a step that only read and write memory take "
        f"{windowed.of_step(seen, spent)}.",
        Scale(part(_POINTWISE, beside), leaves=_POINTS),
        Scale(part(_reduced(seen), beside), leaves=("busy.norm_reduce",)),
        evidence=(
            Measure("such kernels, a step", found.count, ""),
            Measure("their time, a step", spent, "ns"),
        ),
        helps=("compile",) if able else (),
        no_remedy=None if able else "torch.compile the model.",
    )


def _reduced(seen: Seen) -> Interval:
    """Give the factor of reductions, of which some leave most of the device idle."""
    found = [one for one in seen.study.tables.kernels if one.leaf == "busy.norm_reduce"]
    whole = sum(one.device_ns for one in found)
    spare = [one for one in found if _fills(one) <= _FILLED]
    share = sum(one.device_ns for one in spare) / whole if whole else 0.0
    ends = zip(astuple(_REDUCED), astuple(_SPARE), strict=True)
    return Interval(*((1 - share) * usual + share * idle for usual, idle in ends))


def _fills(kernel: Kernel) -> float:
    """Give the share of a device that a kernel keeps busy; 1 where that is not known."""
    occupancy = None if kernel.geometry is None else kernel.geometry.occupancy
    return 1.0 if occupancy is None else occupancy
