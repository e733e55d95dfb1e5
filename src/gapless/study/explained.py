"""What explains the difference of two runs: facts that changed, by the groups that they move."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import Final, TypeVar

from gapless.model.comparison import CauseDelta, ChargeDelta, FactDelta
from gapless.model.edit import Location
from gapless.model.facts import Facts, Loader, Model, Optimizer
from gapless.model.finding import Finding
from gapless.model.study import Study

# Which groups of the account a setting moves, by how it works; a setting that is not here moves
# whatever it likes, so that it explains nothing.
_MOVES: Final[Mapping[str, tuple[str, ...]]] = {
    "num_workers": ("data", "runtime"),
    "prefetch_factor": ("data",),
    "persistent_workers": ("data",),
    "pin_memory": ("copy", "data"),
    "in_order": ("data",),
    "shuffle": ("data",),
    "dataset": ("data",),
    "start_method": ("data",),
    "foreach": ("host", "compute"),
    "fused": ("host", "compute"),
    "optimizer": ("host", "compute"),
    "parameters": ("host", "compute", "copy"),
    "dtype": ("compute", "copy"),
    "channels_last": ("compute",),
    "compiled": ("compute", "host"),
    "checkpoints": ("compute",),
    "precision": ("compute",),
    "threads": ("compute", "data"),
    "processors": ("data", "compute", "host"),
    "ranks": ("communication",),
}
_ALL_WORK: Final = ("batch_size", "device", "torch")  # a step is not the same work, or elsewhere
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
_MIN_SHARE: Final = 0.1  # of the largest change: smaller ones are explained by nothing


_Thing = TypeVar("_Thing", Loader, Optimizer, Model)


def find_fact_deltas(a: Facts | None, b: Facts | None) -> tuple[FactDelta, ...]:
    """Return what was set, or present, in one run and not in the other."""
    if a is None or b is None:
        return ()
    values = [dict(_iter_values(facts)) for facts in (a, b)]
    locations = [_locations(facts) for facts in (a, b)]
    deltas = list[FactDelta]()
    for key in dict.fromkeys((*values[0], *values[1])):
        before, after = (side.get(key) for side in values)
        if before != after:
            subject, name = key
            location = locations[1].get(subject) or locations[0].get(subject)
            deltas.append(FactDelta(subject, name, _text(before), _text(after), location))
    return tuple(deltas)


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
    for name, value in sorted(settings.items()):
        yield ("precision", name), value


def _main_loaders(facts: Facts) -> Sequence[Loader]:
    return [loader for loader in facts.loaders if loader.trains is not False]


def _number(noun: str, things: Sequence[_Thing]) -> Iterator[tuple[str, _Thing]]:
    """Yield things with their names: "loader", "loader 2"."""
    for index, thing in enumerate(things):
        yield noun if not index else f"{noun} {index + 1}", thing


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
    """Return the causes of either run: gone, new, or still there; the most valuable first."""
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
        group.name: tuple(fact for fact in facts if _moves(fact, group.name))
        for group in groups
        if abs(group.delta_ns) > _MIN_SHARE * largest_ns and group.delta_ns
    }


def _moves(fact: FactDelta, group: str) -> bool:
    if fact.name in _ALL_WORK:
        return True
    name = "precision" if fact.subject == "precision" else fact.name
    return group in _MOVES.get(name, ()) or (group == "step" and "compute" in _MOVES.get(name, ()))


def is_other_work(facts: Sequence[FactDelta]) -> bool:
    """Return whether a step of one run is not the same work as one of the other."""
    return any(fact.name in {"batch_size", "parameters", "ranks"} for fact in facts)
