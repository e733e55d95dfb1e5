"""Fixes in terms of the framework that runs the training loop, or of the library of its data.

Where ``Trainer.train()`` or ``Trainer.fit()`` makes the loop, loaders, optimizers and precision are
its arguments: what a fix names (``DataLoader(num_workers=…)``) is in no line of the user's.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Final

from msgspec.structs import replace

from gapless.catalogue.frameworks.terms import (
    CAUSE_ADVICE,
    FIX_ADVICE,
    FRAMEWORK_TITLES,
    LIBRARY_ADVICE,
    LIBRARY_TITLES,
    PLACES,
)
from gapless.model.edit import FixRequest, Location
from gapless.model.evidence import Evidence
from gapless.model.facts import Loader, Optimizer
from gapless.model.finding import Detection

_LOOPS: Final = {  # modules whose functions run the loop of a training
    name: re.compile(rf"(^|/){path}")
    for name, path in (
        ("sentence_transformers", r"sentence_transformers/(.*/)?trainer\.py$"),
        ("transformers", r"transformers/trainer\.py$"),
        ("lightning", r"(pytorch_lightning|lightning/pytorch)/"),
        ("fastai", r"fastai/learner\.py$"),
        ("ignite", r"ignite/engine/"),
        ("skorch", r"skorch/net\.py$"),
        ("stable_baselines3", r"stable_baselines3/"),
        ("ultralytics", r"ultralytics/engine/trainer\.py$"),
        ("accelerate", r"accelerate/(accelerator|data_loader|optimizer)\.py$"),
    )
}
_PACKAGES: Final = frozenset({*_LOOPS, "pytorch_lightning", "lightning_fabric"})
_OPTIMIZER_FIXES: Final = frozenset({"fused", "foreach"})
_MIN_LOOP_SHARE: Final = 0.9  # of the training thread's samples: its line runs the whole loop
_DERIVED: Final = {"transformers": "sentence_transformers"}  # framework → the one derived from it


def is_of_framework(file: str) -> bool:
    """Return whether a file, by its path within the packages, is one of a framework's own."""
    return re.split(r"[/\\]", file)[0] in _PACKAGES


def find_framework(evidence: Evidence) -> str | None:
    """Return the framework whose functions run the loop; ``None`` if none was seen to.

    It is the one with the function that most time of the window with stacks went through: the
    outermost of those that call one another. Where no window has stacks, it is the one whose
    function the user's code was sampled to be in nearly all the time.
    """
    lines = evidence.study.tables.lines
    times = [(line.file.replace("\\", "/"), float(line.host_total_ns)) for line in lines]
    if not times and not evidence.is_trace_only:
        calls = (call for call in evidence.call_lines if call.share >= _MIN_LOOP_SHARE)
        times = [(call.callee_file.replace("\\", "/"), call.share) for call in calls]
    time_by_framework = {
        name: max((time for file, time in times if path.search(file)), default=0.0)
        for name, path in _LOOPS.items()
    }
    name = max(time_by_framework, key=lambda candidate: time_by_framework[candidate])
    derived = _DERIVED.get(name)
    if derived is not None and time_by_framework[derived]:
        return derived
    return name if time_by_framework[name] else None


def find_advice(name: str, request: FixRequest) -> str | None:
    """Return a framework's setting for a fix; ``None`` if it has none."""
    term = FIX_ADVICE[name].get(request.fix)
    if term is None or "{}" not in term:
        return term
    return term.format(request.value) if request.value else None


def add_advice(evidence: Evidence, detection: Detection) -> Detection:
    """Return the detection with the advice for its framework put before the other advice."""
    loop_advice = tuple(_advise_loop(evidence, detection))
    advice = " ".join(loop_advice or _advise_data(evidence, detection))
    if not advice:
        return detection
    return replace(
        detection, advice=advice, no_remedy=f"{advice} {detection.no_remedy or ''}".strip()
    )


def find_part(types: Iterable[type], requests: Iterable[FixRequest]) -> str | None:
    """Return what a cause is about, by the facts that its rule looks at and by what helps."""
    if Loader in types:
        return "loader"
    is_optimizer = Optimizer in types or any(
        request.fix in _OPTIMIZER_FIXES for request in requests
    )
    return "optimizer" if is_optimizer else None


def find_place(evidence: Evidence, part: str | None, location: Location | None) -> str | None:
    """Return where a cause lies in a framework's words; ``None``: its line tells.

    That of ``trainer.train()`` does not: whatever the framework makes and does is at this one.
    """
    if part is None or location is None or not runs_loop(evidence, location):
        return None
    return PLACES.get(find_framework(evidence) or "", {}).get(part)


def runs_loop(evidence: Evidence, location: Location) -> bool:
    """Return whether nearly all that the training thread does is called from a line."""
    return any(
        line.thread == "training"
        and (line.file, line.line) == (location.file, location.line)
        and line.share >= _MIN_LOOP_SHARE
        for line in evidence.hot_lines
    )


def _advise_loop(evidence: Evidence, detection: Detection) -> Iterator[str]:
    name = find_framework(evidence)
    if name is None:
        return
    terms = (
        CAUSE_ADVICE.get(name, {}).get(detection.name),
        *(find_advice(name, request) for request in detection.helps),
    )
    known_terms = tuple(dict.fromkeys(term for term in terms if term is not None))
    if known_terms:
        yield f"With {FRAMEWORK_TITLES[name]}: {'; '.join(known_terms)}."


def _advise_data(evidence: Evidence, detection: Detection) -> Iterator[str]:
    """Return a data library's advice against a cause, for the loader most waited for."""
    uses = evidence.loader_uses
    top_use = max(uses, key=lambda use: use.share or 0.0, default=None)
    if top_use is None:
        return
    packages = (
        str(top_use.settings.get(name)).partition(".")[0] for name in ("dataset", "collate")
    )
    known_packages = (
        package for package in packages if detection.name in LIBRARY_ADVICE.get(package, {})
    )
    for package in tuple(known_packages)[:1]:
        yield f"With {LIBRARY_TITLES[package]}: {LIBRARY_ADVICE[package][detection.name]}."
