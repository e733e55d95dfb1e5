"""Stages of making a batch that are the cause of its being late; for rules of input."""

from typing import Final

from gapless.catalogue.choosing import named
from gapless.catalogue.lateness import late_alone, lies_elsewhere
from gapless.catalogue.loading import Loading, evidence, percent, waited
from gapless.catalogue.ruling import Rule
from gapless.catalogue.windowed import ms
from gapless.model.change import Feed
from gapless.model.edit import Where
from gapless.model.facts import Loader
from gapless.model.finding import Loss, Measure
from gapless.model.run import StageUse
from gapless.model.seen import Seen
from gapless.replay.service import BLOCKED

_MOST: Final = 0.5  # of the wait: reading was seen to be what is waited for
_AS_GOOD: Final = 1.05  # so near, workers are as good as a stage less: they are easier to have
_DOMINANT: Final = 0.6  # of a fetch: a stage that is said where workers are what is too few
_WORKERS: Final = "loader-in-training-process"  # the cause that more workers are the remedy of
_TOGETHER: Final = {"read": "other", "other": "read"}  # a data set's own: calls and code
_OF_MEMORY: Final = 0.25  # what samples that lie ready may take
_SHARED: Final = 0.8  # beside a training on processors the first workers do not give what they may


def stage_bound(this: Rule, seen: Seen, loader: Loader, *, words: tuple[str, str]) -> Loss | None:
    """Give that a stage is what makes batches late: without it more is gained than by workers.

    A training that computes on processors, and makes its batches itself, would share these with
    workers: what they give at best must be well above what the stage gives, to be better.
    Where it is not, the cause is told only if it is not sure what workers give: they are easier to
    have. ``words``: the stage as it is marked, and what to do about it by hand.
    """
    one = waited(seen, loader)
    stage, remedy = words
    if one is None or lies_elsewhere(one) or one.stages()[0].name != stage or one.blocks:
        return None
    found, cost, many = one.stages()[0], one.fetch_ns, _batches(seen, one)
    ready = _ready_with(one, found)
    spent = cost * (found.share + (0.0 if ready is None else ready.share))
    left = one.moved_ns / spent if spent else 1.0
    most = max(one.most(), loader.num_workers)
    helped = one.at_best(most)
    without = one.at_best(loader.num_workers, 1 - spent / cost * (1 - left))
    ideal = seen.on_device or loader.num_workers or late_alone(one)
    workers_do = helped <= without * (_AS_GOOD if ideal else _SHARED)
    if left >= 1 or (workers_do and (loader.num_workers or late_alone(one))):
        return None
    beside = "" if ideal else ", if they did not want the processors that the training computes on"
    also = "" if ready is None else f" and {_VERBS[ready.name].lower()}"
    take = "takes" if ready is None else "take"
    return this.loss(
        f"{_VERBS[stage]}{also} {take} {percent(spent / cost)} of making a batch ({ms(spent)} "
        f"of {ms(cost)}): without it a step could take {ms(many * without)}, with {_hands(most)} "
        f"{ms(many * helped)} at best{beside}.",
        Feed(loader.id, stages={part.name: left for part in (found, ready) if part is not None}),
        where=_place(seen, one, stage),
        evidence=(
            *evidence(one),
            Measure(f"{stage}, a sample", found.wall_ns, "ns"),
            Measure(f"{stage} on a processor, a sample", found.cpu_ns, "ns"),
        ),
        no_remedy=remedy,
        unless=_WORKERS if workers_do else None,
    )


def _ready_with(one: Loading, top: StageUse) -> StageUse | None:
    """Give the stage that goes with another one, if samples lie ready in memory instead.

    What a data set reads for a sample, and what its own code makes of that, are then both done
    once: where samples are the same each time, and all of them fit.
    """
    needs, memory = _bytes(one.loader), one.facts.machine.memory_bytes
    if one.loader.random or needs is None or needs > _OF_MEMORY * (memory or 0):
        return None
    name = _TOGETHER.get(top.name)
    return next((part for part in one.stages() if part.name == name), None)


