"""Stages of making a batch that cause it to be late; for input rules."""

from collections.abc import Callable
from typing import Final

from gapless.catalogue.declare.rule import Rule
from gapless.catalogue.declare.selectors import name_line
from gapless.catalogue.queries.input.fetch_waits import (
    MIN_READ_SHARE,
    describe_wait,
    find_blocked_loading,
    find_main_wait,
    leave_out_waits,
    measure_read_share,
)
from gapless.catalogue.queries.input.fresh_memory import is_torch_collate
from gapless.catalogue.queries.input.late_batches import has_late_batches, waits_lie_elsewhere
from gapless.catalogue.queries.input.loaders import (
    Loading,
    find_waited_loading,
    measure_loading,
    percent,
)
from gapless.catalogue.queries.input.packing import packing_advice
from gapless.catalogue.queries.windows import ms
from gapless.model.change import LoaderChange
from gapless.model.edit import FixRequest, Location
from gapless.model.evidence import Evidence
from gapless.model.facts import Loader
from gapless.model.finding import Detection, Measure
from gapless.model.run import StageUse

_EQUAL_RATIO: Final = 1.05  # within this, workers are as good as removing a stage
# Of a fetch: above it, a stage is named where workers are too few.
_MIN_DOMINANT_SHARE: Final = 0.6
_MIN_USUAL_SHARE: Final = 0.1  # of a step, or what takes what torch's own does is no cause
_WORKERS_CAUSE: Final = "loader-in-training-process"  # the cause that more workers remove
_PAIRED_STAGES: Final = {"read": "other", "other": "read"}  # the data set's own: calls and code
_MIN_EVALUATION_SHARE: Final = 0.1  # of the waits for a loader
_MAX_MEMORY_SHARE: Final = 0.25  # that samples kept in memory may take
# A sample out of a list, and a row of two tensors (benchmarks/kept_samples.py).
_LISTED_NS, _INDEXED_NS = 500.0, 4_000.0
_FETCH_NS: Final = 50_000.0  # assumed: what a fetch calls of the loader itself
_TENSOR_DATASET: Final = "TensorDataset"
# Beside a training on processors, the first workers gain less than their bound.
_SHARED_RATIO: Final = 0.8


def detect_slow_stage(
    rule: Rule,
    evidence: Evidence,
    loader: Loader,
    *,
    words: tuple[str, str],
    helps: Callable[[Loading], tuple[FixRequest, ...]] | None = None,
) -> Detection | None:
    """Return the detection that a stage makes batches late: removing it gains more than workers.

    A training that computes on processors and makes its batches itself would share them with
    workers: their gain at best must be well above that of removing the stage to be preferred.
    Otherwise, as workers are easier to add, the stage is reported only if their gain is uncertain.
    ``words``: the name of the stage, and what to do about it by hand. ``helps``: which fixes do.
    """
    loading = find_waited_loading(evidence, loader)
    stage, remedy = words
    if (
        loading is None
        or waits_lie_elsewhere(loading)
        or loading.stages()[0].name != stage
        or loading.is_blocked
    ):
        return None
    top, fetch_ns, n_batches = (
        loading.stages()[0],
        loading.fetch_ns,
        _batches_per_step(evidence, loading),
    )
    paired = _find_paired_stage(loading, top)
    spent_ns = fetch_ns * (top.share + (0.0 if paired is None else paired.share))
    min_ns = _min_samples_ns(loading) if stage == "other" else loading.min_batch_ns
    remaining_share = min_ns / spent_ns if spent_ns else 1.0
    max_workers = max(loading.max_workers(), loader.num_workers)
    helped_ns = loading.min_step_ns(max_workers)
    without_ns = loading.min_step_ns(
        loader.num_workers, 1 - spent_ns / fetch_ns * (1 - remaining_share)
    )
    is_ideal = evidence.on_device or loader.num_workers or has_late_batches(loading)
    workers_suffice = helped_ns <= without_ns * (_EQUAL_RATIO if is_ideal else _SHARED_RATIO)
    if (
        remaining_share >= 1
        or (workers_suffice and (loader.num_workers or has_late_batches(loading)))
        or _is_usual(evidence, loader, top)
    ):
        return None
    caveat = (
        "" if is_ideal else ", if they did not need the processors that the training computes on"
    )
    paired_words = "" if paired is None else f" and {VERBS[paired.name].lower()}"
    verb = "takes" if paired is None else "take"
    return rule.detection(
        f"{VERBS[stage]}{paired_words} {verb} {percent(spent_ns / fetch_ns)} of making a batch "
        f"({ms(spent_ns)} of {ms(fetch_ns)}): without it a step could take "
        f"{ms(n_batches * without_ns)}, with {_workers_phrase(max_workers)} "
        f"{ms(n_batches * helped_ns)} at best{caveat}.{_describe_evaluations(loading, n_batches)}",
        LoaderChange(
            loader.id,
            stages={
                stage_use.name: remaining_share
                for stage_use in (top, paired)
                if stage_use is not None
            },
        ),
        location=_stage_location(evidence, loading, stage),
        measures=(
            *measure_loading(loading),
            Measure(f"{stage}, a sample", top.wall_ns, "ns"),
            Measure(f"{stage} on a processor, a sample", top.cpu_ns, "ns"),
        ),
        helps=() if helps is None else helps(loading),
        no_remedy=remedy,
        unless=_WORKERS_CAUSE if workers_suffice else None,
    )


