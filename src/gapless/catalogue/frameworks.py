"""Fixes in the terms of the framework that runs a training's loop, or of what makes its samples.

Where ``Trainer.train()`` or ``Trainer.fit()`` makes the loop, loaders, optimizers and precision are
its arguments: what a fix names (``DataLoader(num_workers=…)``) stands in no line of the user's.
"""

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from gapless.catalogue.framework_terms import FIX_ADVICE, CAUSE_ADVICE, LIBRARY_ADVICE, LIBRARY_TITLES, FRAMEWORK_TITLES
from gapless.model.finding import Detection
from gapless.model.seen import Evidence

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
_DERIVED: Final = {"transformers": "sentence_transformers"}  # what runs within whose loop


def find_framework(evidence: Evidence) -> str | None:
    """Return the framework whose functions run the loop; ``None``: none was seen to.

    By the window with stacks: the one whose module has the function that most time went through.
    Of those that call one another that is the outermost.
    """
    lines = [(line.file.replace("\\", "/"), line.host_total_ns) for line in evidence.study.tables.lines]
    ns_by_framework = {
        name: max((ns for file, ns in lines if path.search(file)), default=0)
        for name, path in _LOOPS.items()
    }
    name = max(ns_by_framework, key=lambda candidate: ns_by_framework[candidate])
    derived = _DERIVED.get(name)
    if derived is not None and ns_by_framework[derived]:
        return derived
    return name if ns_by_framework[name] else None


def find_advice(name: str, fix: str) -> str | None:
    """Return how a framework is told of a fix ("more-workers=8"); ``None``: it has no word for it."""
    kind, _, value = fix.partition("=")
    term = FIX_ADVICE[name].get(kind.partition("@")[0])
    if term is None or "{}" not in term:
        return term
    return term.format(value) if value else None


def add_advice(evidence: Evidence, detection: Detection) -> Detection:
    """Add to what is to be done about a loss how its framework is told to: that comes first."""
    advice = " ".join((*_advise_loop(evidence, detection), *_advise_data(evidence, detection)))
    if not advice:
        return detection
    return replace(detection, advice=advice, no_remedy=f"{advice} {detection.no_remedy or ''}".strip())


def _advise_loop(evidence: Evidence, detection: Detection) -> Iterator[str]:
    name = find_framework(evidence)
    if name is None:
        return
    terms = (CAUSE_ADVICE.get(name, {}).get(detection.name), *(find_advice(name, fix) for fix in detection.helps))
    known_terms = tuple(dict.fromkeys(term for term in terms if term is not None))
    if known_terms:
        yield f"With {FRAMEWORK_TITLES[name]}: {'; '.join(known_terms)}."


def _advise_data(evidence: Evidence, detection: Detection) -> Iterator[str]:
    """Say what a library of data sets has against a cause: by the loader most waited for."""
    uses = () if evidence.study.recorded is None else evidence.study.recorded.loaders
    top_use = max(uses, key=lambda use: use.share or 0.0, default=None)
    if top_use is None:
        return
    packages = (str(top_use.settings.get(name)).partition(".")[0] for name in ("dataset", "collate"))
    known_packages = (package for package in packages if detection.name in LIBRARY_ADVICE.get(package, {}))
    for package in tuple(known_packages)[:1]:
        yield f"With {LIBRARY_TITLES[package]}: {LIBRARY_ADVICE[package][detection.name]}."