def _bytes(loader: Loader) -> float | None:
    """Give what all samples of a data set take, as they come in batches; ``None``: not known.

    Where its length is not known, as much as all batches that it was asked for in several epochs.
    """
    if not loader.batch_bytes or not loader.batch_size:
        return None
    if loader.length is not None:
        return loader.length / loader.batch_size * loader.batch_bytes
    return loader.batches * loader.batch_bytes if loader.iterations > 1 else None


def blocked(this: Rule, seen: Seen, loader: Loader, remedy: str) -> Loss | None:
    """Give that a fetch is blocked for longer than any stage of it computes.

    Workers are another remedy of the same wait, whatever they would give: both are priced.
    """
    one = waited(seen, loader)
    if one is None or lies_elsewhere(one) or not one.blocks:
        return None
    cost, spent, many = one.fetch_ns, one.blocked_ns, _batches(seen, one)
    most = max(one.most(), loader.num_workers)
    without = one.at_best(loader.num_workers, 1 - spent / cost, 1.0)
    off = {part.name: max(0.0, part.wall_ns - part.cpu_ns) for part in one.stages()}
    read = off.get("read", 0.0) / (sum(off.values()) or 1.0)
    return this.loss(
        f"Making a batch waits off the processor for {ms(spent)} of {ms(cost)}: without that a "
        f"step could take {ms(many * without)}, with {_hands(most)} "
        f"{ms(many * one.at_best(most))} at best.",
        Feed(loader.id, stages={BLOCKED: 1 - spent / (cost - (one.cpu_ns or 0.0))}),
        where=_place(seen, one, "read"),
        evidence=(
            *evidence(one),
            Measure("blocked, a batch", spent, "ns"),
            Measure("of that, in calls that read", read, "share"),
            Measure("on a processor, a batch", one.cpu_ns or 0.0, "ns"),
        ),
        no_remedy=remedy,
        inferred=read < _MOST,
    )


def mainly(seen: Seen, one: Loading) -> str:
    """Say which stage takes most of a fetch, and at which line; "" where none does."""
    chosen = one.sampler_ns / one.wait_ns if one.wait_ns and not one.loader.num_workers else 0.0
    if chosen >= _DOMINANT:
        return f" Choosing samples takes {percent(chosen)} of making one{_at(one.loader.sampler)}."
    top = next(iter(one.workers.stages), None)
    if top is None or top.share * (1 - chosen) < _DOMINANT:
        return ""
    function = one.loader.collate if top.name == "collate" else one.loader.sample
    place = _hottest(seen, one) or function
    share = percent(top.share * (1 - chosen))
    return f" {_VERBS[top.name]} takes {share} of making one{_at(place)}."


def _at(place: Where | None) -> str:
    within = "" if place is None or not place.function else f", in {place.function}"
    return "" if place is None else f" ({named(place)}{within})"


_VERBS: Final = {
    "read": "Reading",
    "decode": "Decoding",
    "augment": "Augmenting",
    "tokenise": "Tokenising",
    "collate": "Putting samples together",
    "other": "The data set's own code",
}


def _batches(seen: Seen, one: Loading) -> int:
    """Give how many batches a step takes: several, where gradients are accumulated."""
    return max(1, round((seen.step_ns or 0) / one.step_ns)) if one.step_ns else 1


def _hands(many: int) -> str:
    return "one worker" if many == 1 else f"{many} workers"


def _place(seen: Seen, one: Loading, stage: str) -> Where | None:
    """Give the line that a stage is spent at.

    Of workers the one that was sampled most; else where the user's function begins that makes
    samples, or puts them together; else the loader's.
    """
    function = one.loader.collate if stage == "collate" else one.loader.sample
    return _hottest(seen, one) or function or one.loader.where


def _hottest(seen: Seen, one: Loading) -> Where | None:
    """Give the line of the user's at which batches were seen to be made most often."""
    recorded = seen.study.recorded
    if recorded is None:
        return None
    own = [line for line in recorded.loading_lines if line.thread == "making"]
    lines = [line for line in recorded.lines if line.thread == "worker"]
    top = max(lines if one.workers.processes else own, key=lambda line: line.count, default=None)
    return None if top is None else Where(top.file, top.line, top.function)