def _is_usual(evidence: Evidence, loader: Loader, stage: StageUse) -> bool:
    """Return whether nothing stands out: it takes little of a step, and what it takes with torch.

    Putting samples together by torch's own function; a sample of twice what torch's own takes.
    """
    if evidence.per_step(f"idle.data.{stage.name}") >= _MIN_USUAL_SHARE * (evidence.step_ns or 0.0):
        return False
    if stage.name == "collate":
        return is_torch_collate(loader)
    return stage.name == "other" and stage.wall_ns <= 2 * _INDEXED_NS


def _min_samples_ns(loading: Loading) -> float:
    """Return how long the samples of a batch take at least: a list holds them, or tensors do."""
    is_indexed = (loading.loader.dataset or "").endswith(_TENSOR_DATASET)
    return _FETCH_NS + loading.n_samples * (_INDEXED_NS if is_indexed else _LISTED_NS)


def _find_paired_stage(loading: Loading, top: StageUse) -> StageUse | None:
    """Return the stage that is removed along with another if samples are kept in memory.

    Reading a sample and the data set's own code for it are then both done once: if samples are
    the same each time, and all of them fit.
    """
    needed_bytes, memory_bytes = _dataset_bytes(loading.loader), loading.facts.machine.memory_bytes
    if (
        loading.loader.random
        or needed_bytes is None
        or needed_bytes > _MAX_MEMORY_SHARE * (memory_bytes or 0)
    ):
        return None
    name = _PAIRED_STAGES.get(top.name)
    return next((stage for stage in loading.stages() if stage.name == name), None)


def _dataset_bytes(loader: Loader) -> float | None:
    """Return the size of all samples of a data set, as in batches; ``None``: not known.

    If its length is not known, it is the size of all batches requested over several epochs.
    """
    if not loader.batch_bytes or not loader.batch_size:
        return None
    if loader.length is not None:
        return loader.length / loader.batch_size * loader.batch_bytes
    return loader.batches * loader.batch_bytes if loader.iterations > 1 else None


def detect_blocked_fetch(
    rule: Rule, evidence: Evidence, loader: Loader, remedy: str
) -> Detection | None:
    """Return the detection that a fetch is blocked for longer than any of its stages computes.

    More workers are another remedy for the same wait: both are priced. What is known to wait for
    something else than storage is another cause.
    """
    loading = find_blocked_loading(evidence, loader)
    if loading is None or find_main_wait(evidence, loading) is not None:
        return None
    fetch_ns, blocked_ns, n_batches = (
        loading.fetch_ns,
        loading.blocked_ns,
        _batches_per_step(evidence, loading),
    )
    max_workers = max(loading.max_workers(), loader.num_workers)
    without_ns = loading.min_step_ns(loader.num_workers, 1 - blocked_ns / fetch_ns, 1.0)
    read_share = measure_read_share(loading)
    is_read = read_share >= MIN_READ_SHARE
    return rule.detection(
        f"Making a batch waits off the processor for {ms(blocked_ns)} of {ms(fetch_ns)}: without "
        f"that a step could take {ms(n_batches * without_ns)}, with "
        f"{_workers_phrase(max_workers)} {ms(n_batches * loading.min_step_ns(max_workers))} at "
        "best.",
        leave_out_waits(loading),
        location=_stage_location(evidence, loading, "read"),
        measures=(
            *measure_loading(loading),
            Measure("blocked, a batch", blocked_ns, "ns"),
            Measure("of that, in calls that read", read_share, "share"),
            Measure("on a processor, a batch", loading.cpu_ns or 0.0, "ns"),
        ),
        no_remedy=f"{packing_advice(loading) or ''}{remedy}" if is_read else remedy,
        inferred=not is_read,
    )


