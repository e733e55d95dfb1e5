"""Stages of making a batch that are the cause of its being late; for rules of input."""

from typing import Final

from gapless.catalogue.choosing import name_line
from gapless.catalogue.lateness import has_late_batches, waits_lie_elsewhere
from gapless.catalogue.loading import Loading, measure_loading, percent, find_waited_loading
from gapless.catalogue.ruling import Rule
from gapless.catalogue.windowed import ms
from gapless.model.change import LoaderChange
from gapless.model.edit import Location
from gapless.model.facts import Loader
from gapless.model.finding import Detection, Measure
from gapless.model.run import StageUse
from gapless.model.seen import Evidence
from gapless.replay.service import BLOCKED

_MIN_READ_SHARE: Final = 0.5  # of the wait: reading was seen to be what is waited for
_EQUAL_RATIO: Final = 1.05  # so near, workers are as good as a stage less: they are easier to have
_MIN_DOMINANT_SHARE: Final = 0.6  # of a fetch: a stage that is said where workers are what is too few
_WORKERS_CAUSE: Final = "loader-in-training-process"  # the cause that more workers are the remedy of
_PAIRED_STAGES: Final = {"read": "other", "other": "read"}  # a data set's own: calls and code
_MAX_MEMORY_SHARE: Final = 0.25  # what samples that lie ready may take
_SHARED_RATIO: Final = 0.8  # beside a training on processors the first workers do not give what they may


def detect_slow_stage(rule: Rule, evidence: Evidence, loader: Loader, *, words: tuple[str, str]) -> Detection | None:
    """Return that a stage is what makes batches late: without it more is gained than by workers.

    A training that computes on processors, and makes its batches itself, would share these with
    workers: what they give at best must be well above what the stage gives, to be better.
    Where it is not, the cause is told only if it is not sure what workers give: they are easier to
    have. ``words``: the stage as it is marked, and what to do about it by hand.
    """
    loading = find_waited_loading(evidence, loader)
    stage, remedy = words
    if loading is None or waits_lie_elsewhere(loading) or loading.stages()[0].name != stage or loading.is_blocked:
        return None
    top, fetch_ns, n_batches = loading.stages()[0], loading.fetch_ns, _batches_per_step(evidence, loading)
    paired = _find_paired_stage(loading, top)
    spent_ns = fetch_ns * (top.share + (0.0 if paired is None else paired.share))
    remaining_share = loading.min_batch_ns / spent_ns if spent_ns else 1.0
    max_workers = max(loading.max_workers(), loader.num_workers)
    helped_ns = loading.min_step_ns(max_workers)
    without_ns = loading.min_step_ns(loader.num_workers, 1 - spent_ns / fetch_ns * (1 - remaining_share))
    is_ideal = evidence.on_device or loader.num_workers or has_late_batches(loading)
    workers_suffice = helped_ns <= without_ns * (_EQUAL_RATIO if is_ideal else _SHARED_RATIO)
    if remaining_share >= 1 or (workers_suffice and (loader.num_workers or has_late_batches(loading))):
        return None
    caveat = "" if is_ideal else ", if they did not want the processors that the training computes on"
    paired_words = "" if paired is None else f" and {_VERBS[paired.name].lower()}"
    verb = "takes" if paired is None else "take"
    return rule.detection(
        f"{_VERBS[stage]}{paired_words} {verb} {percent(spent_ns / fetch_ns)} of making a batch ({ms(spent_ns)} "
        f"of {ms(fetch_ns)}): without it a step could take {ms(n_batches * without_ns)}, with {_workers_phrase(max_workers)} "
        f"{ms(n_batches * helped_ns)} at best{caveat}.",
        LoaderChange(loader.id, stages={stage_use.name: remaining_share for stage_use in (top, paired) if stage_use is not None}),
        location=_stage_location(evidence, loading, stage),
        measures=(
            *measure_loading(loading),
            Measure(f"{stage}, a sample", top.wall_ns, "ns"),
            Measure(f"{stage} on a processor, a sample", top.cpu_ns, "ns"),
        ),
        no_remedy=remedy,
        unless=_WORKERS_CAUSE if workers_suffice else None,
    )


def _find_paired_stage(loading: Loading, top: StageUse) -> StageUse | None:
    """Return the stage that goes with another one, if samples lie ready in memory instead.

    What a data set reads for a sample, and what its own code makes of that, are then both done
    once: where samples are the same each time, and all of them fit.
    """
    needed_bytes, memory_bytes = _dataset_bytes(loading.loader), loading.facts.machine.memory_bytes
    if loading.loader.random or needed_bytes is None or needed_bytes > _MAX_MEMORY_SHARE * (memory_bytes or 0):
        return None
    name = _PAIRED_STAGES.get(top.name)
    return next((stage for stage in loading.stages() if stage.name == name), None)


