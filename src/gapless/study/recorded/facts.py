"""What was true of a recorded run: its ``Facts``, from what its processes told and from its marks.

The first training process speaks for all: ranks of a job run the same program.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

import numpy as np

from gapless import wire
from gapless.model.facts import (
    Beside,
    Evaluation,
    Facts,
    Machine,
    Model,
    Optimizer,
    Parallel,
    Precision,
    Repeat,
    World,
)
from gapless.model.recording import Fact, Recording
from gapless.study.recorded.loader_facts import loaders
from gapless.study.recorded.training import Training, counted, steppers, trainings
from gapless.study.recorded.values import text, truth, where, whole

_OWN: Final = {"steps", "passes"}  # of the counted calls: what the ratio is made of
_PARALLEL: Final = ("ddp", "fsdp", "data_parallel")
_VERSION: Final = re.compile(r"(\d+)\.(\d+)")


def facts(recording: Recording) -> Facts:
    """Give the facts of a run; of one in which nothing trained or loaded, hardly any."""
    every = trainings(recording)
    stepping = steppers(every)
    first = (stepping or every or (None,))[0]
    if first is None:
        nothing = Machine(None, None, None, None, None, None, None, None, None)
        return Facts(World(1, None, None, None, 0, None), nothing)
    told = _told(first, "calls")
    calls = _calls(first, told)
    models = tuple(_model(one, calls) for one in _nouns(first, "model"))
    precision = _fact(first, "precision")
    return Facts(
        world=_world(first, every, told),
        machine=_machine(first, models),
        precision=None if precision is None else Precision(precision.values, where(precision)),
        loaders=loaders(first),
        optimizers=_optimizers(first, models),
        models=models,
        repeats=tuple(
            Repeat(where(one), text(one.values.get("class")) or "a module", each)
            for one in _nouns(first, "repeat")
            if isinstance(each := one.values.get("calls"), float)
        ),
        beside=tuple(_beside(first)),
        parallel=tuple(
            Parallel(noun, where(one), one.values)
            for noun in _PARALLEL
            for one in _nouns(first, noun)
        ),
        calls=calls,
        evaluations=tuple(
            found for one in _nouns(first, "evaluation") if (found := _evaluation(one)) is not None
        ),
    )


def _beside(training: Training) -> Iterator[Beside]:
    for one in _nouns(training, "thread"):
        ran, own = one.values.get("ran"), one.values.get("training_ran")
        if isinstance(ran, float) and isinstance(own, float):
            yield Beside(where(one), text(one.values.get("name")) or "a thread", ran, own)


def _nouns(training: Training, noun: str) -> list[Fact]:
    return [one for one in training.process.facts if one.noun == noun]


def _fact(training: Training, noun: str) -> Fact | None:
    return next(iter(_nouns(training, noun)), None)


def _told(training: Training, noun: str) -> Mapping[str, object]:
    fact = _fact(training, noun)
    return {} if fact is None else fact.values


def _world(first: Training, every: tuple[Training, ...], told: Mapping[str, object]) -> World:
    process, group = first.process, _told(first, "distributed")
    ranks = {one.process.rank for one in every}
    worlds = [one.process.world or 1 for one in every]
    many = max([len(ranks), *worlds, whole(group.get("world")) or 1])
    steps, passes = whole(told.get("steps")), whole(told.get("passes"))
    return World(
        ranks=many,
        torch=_version(process.versions.get("torch")),
        python=_version(process.versions.get("python")),
        micro_batches=passes / steps if steps and passes is not None else None,
        steps=first.edges.count,
        step_ns=_step(first),
        local_ranks=whole(group.get("local_world")) or many,
    )


def _version(found: str | None) -> tuple[int, int] | None:
    match = _VERSION.match(found or "")
    return None if match is None else (int(match[1]), int(match[2]))


def _step(training: Training) -> int | None:
    """Give the median of the steps that no profiler touched; ``None`` where there is none."""
    edges = training.edges
    if len(edges.ends) < 2:  # noqa: PLR2004 - no step lies between fewer
        return None
    lengths = np.diff(edges.ends)[counted(training) & edges.noted]
    return round(float(np.median(lengths))) if len(lengths) else None


def _machine(training: Training, models: tuple[Model, ...]) -> Machine:
    told = _told(training, "machine")
    on_device = any((one.device or "").startswith("cuda") for one in models)
    environment = told.get("environment")
    return Machine(
        cpus=whole(told.get("cpus")),
        intra_op_threads=whole(told.get("intra_op_threads")),
        device=text(told.get("device")) or ("a CUDA device" if on_device else None),
        capability=_pair(told.get("capability")),
        devices=whole(told.get("devices")),
        memory_bytes=whole(told.get("memory_bytes")),
        shm_bytes=whole(told.get("shm_bytes")),
        memlock_bytes=whole(told.get("memlock_bytes")),
        numa_nodes=whole(told.get("numa_nodes")),
        environment=_texts(environment),
        cpu_list=text(told.get("cpu_list")),
        device_cpus=text(told.get("device_cpus")),
        bf16=one if isinstance(one := told.get("bf16"), bool) else None,
        cores=whole(told.get("cores")),
    )


def _pair(value: object) -> tuple[int, int] | None:
    match value:
        case [int() as major, int() as minor]:
            return major, minor
        case _:
            return None


def _texts(value: object) -> dict[str, str]:
    if not isinstance(value, Mapping):
        return {}
    items: Mapping[object, object] = value  # pyright: ignore[reportUnknownVariableType]
    return {str(name): str(one) for name, one in items.items()}


def _calls(training: Training, told: Mapping[str, object]) -> dict[str, int]:
    """Count calls: those that were only counted, and those that are marks."""
    counted_ones = {name: whole(many) for name, many in told.items() if name not in _OWN}
    found = {name: many for name, many in counted_ones.items() if many is not None}
    marks, sums = training.process.marks, training.sums.calls
    for name, kind in (
        ("logging", wire.LOGGING),
        ("checkpoint", wire.CHECKPOINT),
        ("synchronize", wire.SYNC),
        ("collections", wire.COLLECTOR),
    ):
        found[name] = int((marks.kind == kind).sum()) + int(sums.of(kind).count.sum())
    found["evaluation"] = int(((marks.kind == wire.MODE) & (marks.value == 0)).sum())
    return found


def _optimizers(training: Training, models: tuple[Model, ...]) -> tuple[Optimizer, ...]:
    """Give the optimizers; those that one line made with the same settings are one."""
    found: dict[object, Optimizer] = {}
    devices = {one.device for one in models}
    usual = devices.pop() if len(devices) == 1 else None
    for fact in _nouns(training, "optimizer"):
        one = _optimizer(training, fact, usual)
        key = (one.where, one.name, one.foreach, one.fused, one.device) if one.where else one.id
        known = found.get(key)
        found[key] = replace(known, calls=known.calls + one.calls) if known else one
    return tuple(found.values())


def _optimizer(training: Training, fact: Fact, device: str | None) -> Optimizer:
    values, marks = fact.values, training.process.marks
    kept = int(((marks.kind == wire.STEP) & (marks.subject == fact.id)).sum())
    summed = int(training.sums.calls.of(wire.STEP, subject=fact.id).count.sum())
    return Optimizer(
        id=fact.id,
        where=where(fact),
        name=text(values.get("class")) or "an optimizer",
        foreach=truth(values.get("foreach")),
        fused=truth(values.get("fused")),
        tensors=whole(values.get("tensors")),
        calls=kept + summed,
        device=text(values.get("device")) or device,
        parameters=whole(values.get("parameters")),
        ungraded=whole(values.get("ungraded")),
        ungraded_parameters=whole(values.get("ungraded_parameters")),
    )


def _evaluation(fact: Fact) -> Evaluation | None:
    names = ("passes", "graphed", "nodes", "tensors")
    told = [many for name in names if (many := whole(fact.values.get(name))) is not None]
    if len(told) < len(names):
        return None
    return Evaluation(where(fact), *told, environment=text(fact.values.get("environment")))


def _model(fact: Fact, calls: Mapping[str, int]) -> Model:
    values = fact.values
    compiled = values.get("compiled") is True
    again = calls.get("checkpointing")
    return Model(
        id=fact.id,
        where=where(fact),
        name=text(values.get("class")) or "a model",
        parameters=whole(values.get("parameters")),
        dtype=text(values.get("dtype")),
        device=text(values.get("device")),
        channels_last=truth(values.get("channels_last")),
        convolutions=whole(values.get("convolutions")),
        compiled=compiled,
        # What is compiled calls no function of torch's that could be counted.
        checkpoints=None if again is None or (compiled and not again) else again > 0,
    )
