"""no-evaluation: a loader that evaluates gives its first batch only; of every N-th pass all.

A loader evaluates where two of its batches in a row trained nothing, and gradients are off when
the second is asked for, or a model that has been trained before is in eval mode. Known as such,
or iterated while gradients are off, it is cut where its indices come from, so that its workers
read no more than that batch either. One that was ever seen to train is left alone, whatever the
mode. One whose loop turns gradients off inside only, with a model in train mode, is not
recognised. The code that evaluates goes on with what it got: metrics are of one batch. An
ablation, for trials.
"""

from __future__ import annotations

import functools
import itertools
import sys
import weakref
from typing import Any, Callable

from .. import models, several, telling, training

TARGET = "evaluation"
_TORCH = "torch.utils.data.dataloader"
_STATEFUL = "torchdata.stateful_dataloader.stateful_dataloader"  # has ways of its own
_STARTS = ((_TORCH, "_BaseDataLoaderIter"),)
_STEPS = (
    (_TORCH, "_SingleProcessDataLoaderIter"),
    (_TORCH, "_MultiProcessingDataLoaderIter"),
    (_STATEFUL, "_StatefulSingleProcessDataLoaderIter"),
    (_STATEFUL, "_StatefulMultiProcessingDataLoaderIter"),
)


class _Pass:
    """One iteration of a loader."""

    __slots__ = ("after_training", "cut", "ended", "handed", "loader", "trained", "whole")

    def __init__(self, loader: Any, *, whole: bool, after_training: bool) -> None:
        self.loader = weakref.ref(loader)
        self.whole = whole
        self.after_training = after_training
        self.handed = 0
        self.trained = 0  # backward passes and steps when the last batch was handed over
        self.cut = self.ended = False  # where its indices come from; here


class _Evaluations:
    """What is known of the loaders, and of the passes over them that are under way."""

    def __init__(self, number: int, every: Any) -> None:
        self.number, self.every = number, every
        self.before = training.count()
        self.trains: Any = weakref.WeakSet()
        self.evaluates: Any = weakref.WeakSet()
        self.passes: Any = weakref.WeakKeyDictionary()  # by iterator
        self.counts: Any = weakref.WeakKeyDictionary()  # by loader: passes that evaluated
        self.models: Any = weakref.WeakSet()

    def met(self, module: Any) -> None:
        """Remember a model that is trained."""
        self.models.add(module)

    def mode(self) -> tuple[bool, bool]:
        """Tell whether gradients are off, and whether some model is in eval mode."""
        off = not sys.modules["torch"].is_grad_enabled()
        return off, any(not one.training for one in list(self.models))

    def begin(self, iterator: Any, loader: Any) -> None:
        """Begin a pass; cut it at its source where it is known to evaluate."""
        count = self.counts.get(loader, 0) + 1
        whole = self.every is not None and count % self.every == 0
        later = training.count() > self.before
        one = self.passes[iterator] = _Pass(loader, whole=whole, after_training=later)
        off, evaluating = self.mode()
        known = off or (evaluating and loader in self.evaluates)
        if known and loader not in self.trains and not whole:
            one.cut = True
            iterator._sampler_iter = itertools.islice(iterator._sampler_iter, 1)

    def over(self, one: _Pass) -> bool:
        """Tell whether a pass that has given a batch is to end now."""
        loader = one.loader()
        if one.ended or loader is None:
            return one.ended
        if training.count() != one.trained:
            self.trains.add(loader)
            self.evaluates.discard(loader)
        elif one.cut or (loader not in self.trains and self.evaluating(one)):
            self.evaluates.add(loader)
            if one.handed == 1:
                self.count(loader, whole=one.whole)
            one.ended = not one.whole and not one.cut
        return one.ended

    def evaluating(self, one: _Pass) -> bool:
        """Tell whether a pass evaluates, by the modes now.

        Of a pass before any training the models' mode says nothing: some train in eval mode, and
        ask for a batch ahead.
        """
        off, evaluating = self.mode()
        return off or (evaluating and one.after_training)

    def count(self, loader: Any, *, whole: bool) -> None:
        """Count a pass that evaluates, and tell of it if it is cut."""
        self.counts[loader] = self.counts.get(loader, 0) + 1
        if not whole:
            telling.told(self.number, TARGET, "every batch", "the first batch")


def lay(number: int, edit: Any) -> Callable[[], None]:
    """Lay an edit; option "every": each so manyth pass is whole. Give what takes it off."""
    found = _Evaluations(number, edit.get("options", {}).get("every"))
    replaced = several.Several(number, TARGET)
    for place in _STARTS:
        make = functools.partial(_starting, found)
        replaced.replace(place, ("__init__", "_reset"), make)
    for place in _STEPS:
        replaced.replace(place, ("_next_data",), functools.partial(_stepping, found))
    replaced.undos += [training.watch(), models.on_model(found.met)]
    return replaced.off


def _starting(found: _Evaluations, original: Any, switch: Any) -> Any:
    @functools.wraps(original)
    def start(iterator: Any, loader: Any, *args: Any, **kwargs: Any) -> Any:
        result = original(iterator, loader, *args, **kwargs)
        if switch.on:
            found.begin(iterator, loader)
        return result

    return start


def _stepping(found: _Evaluations, original: Any, switch: Any) -> Any:
    @functools.wraps(original)
    def next_data(iterator: Any) -> Any:
        one = found.passes.get(iterator) if switch.on else None
        if one is None:
            return original(iterator)
        if one.handed and found.over(one):
            raise StopIteration
        batch = original(iterator)
        one.handed += 1
        one.trained = training.count()
        return batch

    return next_data
