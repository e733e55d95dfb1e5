"""no-evaluation: a loader that evaluates gives its first batch only; of every n-th pass all.

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

from .. import models, training
from ..patch import edit_counters, multi_patch

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


class _LoaderPass:
    """One iteration of a loader."""

    __slots__ = ("after_training", "cut", "ended", "handed", "loader", "trained", "whole")

    def __init__(self, loader: Any, *, is_whole: bool, after_training: bool) -> None:
        self.loader = weakref.ref(loader)
        self.whole = is_whole
        self.after_training = after_training
        self.handed = 0
        self.trained = 0  # backward passes and steps when the last batch was handed over
        self.cut = self.ended = False  # where its indices come from; here


class _Evaluations:
    """What is known of the loaders, and of the passes over them that are under way."""

    def __init__(self, number: int, period: Any) -> None:
        self.number, self.every = number, period
        self.before = training.count()
        self.trains: Any = weakref.WeakSet()
        self.evaluates: Any = weakref.WeakSet()
        self.passes: Any = weakref.WeakKeyDictionary()  # by iterator
        self.counts: Any = weakref.WeakKeyDictionary()  # by loader: passes that evaluated
        self.models: Any = weakref.WeakSet()

    def add_model(self, module: Any) -> None:
        """Remember a model that is trained."""
        self.models.add(module)

    def mode(self) -> tuple[bool, bool]:
        """Return whether gradients are off, and whether some model is in eval mode."""
        no_grad = not sys.modules["torch"].is_grad_enabled()
        return no_grad, any(not model.training for model in list(self.models))

    def begin(self, iterator: Any, loader: Any) -> None:
        """Begin a pass; cut it at its source where it is known to evaluate."""
        count = self.counts.get(loader, 0) + 1
        is_whole = self.every is not None and count % self.every == 0
        later = training.count() > self.before
        loader_pass = self.passes[iterator] = _LoaderPass(
            loader, is_whole=is_whole, after_training=later
        )
        no_grad, evaluating = self.mode()
        evaluates = no_grad or (evaluating and loader in self.evaluates)
        if evaluates and loader not in self.trains and not is_whole:
            loader_pass.cut = True
            iterator._sampler_iter = itertools.islice(iterator._sampler_iter, 1)

    def over(self, loader_pass: _LoaderPass) -> bool:
        """Return whether a pass that has given a batch is to end now."""
        loader = loader_pass.loader()
        if loader_pass.ended or loader is None:
            return loader_pass.ended
        if training.count() != loader_pass.trained:
            self.trains.add(loader)
            self.evaluates.discard(loader)
        elif loader_pass.cut or (loader not in self.trains and self.evaluating(loader_pass)):
            self.evaluates.add(loader)
            if loader_pass.handed == 1:
                self.count(loader, is_whole=loader_pass.whole)
            loader_pass.ended = not loader_pass.whole and not loader_pass.cut
        return loader_pass.ended

    def evaluating(self, loader_pass: _LoaderPass) -> bool:
        """Return whether a pass evaluates, by the modes now.

        Of a pass before any training the models' mode says nothing: some train in eval mode, and
        ask for a batch ahead.
        """
        no_grad, evaluating = self.mode()
        return no_grad or (evaluating and loader_pass.after_training)

    def count(self, loader: Any, *, is_whole: bool) -> None:
        """Count a pass that evaluates, and record it if it is cut."""
        self.counts[loader] = self.counts.get(loader, 0) + 1
        if not is_whole:
            edit_counters.record_effect(self.number, TARGET, "every batch", "the first batch")


def apply(number: int, edit: Any) -> Callable[[], None]:
    """Apply an edit; option "every": every n-th pass is whole. Return what reverts it."""
    period = edit.get("options", {}).get("every")
    evaluations = edit.setdefault("kept", _Evaluations(number, period))  # it may be applied again
    replacements = multi_patch.Replacements(number, TARGET)
    for owner_names in _STARTS:
        make = functools.partial(_wrap_start, evaluations)
        replacements.replace(owner_names, ("__init__", "_reset"), make)
    for owner_names in _STEPS:
        replacements.replace(
            owner_names, ("_next_data",), functools.partial(_wrap_next_data, evaluations)
        )
    replacements.undos += [training.watch(), models.on_model(evaluations.add_model)]
    return replacements.off


def _wrap_start(evaluations: _Evaluations, original: Any, switch: Any) -> Any:
    @functools.wraps(original)
    def start(iterator: Any, loader: Any, *args: Any, **kwargs: Any) -> Any:
        result = original(iterator, loader, *args, **kwargs)
        if switch.on:
            evaluations.begin(iterator, loader)
        return result

    return start


def _wrap_next_data(evaluations: _Evaluations, original: Any, switch: Any) -> Any:
    @functools.wraps(original)
    def next_data(iterator: Any) -> Any:
        loader_pass = evaluations.passes.get(iterator) if switch.on else None
        if loader_pass is None:
            return original(iterator)
        if loader_pass.handed and evaluations.over(loader_pass):
            raise StopIteration
        batch = original(iterator)
        loader_pass.handed += 1
        loader_pass.trained = training.count()
        return batch

    return next_data
