"""What a trace alone tells of the run that it is of: its ``Facts``, as far as they follow from it.

A trace holds no settings, only what was done: which iterator handed out batches, which optimizer
stepped, which formats were multiplied, how images lay in memory. What does not follow from that
stays absent, and all that is concluded from it is inferred.
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
from gapless.replay.roofline import MATH

AT_HOME: Final = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
BY_WORKERS: Final = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"
_STEP: Final = re.compile(r"^Optimizer\.step#(?P<name>.+)\.step$")
_NODE: Final = "autograd::engine::evaluate_function: "
_LEAF_NODE: Final = "AccumulateGrad"
_REDUCER: Final = "DistributedDataParallel.forward"
_COMPILED: Final = re.compile(r"^(Torch-Compiled Region|CompiledFxGraph|CompiledFunction)")
_CONVOLUTION: Final = re.compile(r"^aten::.*conv")
_OFTEN: Final = 0.5  # of the steps: what hands out a batch in fewer of them feeds no training
_HALVES: Final = {"bf16": "torch.bfloat16", "fp16": "torch.float16"}
_MOSTLY: Final = 0.5  # of the time of products, of that of convolutions
_ROUND: Final = 0.01
_FUSED: Final = re.compile(r"^aten::_fused_")
_FOREACH: Final = re.compile(r"^aten::_foreach_")
_VERSION: Final = re.compile(r"^(\d+)\.(\d+)")
_ITS_OWN: Final = frozenset(
    {"Adadelta", "Adagrad", "Adam", "AdamW", "Adamax", "ASGD", "LBFGS", "NAdam", "RAdam"}
    | {"RMSprop", "Rprop", "SGD"}
)  # classes of torch.optim; a class of another package may have the same name


def traced(study: Study) -> Facts:
    """Give what the tables of a foreign trace tell of its run."""
    device = _device(study)
    return Facts(
        world=_world(study),
        machine=_machine(study, device),
        loaders=_loaders(study),
        optimizers=_optimizers(study, device),
        models=_models(study, device),
        parallel=(Parallel("ddp", None, {}),) if _calls(study, _REDUCER) else (),
        calls=_counted(study),
        inferred=True,
    )


def _calls(study: Study, name: str) -> int:
    return sum(one.calls for one in study.tables.operators if one.name == name)


def _per_step(study: Study, calls: float) -> float:
    return calls / study.account.steps if study.account.steps else 0.0


def _device(study: Study) -> str | None:
    """Name the device that was at work; ``None`` where none was, whatever the machine has."""
    if all(one.row.device is None for one in study.account.rows):
        return None
    return study.run.device or "a device"


def _machine(study: Study, device: str | None) -> Machine:
    return Machine(
        cpus=None,
        intra_op_threads=None,
        device=device,
        capability=study.run.capability if device else None,
        devices=None,
        memory_bytes=None,
        shm_bytes=None,
        memlock_bytes=None,
        numa_nodes=None,
    )


def _world(study: Study) -> World:
    ranks = study.run.world or len(study.run.ranks) or 1
    known = dict(study.run.versions)
    version = _VERSION.match(known.get("torch") or known.get("pytorch") or "")
    steps = study.account.steps or 0
    return World(
        ranks=ranks,
        torch=None if version is None else (int(version[1]), int(version[2])),
        python=None,
        micro_batches=1.0 if _has_single_pass(study) else None,
        steps=steps // max(1, len(study.run.ranks)),
        step_ns=None,
    )


def _nodes(study: Study) -> Iterable[Operator]:
    return (one for one in study.tables.operators if one.name.startswith(_NODE))


def _has_single_pass(study: Study) -> bool:
    """Tell whether a step has one backward pass: then some node of its graph runs once a step.

    In several passes each node runs as often as there are passes at least.
    """
    rates = [_per_step(study, one.calls) for one in _nodes(study)]
    return any(abs(rate - 1) <= _ROUND for rate in rates)


def _loaders(study: Study) -> tuple[Loader, ...]:
    kinds = ((AT_HOME, 0), (BY_WORKERS, NOT_COUNTED))
    return tuple(
        _loader(study, number, workers, rows)
        for number, (name, workers) in enumerate(kinds)
        if (rows := [one for one in study.tables.operators if one.name == name])
    )


def _loader(study: Study, number: int, workers: int, rows: Sequence[Operator]) -> Loader:
    calls = sum(one.calls for one in rows)
    copied = [one for one in study.tables.copies if one.direction == "HtoD"]
    return Loader(
        id=number,
        where=None,
        batch_size=None,
        num_workers=workers,
        prefetch_factor=None,
        pin_memory=any(one.memory == "pinned" for one in copied),
        persistent_workers=False,
        in_order=None,
        shuffle=False,
        iterable=False,
        dataset="a data set",
        length=None,
        start_method=None,
        trains=_per_step(study, calls) >= _OFTEN if study.account.steps else None,
        iterations=1,
        batches=calls,
        waited_ns=sum(one.host_total_ns for one in rows),
        random=None,
        blocked=None,
        batch_bytes=None,
        asks_worker_info=None,
        cuda_in_dataset=None,
        picklable=None,
        pinnable=None,
    )


def _optimizers(study: Study, device: str | None) -> tuple[Optimizer, ...]:
    """Give the optimizers that stepped, by class; how they step where there is but one."""
    found: dict[str, int] = {}
    for one in study.tables.operators:
        named = _STEP.match(one.name)
        if named is not None:
            found[named["name"]] = found.get(named["name"], 0) + one.calls
    alone = len(found) == 1
    names = [one.name for one in study.tables.operators]
    fused, foreach = (any(map(way.match, names)) for way in (_FUSED, _FOREACH))
    return tuple(
        Optimizer(
            id=number,
            where=None,
            name=f"torch.optim.{name.lower()}.{name}" if name in _ITS_OWN else name,
            foreach=(foreach and not fused) if alone else None,
            fused=fused if alone else None,
            tensors=_tensors(study) if alone else None,
            calls=calls,
            device="cuda" if device else "cpu",
        )
        for number, (name, calls) in enumerate(found.items())
    )


def _tensors(study: Study) -> int | None:
    """Count the tensors that a step's backward pass gives gradients; ``None``: not known.

    Where there are several passes a step, it gives them several times.
    """
    given = sum(one.calls for one in _nodes(study) if one.name.endswith(_LEAF_NODE))
    return round(_per_step(study, given)) or None if _has_single_pass(study) else None


def _models(study: Study, device: str | None) -> tuple[Model, ...]:
    """Give the model that was computed with, if inputs were recorded: else nothing is known."""
    work = study.work
    if not any(one.dtype for one in work):
        return ()
    images = [one for one in work if _CONVOLUTION.match(one.operator) and not one.backward]
    known = [one for one in images if one.channels_first is not None]
    return (
        Model(
            id=0,
            where=None,
            name="the model",
            parameters=None,
            dtype=_format(work),
            device="cuda" if device else "cpu",
            channels_last=_share(known, [one for one in known if not one.channels_first]),
            convolutions=round(_per_step(study, sum(one.calls for one in images))),
            compiled=any(_COMPILED.match(one.name) for one in study.tables.operators),
            checkpoints=True if any(one.again for one in work) else None,
        ),
    )


def _share(every: Sequence[Work], some: Sequence[Work]) -> bool | None:
    """Tell whether some work is most of a kind's; ``None`` where there is none of that kind."""
    whole = sum(one.ns for one in every)
    return sum(one.ns for one in some) >= _MOSTLY * whole if whole else None


def _format(work: Sequence[Work]) -> str | None:
    """Give the format of 16 bits in which most products are computed; ``None``: in none."""
    products = [one for one in work if one.leaf in MATH and one.dtype]
    for dtype, name in _HALVES.items():
        if _share(products, [one for one in products if one.dtype == dtype]):
            return name
    return None


def _counted(study: Study) -> dict[str, int]:
    """Count calls of torch's that stacks show; empty without stacks."""
    lines = study.tables.lines
    if not lines:
        return {}
    emptied = [one for one in lines if one.function == "empty_cache" and "torch" in one.file]
    return {"empty_cache": sum(one.calls for one in emptied)}
