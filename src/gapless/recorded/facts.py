"""What was true of a recorded run: its ``Facts``, from its processes' logs and its marks.

The first training process speaks for all: ranks of a job run the same program.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Final

import numpy as np
from msgspec.structs import replace

from gapless import wire
from gapless.model.facts import (
    BackgroundThread,
    Evaluation,
    Facts,
    Machine,
    Model,
    Optimizer,
    Parallel,
    Precision,
    Repeat,
    UntrainedModule,
    World,
)
from gapless.model.recording import Exchange, Fact, Recording
from gapless.recorded.loaders.facts import loaders
from gapless.recorded.nodes.exchanges import find_exchanges
from gapless.recorded.training.processes import Training, counted_steps, select_steppers, trainings
from gapless.recorded.values import as_bool, as_int, as_object, as_text, source_location

_RATIO_COUNTERS: Final = {"steps", "passes"}  # of the counted calls: the sample of the ratio
_PARALLEL: Final = ("ddp", "fsdp", "data_parallel")
_VERSION: Final = re.compile(r"(\d+)\.(\d+)")


def facts(recording: Recording) -> Facts:
    """Return the facts of a run; hardly any if nothing trained or loaded in it."""
    all_trainings = trainings(recording)
    stepping = select_steppers(all_trainings)
    first_training = (stepping or all_trainings or (None,))[0]
    if first_training is None:
        no_machine = Machine(None, None, None, None, None, None, None)
        return Facts(World(1, None, None, None, 0, None), no_machine)
    counters = _fact_values(first_training, "calls")
    calls = _count_calls(first_training, counters)
    models = tuple(_model(fact, calls) for fact in _facts_of(first_training, "model"))
    precision = _first_fact(first_training, "precision")
    return Facts(
        world=_world(first_training, all_trainings, counters, recording),
        machine=_machine(first_training, models),
        precision=None
        if precision is None
        else Precision(precision.values, source_location(precision)),
        loaders=loaders(first_training),
        optimizers=_optimizers(first_training, models),
        models=models,
        repeats=tuple(
            Repeat(
                source_location(fact),
                as_text(fact.values.get("class")) or "a module",
                n_calls,
                is_left=fact.values.get("is_left") is True,
            )
            for fact in _facts_of(first_training, "repeat")
            if isinstance(n_calls := fact.values.get("calls"), float)
        ),
        background_threads=tuple(_background_threads(first_training)),
        parallel=tuple(
            Parallel(noun, source_location(fact), fact.values)
            for noun in _PARALLEL
            for fact in _facts_of(first_training, noun)
        ),
        calls=calls,
        evaluations=tuple(
            evaluation
            for fact in _facts_of(first_training, "evaluation")
            if (evaluation := _evaluation(fact)) is not None
        ),
        untrained=tuple(_untrained_modules(first_training)),
    )


def _untrained_modules(training: Training) -> Iterator[UntrainedModule]:
    for fact in _facts_of(training, "untrained"):
        tensors, parameters = (as_int(fact.values.get(name)) for name in ("tensors", "parameters"))
        if tensors and parameters:
            name = as_text(fact.values.get("class")) or "a module"
            yield UntrainedModule(source_location(fact), name, tensors, parameters)


def _background_threads(training: Training) -> Iterator[BackgroundThread]:
    for fact in _facts_of(training, "thread"):
        ran, training_ran = fact.values.get("ran"), fact.values.get("training_ran")
        if isinstance(ran, float) and isinstance(training_ran, float):
            yield BackgroundThread(
                source_location(fact),
                as_text(fact.values.get("name")) or "a thread",
                ran,
                training_ran,
            )


def _facts_of(training: Training, noun: str) -> list[Fact]:
    return [fact for fact in training.process.facts if fact.noun == noun]


def _first_fact(training: Training, noun: str) -> Fact | None:
    return next(iter(_facts_of(training, noun)), None)


def _fact_values(training: Training, noun: str) -> Mapping[str, object]:
    fact = _first_fact(training, noun)
    return {} if fact is None else fact.values


def _world(
    first_training: Training,
    trainings: tuple[Training, ...],
    counters: Mapping[str, object],
    recording: Recording,
) -> World:
    process, distributed = first_training.process, _fact_values(first_training, "distributed")
    ranks = {training.process.rank for training in trainings}
    worlds = [training.process.world or 1 for training in trainings]
    n_ranks = max([len(ranks), *worlds, as_int(distributed.get("world")) or 1])
    steps, passes = as_int(counters.get("steps")), as_int(counters.get("passes"))
    n_passes = first_training.edges.passes
    if n_passes is None and steps and passes is not None:
        micro_batches: float | None = passes / steps
    else:
        micro_batches = n_passes
    return World(
        ranks=n_ranks,
        torch=_parse_version(process.versions.get("torch")),
        python=_parse_version(process.versions.get("python")),
        micro_batches=micro_batches,
        steps_are_passes=n_passes is not None,
        steps=first_training.edges.count,
        step_ns=_median_step_ns(first_training),
        local_ranks=as_int(distributed.get("local_world")) or n_ranks,
        hosts=tuple(dict.fromkeys(t.process.host for t in trainings if t.process.host)),
        links=_slowest_links(host_links := _links_by_host(trainings)),
        host_links=host_links,
        exchanges=_exchanges(recording, first_training),
    )


def _links_by_host(trainings: tuple[Training, ...]) -> dict[str, dict[str, int]]:
    """Return the speeds of each machine's links that state one, in Mbit/s."""
    speeds: dict[str, dict[str, int]] = {}
    for training in trainings:
        for name, speed in as_object(_fact_values(training, "distributed").get("links")).items():
            mbit = as_int(speed)
            if mbit is not None:
                speeds.setdefault(training.process.host or "", {})[name] = mbit
    return speeds