def describe_main_stage(evidence: Evidence, loading: Loading) -> str:
    """Return a sentence on the stage that takes most of a fetch, and its line; or ""."""
    sampler_share = (
        loading.sampler_ns / loading.wait_ns
        if loading.wait_ns and not loading.loader.num_workers
        else 0.0
    )
    if sampler_share >= _MIN_DOMINANT_SHARE:
        return (
            f" Choosing samples takes {percent(sampler_share)} of making "
            f"one{_location_phrase(loading.loader.sampler)}."
        )
    top = next(iter(loading.workers.stages), None)
    if top is None or top.share * (1 - sampler_share) < _MIN_DOMINANT_SHARE:
        return ""
    wait = find_main_wait(evidence, loading)
    if wait is not None:
        return f" {describe_wait(wait)} takes {percent(wait.share)} of making one."
    function = loading.loader.collate if top.name == "collate" else loading.loader.sample
    location = _find_hottest_line(evidence, loading) or function
    share = percent(top.share * (1 - sampler_share))
    return f" {VERBS[top.name]} takes {share} of making one{_location_phrase(location)}."


def _location_phrase(location: Location | None) -> str:
    function_phrase = (
        "" if location is None or not location.function else f", in {location.function}"
    )
    return "" if location is None else f" ({name_line(location)}{function_phrase})"


VERBS: Final = {
    "read": "Reading",
    "decode": "Decoding",
    "augment": "Augmenting",
    "tokenise": "Tokenising",
    "collate": "Putting samples together",
    "other": "The data set's own code",
}


def _batches_per_step(evidence: Evidence, loading: Loading) -> int:
    """Return how many batches a step uses: several, if gradients are accumulated."""
    return max(1, round((evidence.step_ns or 0) / loading.step_ns)) if loading.step_ns else 1


def _describe_evaluations(loading: Loading, n_batches: int) -> str:
    """Describe the waits of evaluations for the same loader, which bounds of a step leave out."""
    use = loading.use
    steps_ns = use.wait_ns - use.evaluation_ns
    if use.evaluation_ns < _MIN_EVALUATION_SHARE * use.wait_ns or steps_ns <= 0:
        return ""
    evaluation_ns = n_batches * loading.wait_ns * use.evaluation_ns / steps_ns
    return f" Evaluations wait for batches, too, {ms(evaluation_ns)} a step: its part of that goes."


def _workers_phrase(n_workers: int) -> str:
    return "one worker" if n_workers == 1 else f"{n_workers} workers"


def _stage_location(evidence: Evidence, loading: Loading, stage: str) -> Location | None:
    """Return the line at which a stage spends its time.

    It is the line sampled most in workers; else the start of the user's function that makes
    samples, or collates them; else the line of the loader.
    """
    function = loading.loader.collate if stage == "collate" else loading.loader.sample
    return _find_hottest_line(evidence, loading) or function or loading.loader.location


def _find_hottest_line(evidence: Evidence, loading: Loading) -> Location | None:
    """Return the user's line that was sampled most while batches were made."""
    making_lines = [line for line in evidence.loading_lines if line.thread == "making"]
    worker_lines = [line for line in evidence.hot_lines if line.thread == "worker"]
    top = max(
        worker_lines if loading.workers.processes else making_lines,
        key=lambda line: line.count,
        default=None,
    )
    return None if top is None else Location(top.file, top.line, top.function)
