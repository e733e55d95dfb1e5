"""Gradients of parameters that no optimizer updates."""

from collections.abc import Iterable, Sequence
from math import prod
from typing import Final

from msgspec import Struct

from gapless.catalogue.declare.rule import RuleFigure, rule
from gapless.catalogue.declare.selectors import name_line
from gapless.catalogue.examples import example_facts
from gapless.catalogue.examples.evidence import evidence_of
from gapless.catalogue.examples.parts import operator, source_line
from gapless.catalogue.examples.work import example_work
from gapless.catalogue.queries import optimizer_steps, windows
from gapless.catalogue.queries.compute import window_share, work_of
from gapless.catalogue.queries.products import batch_of
from gapless.model.edit import Location
from gapless.model.estimate import Estimate
from gapless.model.evidence import Evidence, NotObservedError
from gapless.model.finding import Detection, Measure
from gapless.model.tables import Line, Operator
from gapless.model.work import Work
from gapless.roofline.padding import sizes_of
from gapless.roofline.roofline import NO_CHANGE, scale_changes

_ACCUMULATE: Final = "torch::autograd::AccumulateGrad"
_INPUTS: Final = 4  # inputs with gradients (physics, attacks) are one or two
_MIN_NEEDLESS_SHARE: Final = 0.1  # of all
_MAX_STEP_CALLS: Final = 1.5  # calls a step: more mean several optimizers, or steps
# Parameters differ in size, and layers in how many positions they are applied to: the needless ones
# may take so many times more, or less, of the backward pass than as many others; less far off if
# their sizes are known.
_SIZE_SPREAD: Final = 4.0
_SIZED_SPREAD: Final = 2.0
_WEIGHTS_SHARE: Final = 0.5  # of a layer's backward pass: the rest is for inputs


def _pass_rows(tensors: int, passes: float = 1) -> tuple[Operator | Line | Work, ...]:
    return (
        operator(_ACCUMULATE, calls=tensors, host_ms=1),
        source_line("torch/autograd/graph.py", 966, "_engine_run_backward", calls=passes, host=24),
        example_work("aten::mm", ((512, 512), (512, 512)), 20, "busy.math", backward=True),
        example_work("aten::addmm", ((512,), (512, 512), (512, 512)), 12, "busy.math"),
    )


