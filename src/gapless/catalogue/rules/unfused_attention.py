"""Attention as three operators, with its scores written to memory between them."""

from typing import Final

from gapless.catalogue import examples, windowed
from gapless.catalogue.computing import per_step, roof_of, share, work_of
from gapless.catalogue.ruling import Figure, rule
from gapless.catalogue.seen_examples import seen as stated
from gapless.catalogue.seen_parts import operator
from gapless.catalogue.work_examples import h200, worked
from gapless.model.finding import Loss, Measure
from gapless.model.seen import Seen
from gapless.replay.attention import fused, unfused

_LEAST: Final = 0.02  # of the step
_FALLBACK: Final = "aten::_scaled_dot_product_attention_math"
_SCORES: Final = (96, 1024, 1024)
_NAIVE: Final = (
    worked(
        "aten::bmm", ((96, 1024, 64), (96, 64, 1024)), 4, "busy.tc_math", dtype="bf16", calls=36
    ),
    worked("aten::bmm", (_SCORES, (96, 1024, 64)), 4, "busy.tc_math", dtype="bf16", calls=36),
    worked("aten::_softmax", (_SCORES,), 14, "busy.norm_reduce", calls=24),
    worked("aten::masked_fill_", (_SCORES,), 10, "busy.elementwise", dtype="bf16", calls=36),
)
_LEAVES: Final = {"busy.tc_math": 18, "busy.norm_reduce": 14, "busy.elementwise": 18}
_AMP: Final = examples.precision(autocast={"cuda": "torch.bfloat16"})


@rule(
    "G505",
    "unfused-attention",
    since="0.1",
    figures=[
        Figure(
            "Two products and a softmax",
            "Attention writes its scores to memory: its products, softmax and mask take 32.0 ms of "
            "each 50.0 ms step.",
            stated(examples.gpu(_AMP), _LEAVES, *_NAIVE, h200()),
        ),
        Figure(
            "scaled_dot_product_attention, in a case that no fused kernel knows",
            "Attention writes its scores to memory, since scaled_dot_product_attention falls back "
            "to single operators: its products, softmax and mask take 32.0 ms of each 50.0 ms "
            "step.",
            stated(
                examples.gpu(_AMP),
                _LEAVES,
                *_NAIVE,
                operator("aten::_scaled_dot_product_attention_math", 12, 2, 30),
                h200(),
            ),
        ),
        Figure(
            "Flash attention",
            None,
            stated(
                examples.gpu(_AMP),
                {"busy.tc_math": 20},
                worked(
                    "aten::_flash_attention_forward",
                    ((8, 1024, 12, 64),) * 3,
                    2,
                    "busy.tc_math",
                    dtype="bf16",
                    calls=12,
                ),
                h200(),
            ),
        ),
    ],
)
def unfused_attention(seen: Seen) -> Loss | None:
    """Recognise attention that writes its scores to memory and reads them again.

    ## Why it costs time
    Scores are as large as the square of the sequence, and mask, softmax and dropout each read and
    write them whole. A fused kernel keeps them on the chip.

    ## How it is measured
    By the inputs of the operators: whatever reads or writes a tensor shaped like what goes into the
    softmax. What a fused kernel takes follows from the products that remain; on processors from the
    speed of the run's best products. With dropout torch has no fused kernel for processors, and
    little is gained there.
    """
    rows = work_of(seen)
    found = unfused(rows)
    if found is None or not found.flops or share(seen, found.ns) < _LEAST:
        return None
    fallback = bool(windowed.operators(seen, _FALLBACK)) and not seen.foreign
    why = ", since scaled_dot_product_attention falls back to single operators" if fallback else ""
    spent = per_step(seen, found.ns)
    return unfused_attention.loss(
        f"Attention writes its scores to memory{why}: its products, softmax and mask take "
        f"{windowed.of_step(seen, spent)}.",
        *fused(rows, found, roof_of(seen)),
        where=windowed.site(seen, "aten::softmax", _FALLBACK),
        evidence=(
            Measure("attention, a step", spent, "ns"),
            Measure("its kernels, a step", per_step(seen, found.launches), ""),
        ),
        helps=("sdpa",) if fallback else (),
        no_remedy=None
        if fallback
        else "Call torch.nn.functional.scaled_dot_product_attention in place of the products "
        "and the softmax; in fp16 or bf16 it is a single kernel.",
    )