def _slowest_links(host_links: Mapping[str, Mapping[str, int]]) -> dict[str, int]:
    """Return the links of the job's machines by name: of several machines the slowest of each."""
    speeds: dict[str, int] = {}
    for links in host_links.values():
        for name, mbit in links.items():
            speeds[name] = min(mbit, speeds.get(name, mbit))
    return speeds


def _exchanges(recording: Recording, training: Training) -> tuple[Exchange, ...]:
    ends = training.edges.ends
    if len(recording.nodes) < 2 or len(ends) < 2:  # noqa: PLR2004 - no other machine; no step
        return ()
    return find_exchanges(recording, (int(ends[0]), int(ends[-1])))


def _parse_version(version: str | None) -> tuple[int, int] | None:
    match = _VERSION.match(version or "")
    return None if match is None else (int(match[1]), int(match[2]))


def _median_step_ns(training: Training) -> int | None:
    """Return the median of the un-profiled steps; ``None`` where there are none."""
    edges = training.edges
    if len(edges.ends) < 2:  # noqa: PLR2004 - no step lies between fewer
        return None
    lengths = np.diff(edges.ends)[counted_steps(training) & edges.is_single]
    return round(float(np.median(lengths))) if len(lengths) else None


def _machine(training: Training, models: tuple[Model, ...]) -> Machine:
    values = _fact_values(training, "machine")
    on_device = any((model.device or "").startswith("cuda") for model in models)
    environment = values.get("environment")
    return Machine(
        cpus=as_int(values.get("cpus")),
        intra_op_threads=as_int(values.get("intra_op_threads")),
        device=as_text(values.get("device")) or ("a CUDA device" if on_device else None),
        capability=_as_pair(values.get("capability")),
        devices=as_int(values.get("devices")),
        memory_bytes=as_int(values.get("memory_bytes")),
        shm_bytes=as_int(values.get("shm_bytes")),
        environment=_as_texts(environment),
        cpu_list=as_text(values.get("cpu_list")),
        device_cpus=as_text(values.get("device_cpus")),
        bf16=bf16 if isinstance(bf16 := values.get("bf16"), bool) else None,
        cores=as_int(values.get("cores")),
    )