@rule(
    "G513",
    "needless-gradients",
    since="0.1",
    figures=lambda: [
        RuleFigure(
            "A teacher runs outside torch.no_grad()",
            "Gradients of 100 parameters are computed in each step, and optimizers step 40: 60 "
            "are needless; the backward pass takes 20.0 ms of each 32.0 ms step.",
            evidence_of(
                example_facts.cpu(example_facts.optimizer(tensors=40)),
                {"busy.math": 32},
                *_pass_rows(tensors=100),
            ),
        ),
        RuleFigure(
            "A teacher that is known: its gradients were found",
            "Gradients of 60 parameters of Teacher (train.py:48), which no optimizer updates, are "
            "computed in each step; the backward pass takes 20.0 ms of each 32.0 ms step.",
            evidence_of(
                example_facts.cpu(example_facts.optimizer(tensors=40), example_facts.untrained()),
                {"busy.math": 32},
                *_pass_rows(tensors=100),
            ),
        ),
        RuleFigure(
            "A frozen backbone of two layers, in front of what is trained",
            "Gradients of 10 parameters are computed in each step, and optimizers step 6: 4 are "
            "needless; the backward pass takes 20.0 ms of each 32.0 ms step.",
            evidence_of(
                example_facts.cpu(example_facts.optimizer(tensors=6)),
                {"busy.math": 32},
                *_pass_rows(tensors=10),
                example_work("aten::linear", ((64, 784), (2048, 784), (2048,)), 0, "busy.math"),
                example_work(_ACCUMULATE, ((2048, 784),), 0, "busy.other", backward=True),
            ),
        ),
        RuleFigure(
            "Gradients of the inputs, whose size is that of a batch",
            None,
            evidence_of(
                example_facts.cpu(example_facts.optimizer(tensors=6)),
                {"busy.math": 32},
                *_pass_rows(tensors=9),
                example_work("aten::linear", ((64, 3), (50, 3), (50,)), 0, "busy.math"),
                example_work(_ACCUMULATE, ((64, 1),), 0, "busy.other", backward=True),
            ),
        ),
        RuleFigure(
            "All parameters are trained, in two passes a step",
            None,
            evidence_of(
                example_facts.cpu(example_facts.optimizer(tensors=40)),
                {"busy.math": 32},
                *_pass_rows(tensors=80, passes=2),
            ),
        ),
        RuleFigure(
            "An optimizer for each parameter, made at one line",
            None,
            evidence_of(
                example_facts.cpu(
                    example_facts.optimizer(tensors=1, calls=30_000), example_facts.world(steps=300)
                ),
                {"busy.math": 32},
                *_pass_rows(tensors=100),
            ),
        ),
        RuleFigure(
            "Gradients of the inputs, for a penalty",
            None,
            evidence_of(
                example_facts.cpu(example_facts.optimizer(tensors=40)),
                {"busy.math": 32},
                *_pass_rows(tensors=42),
            ),
        ),
    ],
)
def needless_gradients(evidence: Evidence) -> Detection | None:
    """Recognise that gradients are computed for parameters that no optimizer updates.

    ## Why it costs time
    A model that is not trained (a teacher, a frozen backbone, a feature encoder) still takes part
    in the backward pass as long as its parameters require gradients and it runs outside
    ``torch.no_grad()``: its graph is kept, and gradients of its weights are computed and stored but
    never used. ``model.eval()`` does not change that.

    ## How it is measured
    After some steps the recorder looks for gradients in the modules that it knows, whose parameters
    no optimizer holds; the module with most of them is named. Where it finds none: autograd stores
    a gradient at most once for each parameter and backward pass. More of them in the windows than
    parameters of the optimizers, times the passes, belong to others. How long each takes is not
    seen, so the price rests on their number and, where that is known, on their sizes; if gradients
    must pass through such a model, half of it remains. A few tensors whose gradients may be
    requested (inputs) do not count, unless sizes show that there are none: gradients of inputs have
    the length of the batch.
    """
    backward_rows = [row for row in work_of(evidence) if row.backward]
    needless = _find_untrained(evidence) or _count_surplus(evidence, backward_rows)
    if needless is None:
        return None
    spent_ns = (evidence.step_ns or 0) * window_share(
        evidence, sum(row.ns for row in backward_rows)
    )
    remaining = _remaining_share(needless)
    return needless_gradients.detection(
        f"{needless.summary}; the backward pass takes "
        f"{windows.format_step_part(evidence, spent_ns)}.",
        *scale_changes(evidence.study.work, lambda row: remaining if row.backward else NO_CHANGE),
        location=needless.location,
        measures=(
            Measure("gradients that nothing uses, a step", needless.count, ""),
            Measure("of them, by their number", needless.count_share, "share"),
        ),
        no_remedy=(
            "run the model that is not trained under `with torch.no_grad():`; where gradients must "
            "pass through it, call requires_grad_(False) on it; or give its parameters to the "
            "optimizer, if they were forgotten"
        ),
    )


class _Needless(Struct, frozen=True):
    """Gradients that nothing uses: their share of all, by number and by size (None: not known)."""

    count: float
    count_share: float
    size_share: float | None
    location: Location | None
    summary: str


def _find_untrained(evidence: Evidence) -> _Needless | None:
    """Return the gradients that were found in modules which no optimizer updates."""
    modules, optimizers = evidence.facts.untrained, evidence.facts.optimizers
    n_owned = optimizer_steps.count_tensors(evidence)
    n_needless = sum(module.tensors for module in modules)
    if not n_needless or n_owned is None:
        return None
    numbers = sum(module.parameters for module in modules)
    owned_numbers = [optimizer.parameters for optimizer in optimizers]
    count_share = n_needless / (n_needless + n_owned)
    size_share = None
    if all(owned_numbers):
        size_share = numbers / (numbers + sum(owned or 0 for owned in owned_numbers))
    if max(count_share, size_share or 0) < _MIN_NEEDLESS_SHARE:
        return None
    largest = max(modules, key=lambda module: module.parameters)
    name = largest.name.rpartition(".")[2]
    place = f" ({name_line(largest.location)})" if largest.location is not None else ""
    others = "" if len(modules) == 1 else f" and {len(modules) - 1} more"
    return _Needless(
        n_needless,
        count_share,
        size_share,
        largest.location or optimizer_steps.find_optimizer_line(evidence),
        f"Gradients of {n_needless} parameters of {name}{place}{others}, which no optimizer "
        "updates, are computed in each step",
    )


