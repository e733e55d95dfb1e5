"""The ``Facts`` of a run as far as they follow from a trace alone.

A trace holds no settings, only what was done: which iterator handed out batches, which optimizer
stepped, which formats were multiplied, how images were laid out in memory. What does not follow
from that stays absent, and all conclusions from it are inferred.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Final

from gapless.model.facts import (
    NOT_COUNTED,
    Facts,
    Loader,
    Machine,
    Model,
    Optimizer,
    Parallel,
    World,
)
from gapless.model.study import Study
from gapless.model.tables import Operator
from gapless.model.work import Work
from gapless.roofline.roofline import MATH

IN_PROCESS_ITERATOR: Final = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
WORKER_ITERATOR: Final = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"
_STEP: Final = re.compile(r"^Optimizer\.step#(?P<name>.+)\.step$")
_NODE: Final = "autograd::engine::evaluate_function: "
_LEAF_NODE: Final = "AccumulateGrad"
_REDUCER: Final = "DistributedDataParallel.forward"
_COMPILED: Final = re.compile(r"^(Torch-Compiled Region|CompiledFxGraph|CompiledFunction)")
_CONVOLUTION: Final = re.compile(r"^aten::.*conv")
# Of the steps: an iterator that hands out a batch in fewer of them feeds no training.
_MIN_STEP_SHARE: Final = 0.5
_HALF_DTYPES: Final = {"bf16": "torch.bfloat16", "fp16": "torch.float16"}
_MIN_TIME_SHARE: Final = 0.5  # of the time of products, or of convolutions
_MAX_DEVIATION: Final = 0.01
_FUSED: Final = re.compile(r"^aten::_fused_")
_FOREACH: Final = re.compile(r"^aten::_foreach_")
_VERSION: Final = re.compile(r"^(\d+)\.(\d+)")
_TORCH_OPTIMIZERS: Final = frozenset(
    {"Adadelta", "Adagrad", "Adam", "AdamW", "Adamax", "ASGD", "LBFGS", "NAdam", "RAdam"}
    | {"RMSprop", "Rprop", "SGD"}
)  # of torch.optim; other packages may use the same names


def infer_facts(study: Study) -> Facts:
    """Return the facts of a run that follow from the tables of a foreign trace."""
    device = _name_device(study)
    return Facts(
        world=_infer_world(study),
        machine=_infer_machine(study, device),
        loaders=_infer_loaders(study),
        optimizers=_infer_optimizers(study, device),
        models=_infer_models(study, device),
        parallel=(Parallel("ddp", None, {}),) if _count_calls(study, _REDUCER) else (),
        calls=_count_torch_calls(study),
        inferred=True,
    )


def _count_calls(study: Study, name: str) -> int:
    return sum(operator.calls for operator in study.tables.operators if operator.name == name)


def _per_step(study: Study, calls: float) -> float:
    return calls / study.account.steps if study.account.steps else 0.0


def _name_device(study: Study) -> str | None:
    """Return the name of the device that worked; ``None`` if none did, whatever the machine has."""
    if all(row.row.device is None for row in study.account.rows):
        return None
    return study.run.device or "a device"


def _infer_machine(study: Study, device: str | None) -> Machine:
    return Machine(
        cpus=None,
        intra_op_threads=None,
        device=device,
        capability=study.run.capability if device else None,
        devices=None,
        memory_bytes=None,
        shm_bytes=None,
    )


def _infer_world(study: Study) -> World:
    ranks = study.run.world or len(study.run.ranks) or 1
    versions = dict(study.run.versions)
    version = _VERSION.match(versions.get("torch") or versions.get("pytorch") or "")
    steps = study.account.steps or 0
    return World(
        ranks=ranks,
        torch=None if version is None else (int(version[1]), int(version[2])),
        python=None,
        micro_batches=1.0 if _has_single_pass(study) else None,
        steps=steps // max(1, len(study.run.ranks)),
        step_ns=None,
    )


def _select_nodes(study: Study) -> Iterable[Operator]:
    return (operator for operator in study.tables.operators if operator.name.startswith(_NODE))


def _has_single_pass(study: Study) -> bool:
    """Return whether a step has one backward pass: then some node of its graph runs once a step.

    With several passes, each node runs at least once in each of them.
    """
    rates = [_per_step(study, node.calls) for node in _select_nodes(study)]
    return any(abs(rate - 1) <= _MAX_DEVIATION for rate in rates)


def _infer_loaders(study: Study) -> tuple[Loader, ...]:
    iterators = ((IN_PROCESS_ITERATOR, 0), (WORKER_ITERATOR, NOT_COUNTED))
    return tuple(
        _infer_loader(study, number, workers, rows)
        for number, (name, workers) in enumerate(iterators)
        if (rows := [operator for operator in study.tables.operators if operator.name == name])
    )


def _infer_loader(study: Study, number: int, workers: int, rows: Sequence[Operator]) -> Loader:
    calls = sum(row.calls for row in rows)
    copies = [copy for copy in study.tables.copies if copy.direction == "HtoD"]
    return Loader(
        id=number,
        location=None,
        batch_size=None,
        num_workers=workers,
        prefetch_factor=None,
        pin_memory=any(copy.memory == "pinned" for copy in copies),
        persistent_workers=False,
        in_order=None,
        shuffle=False,
        iterable=False,
        dataset="a data set",
        length=None,
        start_method=None,
        trains=_per_step(study, calls) >= _MIN_STEP_SHARE if study.account.steps else None,
        iterations=1,
        batches=calls,
        waited_ns=sum(row.host_total_ns for row in rows),
        random=None,
        blocked=None,
        batch_bytes=None,
        asks_worker_info=None,
        cuda_in_dataset=None,
        picklable=None,
        pinnable=None,
    )


def _infer_optimizers(study: Study, device: str | None) -> tuple[Optimizer, ...]:
    """Return the optimizers that stepped, by class; and how they step if there is only one."""
    calls_by_class: dict[str, int] = {}
    for operator in study.tables.operators:
        match = _STEP.match(operator.name)
        if match is not None:
            calls_by_class[match["name"]] = calls_by_class.get(match["name"], 0) + operator.calls
    is_single = len(calls_by_class) == 1
    names = [operator.name for operator in study.tables.operators]
    has_fused, has_foreach = (any(map(pattern.match, names)) for pattern in (_FUSED, _FOREACH))
    return tuple(
        Optimizer(
            id=number,
            location=None,
            name=f"torch.optim.{name.lower()}.{name}" if name in _TORCH_OPTIMIZERS else name,
            foreach=(has_foreach and not has_fused) if is_single else None,
            fused=has_fused if is_single else None,
            tensors=_count_tensors(study) if is_single else None,
            calls=calls,
            device="cuda" if device else "cpu",
        )
        for number, (name, calls) in enumerate(calls_by_class.items())
    )


def _count_tensors(study: Study) -> int | None:
    """Count the tensors that get gradients in a step's backward pass; ``None``: not known.

    With several passes a step, they get them several times.
    """
    n_gradients = sum(node.calls for node in _select_nodes(study) if node.name.endswith(_LEAF_NODE))
    return round(_per_step(study, n_gradients)) or None if _has_single_pass(study) else None


def _infer_models(study: Study, device: str | None) -> tuple[Model, ...]:
    """Return the model that was used, if inputs were recorded; else nothing is known."""
    work = study.work
    if not any(row.dtype for row in work):
        return ()
    convolutions = [row for row in work if _CONVOLUTION.match(row.operator) and not row.backward]
    laid_out_rows = [row for row in convolutions if row.channels_first is not None]
    return (
        Model(
            id=0,
            location=None,
            name="the model",
            parameters=None,
            dtype=_find_half_dtype(work),
            device="cuda" if device else "cpu",
            channels_last=_is_most(
                laid_out_rows, [row for row in laid_out_rows if not row.channels_first]
            ),
            convolutions=round(_per_step(study, sum(row.calls for row in convolutions))),
            compiled=any(_COMPILED.match(operator.name) for operator in study.tables.operators),
            checkpoints=True if any(row.again for row in work) else None,
        ),
    )


def _is_most(rows: Sequence[Work], selected: Sequence[Work]) -> bool | None:
    """Return whether some work is most of its kind; ``None`` if there is none of that kind."""
    total_ns = sum(row.ns for row in rows)
    return sum(row.ns for row in selected) >= _MIN_TIME_SHARE * total_ns if total_ns else None


def _find_half_dtype(work: Sequence[Work]) -> str | None:
    """Return the 16-bit format in which most products are computed; ``None``: in none."""
    products = [row for row in work if row.leaf in MATH and row.dtype]
    for dtype, name in _HALF_DTYPES.items():
        if _is_most(products, [row for row in products if row.dtype == dtype]):
            return name
    return None


def _count_torch_calls(study: Study) -> dict[str, int]:
    """Count calls of torch functions that stacks show; empty without stacks."""
    lines = study.tables.lines
    if not lines:
        return {}
    cache_lines = [
        line for line in lines if line.function == "empty_cache" and "torch" in line.file
    ]
    return {"empty_cache": sum(line.calls for line in cache_lines)}