def _as_pair(value: object) -> tuple[int, int] | None:
    match value:
        case [int() as major, int() as minor]:
            return major, minor
        case _:
            return None


def _as_texts(value: object) -> dict[str, str]:
    if not isinstance(value, Mapping):
        return {}
    items: Mapping[object, object] = value  # pyright: ignore[reportUnknownVariableType]
    return {str(name): str(text) for name, text in items.items()}


def _count_calls(training: Training, counters: Mapping[str, object]) -> dict[str, int]:
    """Count calls: those that were only counted, and those that are marks."""
    int_counters = {
        name: as_int(count) for name, count in counters.items() if name not in _RATIO_COUNTERS
    }
    counts = {name: count for name, count in int_counters.items() if count is not None}
    marks, sums = training.process.marks, training.sums.calls
    for name, kind in (
        ("logging", wire.LOGGING),
        ("checkpoint", wire.CHECKPOINT),
        ("synchronize", wire.SYNC),
        ("collections", wire.COLLECTOR),
    ):
        counts[name] = int((marks.kind == kind).sum()) + int(sums.select(kind).count.sum())
    counts["evaluation"] = int(((marks.kind == wire.MODE) & (marks.value == 0)).sum())
    return counts


def _optimizers(training: Training, models: tuple[Model, ...]) -> tuple[Optimizer, ...]:
    """Return the optimizers; those created by one line with the same settings are one."""
    optimizers: dict[object, Optimizer] = {}
    devices = {model.device for model in models}
    shared_device = devices.pop() if len(devices) == 1 else None
    for fact in _facts_of(training, "optimizer"):
        optimizer = _optimizer(training, fact, shared_device)
        key = (
            (
                optimizer.location,
                optimizer.name,
                optimizer.foreach,
                optimizer.fused,
                optimizer.device,
            )
            if optimizer.location
            else optimizer.id
        )
        earlier = optimizers.get(key)
        optimizers[key] = (
            replace(earlier, calls=earlier.calls + optimizer.calls) if earlier else optimizer
        )
    return tuple(optimizers.values())


def _optimizer(training: Training, fact: Fact, device: str | None) -> Optimizer:
    values, marks = fact.values, training.process.marks
    recorded_calls = int(((marks.kind == wire.STEP) & (marks.subject == fact.id)).sum())
    summed_calls = int(training.sums.calls.select(wire.STEP, subject=fact.id).count.sum())
    return Optimizer(
        id=fact.id,
        location=source_location(fact),
        name=as_text(values.get("class")) or "an optimizer",
        foreach=as_bool(values.get("foreach")),
        fused=as_bool(values.get("fused")),
        tensors=as_int(values.get("tensors")),
        calls=recorded_calls + summed_calls,
        device=as_text(values.get("device")) or device,
        parameters=as_int(values.get("parameters")),
        ungraded=as_int(values.get("ungraded")),
        ungraded_parameters=as_int(values.get("ungraded_parameters")),
    )


def _evaluation(fact: Fact) -> Evaluation | None:
    names = ("passes", "graphed", "nodes", "tensors")
    counts = [count for name in names if (count := as_int(fact.values.get(name))) is not None]
    if len(counts) < len(names):
        return None
    return Evaluation(
        source_location(fact), *counts, environment=as_text(fact.values.get("environment"))
    )


def _model(fact: Fact, calls: Mapping[str, int]) -> Model:
    values = fact.values
    compiled = values.get("compiled") is True
    checkpointing = calls.get("checkpointing")
    return Model(
        id=fact.id,
        location=source_location(fact),
        name=as_text(values.get("class")) or "a model",
        parameters=as_int(values.get("parameters")),
        dtype=as_text(values.get("dtype")),
        device=as_text(values.get("device")),
        channels_last=as_bool(values.get("channels_last")),
        convolutions=as_int(values.get("convolutions")),
        compiled=compiled,
        # Compiled code calls no function of torch's that could be counted.
        checkpoints=None
        if checkpointing is None or (compiled and not checkpointing)
        else checkpointing > 0,
    )