def _dataset_bytes(loader: Loader) -> float | None:
    """Return what all samples of a data set take, as they come in batches; ``None``: not known.

    Where its length is not known, as much as all batches that it was asked for in several epochs.
    """
    if not loader.batch_bytes or not loader.batch_size:
        return None
    if loader.length is not None:
        return loader.length / loader.batch_size * loader.batch_bytes
    return loader.batches * loader.batch_bytes if loader.iterations > 1 else None


def detect_blocked_fetch(rule: Rule, evidence: Evidence, loader: Loader, remedy: str) -> Detection | None:
    """Return that a fetch is blocked for longer than any stage of it computes.

    Workers are another remedy of the same wait, whatever they would give: both are priced.
    """
    loading = find_waited_loading(evidence, loader)
    if loading is None or waits_lie_elsewhere(loading) or not loading.is_blocked:
        return None
    fetch_ns, blocked_ns, n_batches = loading.fetch_ns, loading.blocked_ns, _batches_per_step(evidence, loading)
    max_workers = max(loading.max_workers(), loader.num_workers)
    without_ns = loading.min_step_ns(loader.num_workers, 1 - blocked_ns / fetch_ns, 1.0)
    blocked_by_stage = {stage.name: max(0.0, stage.wall_ns - stage.cpu_ns) for stage in loading.stages()}
    read_share = blocked_by_stage.get("read", 0.0) / (sum(blocked_by_stage.values()) or 1.0)
    return rule.detection(
        f"Making a batch waits off the processor for {ms(blocked_ns)} of {ms(fetch_ns)}: without that a "
        f"step could take {ms(n_batches * without_ns)}, with {_workers_phrase(max_workers)} "
        f"{ms(n_batches * loading.min_step_ns(max_workers))} at best.",
        LoaderChange(loader.id, stages={BLOCKED: 1 - blocked_ns / (fetch_ns - (loading.cpu_ns or 0.0))}),
        location=_stage_location(evidence, loading, "read"),
        measures=(
            *measure_loading(loading),
            Measure("blocked, a batch", blocked_ns, "ns"),
            Measure("of that, in calls that read", read_share, "share"),
            Measure("on a processor, a batch", loading.cpu_ns or 0.0, "ns"),
        ),
        no_remedy=remedy,
        inferred=read_share < _MIN_READ_SHARE,
    )


def describe_main_stage(evidence: Evidence, loading: Loading) -> str:
    """Say which stage takes most of a fetch, and at which line; "" where none does."""
    sampler_share = loading.sampler_ns / loading.wait_ns if loading.wait_ns and not loading.loader.num_workers else 0.0
    if sampler_share >= _MIN_DOMINANT_SHARE:
        return f" Choosing samples takes {percent(sampler_share)} of making one{_location_phrase(loading.loader.sampler)}."
    top = next(iter(loading.workers.stages), None)
    if top is None or top.share * (1 - sampler_share) < _MIN_DOMINANT_SHARE:
        return ""
    function = loading.loader.collate if top.name == "collate" else loading.loader.sample
    location = _find_hottest_line(evidence, loading) or function
    share = percent(top.share * (1 - sampler_share))
    return f" {_VERBS[top.name]} takes {share} of making one{_location_phrase(location)}."


def _location_phrase(location: Location | None) -> str:
    function_phrase = "" if location is None or not location.function else f", in {location.function}"
    return "" if location is None else f" ({name_line(location)}{function_phrase})"


_VERBS: Final = {
    "read": "Reading",
    "decode": "Decoding",
    "augment": "Augmenting",
    "tokenise": "Tokenising",
    "collate": "Putting samples together",
    "other": "The data set's own code",
}


def _batches_per_step(evidence: Evidence, loading: Loading) -> int:
    """Return how many batches a step takes: several, where gradients are accumulated."""
    return max(1, round((evidence.step_ns or 0) / loading.step_ns)) if loading.step_ns else 1


def _workers_phrase(n_workers: int) -> str:
    return "one worker" if n_workers == 1 else f"{n_workers} workers"


def _stage_location(evidence: Evidence, loading: Loading, stage: str) -> Location | None:
    """Return the line that a stage is spent at.

    Of workers the one that was sampled most; else where the user's function begins that makes
    samples, or puts them together; else the loader's.
    """
    function = loading.loader.collate if stage == "collate" else loading.loader.sample
    return _find_hottest_line(evidence, loading) or function or loading.loader.location


def _find_hottest_line(evidence: Evidence, loading: Loading) -> Location | None:
    """Return the line of the user's at which batches were seen to be made most often."""
    recorded = evidence.study.recorded
    if recorded is None:
        return None
    making_lines = [line for line in recorded.loading_lines if line.thread == "making"]
    worker_lines = [line for line in recorded.lines if line.thread == "worker"]
    top = max(worker_lines if loading.workers.processes else making_lines, key=lambda line: line.count, default=None)
    return None if top is None else Location(top.file, top.line, top.function)