def _count_surplus(evidence: Evidence, backward_rows: Sequence[Work]) -> _Needless | None:
    """Return the gradients that are stored beyond one for each parameter and backward pass."""
    n_parameters = optimizer_steps.count_tensors(evidence)
    n_stored = windows.sum_calls(evidence, _ACCUMULATE).count
    max_inputs = 0 if _are_all_weights(evidence.study.work) else _INPUTS
    if (
        n_parameters is None
        or n_stored <= n_parameters + max_inputs
        or _has_repeated_steps(evidence)
    ):
        return None
    n_needless = n_stored - max(1.0, _count_passes(evidence)) * n_parameters
    if n_needless <= max(max_inputs, _MIN_NEEDLESS_SHARE * n_stored):
        return None
    return _Needless(
        n_needless,
        n_needless / n_stored,
        _needless_share(evidence, backward_rows),
        optimizer_steps.find_optimizer_line(evidence),
        f"Gradients of {n_stored:.0f} parameters are computed in each step, and optimizers step "
        f"{n_stored - n_needless:.0f}: {n_needless:.0f} are needless",
    )


def _are_all_weights(rows: Sequence[Work]) -> bool:
    """Return whether no stored gradient has the size of a batch: then none belongs to an input."""
    stored_sizes = [
        sizes[0] for row in rows if row.operator == _ACCUMULATE and (sizes := sizes_of(row))
    ]
    batch_sizes = {size for row in rows if (size := batch_of(row)) is not None}
    return (
        bool(stored_sizes)
        and bool(batch_sizes)
        and not any(set(sizes) & batch_sizes for sizes in stored_sizes)
    )


def _has_repeated_steps(evidence: Evidence) -> bool:
    """Return whether an optimizer steps more than once a step: it may be one of many at its line.

    One for each parameter, or for each member of an ensemble: only the sizes of one are known.
    """
    facts = evidence.facts
    return any(
        optimizer.calls > _MAX_STEP_CALLS * max(1, facts.world.steps)
        for optimizer in facts.optimizers
    )


def _count_passes(evidence: Evidence) -> float:
    """Count the backward passes of a step, and calls that only compute gradients."""
    lines = [
        line
        for line in evidence.study.tables.lines
        if line.function == "_engine_run_backward" and "autograd" in line.file
    ]
    if not lines:
        raise NotObservedError("stacks", "no window with stacks tells how many backward passes ran")
    return sum(line.calls for line in lines) / windows.count_steps(evidence)


def _needless_share(evidence: Evidence, backward_rows: Iterable[Work]) -> float | None:
    """Return the needless share of the stored gradients, by their sizes if known."""
    optimizers = evidence.facts.optimizers
    owned_counts = [optimizer.parameters for optimizer in optimizers]
    n_numbers = sum(
        row.calls * prod(sizes_of(row)[0])
        for row in backward_rows
        if row.operator == _ACCUMULATE and sizes_of(row)
    )
    if not n_numbers or not all(owned_counts):
        return None
    n_owned = (
        sum(count or 0 for count in owned_counts)
        * max(1.0, _count_passes(evidence))
        * windows.count_steps(evidence)
    )
    return 1 - n_owned / n_numbers if 0 < n_owned < n_numbers else None


def _remaining_share(needless: _Needless) -> Estimate:
    """Return the part of the backward pass that remains, from the share of gradients as odds.

    Sizes, where they are known, say more than numbers: the low end rests on them alone.
    """
    shares = needless.count_share, needless.size_share
    odds = [share / (1 - share) for share in shares if share is not None]
    spread = _SIZE_SPREAD if needless.size_share is None else _SIZED_SPREAD
    low, mid, high = odds[-1] / spread, prod(odds) ** (1 / len(odds)), max(odds) * spread
    return Estimate(1 / (1 + high), 1 / (1 + mid), 1 - _WEIGHTS_SHARE * low / (1 + low))
