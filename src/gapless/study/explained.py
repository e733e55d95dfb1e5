"""What explains the difference of two runs: facts that changed, by the groups that they move."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import Final, TypeVar

from gapless.model.comparison import CauseDelta, ChargeDelta, FactDelta
from gapless.model.edit import Location
from gapless.model.facts import Facts, Loader, Model, Optimizer
from gapless.model.finding import Finding
from gapless.model.run import CpuContention
from gapless.model.study import Study

# Which groups of the account a setting moves, by how it works, and which way where more of it (or
# having it) moves that one way: −1 less time, +1 more, 0 either. What is not here explains nothing.
_MOVES: Final[Mapping[str, Mapping[str, int]]] = {
    "num_workers": {"data": -1},
    "prefetch_factor": {"data": -1},
    "persistent_workers": {"data": -1},
    "pin_memory": {"copy": -1, "data": 0},
    "in_order": {"data": 0},
    "shuffle": {"data": 0},
    "dataset": {"data": 0},
    "start_method": {"data": 0},
    "foreach": {"host": -1, "compute": -1, "step": -1},
    "fused": {"host": -1, "compute": -1, "step": -1},
    "optimizer": {"host": 0, "compute": 0, "step": 0},
    "parameters": {"host": 1, "compute": 1, "copy": 0, "communication": 1, "step": 1},
    "dtype": {"compute": 0, "copy": 0, "step": 0},
    "channels_last": {"compute": 0, "step": 0},
    "compiled": {"compute": -1, "host": -1, "step": -1},
    "checkpoints": {"compute": 1, "step": 1},
    "precision": {"compute": 0, "copy": 0, "host": 0, "step": 0},
    "threads": {"compute": -1, "data": -1, "step": -1},
    "processors": {"data": -1, "compute": -1, "host": -1, "step": -1},
    "processors taken by others": {"data": 1, "compute": 1, "host": 1, "step": 1},
    "ranks": {"communication": 1, "data": 0},
    "batch_size": {"data": 1, "compute": 1, "copy": 1, "step": 1, "host": 0, "communication": 0},
    "device": {"compute": 0, "copy": 0, "host": 0, "sync": 0, "communication": 0, "step": 0},
    "torch": {"compute": 0, "host": 0, "sync": 0, "runtime": 0, "step": 0},
}
# A step of one is not the same work as one of the other, or it is done elsewhere: named first.
_FIRST: Final = ("parameters", "batch_size", "device", "processors")
_LOADER_SETTINGS: Final = (
    "batch_size",
    "num_workers",
    "prefetch_factor",
    "pin_memory",
    "persistent_workers",
    "in_order",
    "shuffle",
    "dataset",
    "start_method",
)
_OPTIMIZER_SETTINGS: Final = ("foreach", "fused")
_MODEL_SETTINGS: Final = ("parameters", "dtype", "channels_last", "compiled", "checkpoints")
_UNSET: Final = frozenset({"prefetch_factor", "start_method", "foreach", "fused"})  # may be None
_SIZES: Final = {"False": "0", "True": "1"}
_MIN_OTHERS_SHARE: Final = 0.1  # of the processors, by which what others took differs
_MIN_SHARE: Final = 0.1  # of the largest change: smaller ones are explained by nothing


_Thing = TypeVar("_Thing", Loader, Optimizer, Model)


def find_fact_deltas(a: Facts | None, b: Facts | None) -> tuple[FactDelta, ...]:
    """Return what was set, or present, in one run and not in the other.

    What one run did not record is no difference.
    """
    if a is None or b is None:
        return ()
    values = [dict(_iter_values(facts)) for facts in (a, b)]
    in_both = {subject for subject, _ in values[0]} & {subject for subject, _ in values[1]}
    locations = [_locations(facts) for facts in (a, b)]
    deltas = list[FactDelta]()
    for key in dict.fromkeys((*values[0], *values[1])):
        before, after = (side.get(key) for side in values)
        subject, name = key
        is_recorded = None not in (before, after) or name in _UNSET or subject not in in_both
        if before != after and is_recorded:
            location = locations[1].get(subject) or locations[0].get(subject)
            deltas.append(FactDelta(subject, name, _text(before), _text(after), location))
    return tuple(deltas)


def find_load_delta(a: CpuContention | None, b: CpuContention | None) -> tuple[FactDelta, ...]:
    """Return how many processors other processes took, where that differs considerably."""
    if a is None or b is None or not a.processors:
        return ()
    if abs(b.cores - a.cores) <= _MIN_OTHERS_SHARE * a.processors:
        return ()
    values = f"{a.cores:.2g}", f"{b.cores:.2g}"
    return (FactDelta("machine", "processors taken by others", *values),)


def _iter_values(facts: Facts) -> Iterator[tuple[tuple[str, str], object]]:
    yield ("machine", "device"), facts.machine.device
    yield ("machine", "processors"), facts.machine.cpus
    yield ("machine", "threads"), facts.machine.intra_op_threads
    torch = facts.world.torch
    yield ("run", "torch"), None if torch is None else f"{torch[0]}.{torch[1]}"
    yield ("run", "ranks"), facts.world.ranks
    for subject, loader in _number("loader", _main_loaders(facts)):
        for name in _LOADER_SETTINGS:
            yield (subject, name), getattr(loader, name)
    for subject, optimizer in _number("optimizer", facts.optimizers):
        yield (subject, "optimizer"), optimizer.name.rpartition(".")[2]
        for name in _OPTIMIZER_SETTINGS:
            yield (subject, name), getattr(optimizer, name)
    for subject, model in _number("model", facts.models):
        for name in _MODEL_SETTINGS:
            yield (subject, name), getattr(model, name)
    settings = facts.precision.settings if facts.precision else dict[str, object]()
    yield ("precision", "settings"), None  # of both: what one did not record is not gone
    for name, value in sorted(settings.items()):
        yield ("precision", name), value


def _main_loaders(facts: Facts) -> Sequence[Loader]:
    return [loader for loader in facts.loaders if loader.trains is not False]


def _number(noun: str, things: Sequence[_Thing]) -> Iterator[tuple[str, _Thing]]:
    """Yield things with their names: "loader", "loader 2"."""
    for index, item in enumerate(things):
        yield noun if not index else f"{noun} {index + 1}", item


def _locations(facts: Facts) -> dict[str, Location | None]:
    locations = dict[str, Location | None]()
    for subject, loader in _number("loader", _main_loaders(facts)):
        locations[subject] = loader.location
    for subject, optimizer in _number("optimizer", facts.optimizers):
        locations[subject] = optimizer.location
    for subject, model in _number("model", facts.models):
        locations[subject] = model.location
    return locations


def _text(value: object) -> str | None:
    return None if value is None else str(value)


def find_cause_deltas(a: Study, b: Study) -> tuple[CauseDelta, ...]:
    """Return the causes of either run: what is gone or new first, then what stays."""
    sides = [_causes(study) for study in (a, b)]
    deltas = [
        CauseDelta(
            code=key[0],
            name=(sides[1].get(key) or sides[0][key]).detection.name,
            location=(sides[1].get(key) or sides[0][key]).detection.location,
            a=_speedup(sides[0].get(key)),
            b=_speedup(sides[1].get(key)),
            in_a=key in sides[0],
            in_b=key in sides[1],
        )
        for key in dict.fromkeys((*sides[0], *sides[1]))
    ]
    return tuple(sorted(deltas, key=lambda delta: delta.in_a and delta.in_b))


def _causes(study: Study) -> dict[tuple[str, str | None], Finding]:
    findings = study.diagnosis.findings if study.diagnosis else ()
    causes: dict[tuple[str, str | None], Finding] = {}
    for finding in findings:
        location = finding.detection.location
        file = None if location is None else PurePath(location.file).name
        causes.setdefault((finding.detection.code, file), finding)
    return causes


def _speedup(finding: Finding | None) -> float | None:
    speedup = None if finding is None else finding.prediction.speedup
    return None if speedup is None else speedup.mid


def explain_groups(
    groups: Sequence[ChargeDelta], facts: Sequence[FactDelta]
) -> dict[str, tuple[FactDelta, ...]]:
    """Return, for each group that changed considerably, the changed facts that move it."""
    largest_ns = max((abs(group.delta_ns) for group in groups), default=0)
    return {
        group.name: tuple(
            sorted(
                (fact for fact in facts if _moves(fact, group)),
                key=lambda fact: fact.name not in _FIRST,
            )
        )
        for group in groups
        if abs(group.delta_ns) > _MIN_SHARE * largest_ns and group.delta_ns
    }


def _moves(fact: FactDelta, group: ChargeDelta) -> bool:
    """Return whether a changed setting works on a group, and this way."""
    name = "precision" if fact.subject == "precision" else fact.name
    way = _MOVES.get(name, {}).get(group.name)
    change = _direction(fact)
    if way is None or fact.a == fact.b:
        return False
    return not way or not change or way * change * group.delta_ns > 0


def _direction(fact: FactDelta) -> int:
    """Return whether there is more of it in B (1), less (−1), or neither can be said (0)."""
    sizes = [_SIZES.get(text or "", text) for text in (fact.a, fact.b)]
    try:
        before, after = (float(size) if size is not None else None for size in sizes)
    except ValueError:
        return 0
    if before is None or after is None:
        return 0
    return (after > before) - (after < before)


def is_other_work(facts: Sequence[FactDelta]) -> bool:
    """Return whether a step of one run is not the same work as one of the other."""
    return any(fact.name in {"batch_size", "parameters", "ranks"} for fact in facts)
