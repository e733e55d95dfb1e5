"""Fixes in the terms of the framework that runs a training's loop, or of what makes its samples.

Where ``Trainer.train()`` or ``Trainer.fit()`` makes the loop, loaders, optimizers and precision are
its arguments: what a fix names (``DataLoader(num_workers=…)``) stands in no line of the user's.
"""

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from gapless.catalogue.framework_terms import ADVICE, CAUSES, DATA, DATA_IN, IN
from gapless.model.finding import Loss
from gapless.model.seen import Seen

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


def framework(seen: Seen) -> str | None:
    """Give the framework whose functions run the loop; ``None``: none was seen to.

    By the window with stacks: the one whose module has the function that most time went through.
    Of those that call one another that is the outermost.
    """
    lines = [(one.file.replace("\\", "/"), one.host_total_ns) for one in seen.study.tables.lines]
    spent = {
        name: max((ns for file, ns in lines if path.search(file)), default=0)
        for name, path in _LOOPS.items()
    }
    name = max(spent, key=lambda one: spent[one])
    derived = _DERIVED.get(name)
    if derived is not None and spent[derived]:
        return derived
    return name if spent[name] else None


def advice(name: str, fix: str) -> str | None:
    """Give how a framework is told of a fix ("more-workers=8"); ``None``: it has no word for it."""
    kind, _, value = fix.partition("=")
    told = ADVICE[name].get(kind.partition("@")[0])
    if told is None or "{}" not in told:
        return told
    return told.format(value) if value else None


def advised(seen: Seen, loss: Loss) -> Loss:
    """Add to what is to be done about a loss how its framework is told to: that comes first."""
    told = " ".join((*_of_loop(seen, loss), *_of_data(seen, loss)))
    if not told:
        return loss
    return replace(loss, told=told, no_remedy=f"{told} {loss.no_remedy or ''}".strip())


def _of_loop(seen: Seen, loss: Loss) -> Iterator[str]:
    name = framework(seen)
    if name is None:
        return
    words = (CAUSES.get(name, {}).get(loss.name), *(advice(name, fix) for fix in loss.helps))
    known = tuple(dict.fromkeys(one for one in words if one is not None))
    if known:
        yield f"With {IN[name]}: {'; '.join(known)}."


def _of_data(seen: Seen, loss: Loss) -> Iterator[str]:
    """Say what a library of data sets has against a cause: by the loader most waited for."""
    uses = () if seen.study.recorded is None else seen.study.recorded.loaders
    most = max(uses, key=lambda one: one.share or 0.0, default=None)
    if most is None:
        return
    made_by = (str(most.settings.get(name)).partition(".")[0] for name in ("dataset", "collate"))
    known = (package for package in made_by if loss.name in DATA.get(package, {}))
    for package in tuple(known)[:1]:
        yield f"With {DATA_IN[package]}: {DATA[package][loss.name]}."
