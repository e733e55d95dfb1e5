"""Stages of making a batch: what a step is told to become, where it takes several batches."""

from typing import Any

import pytest
from msgspec.structs import replace

from gapless.catalogue.examples.evidence import evidence_of
from gapless.catalogue.examples.example_facts import cpu, gpu, loader
from gapless.catalogue.examples.parts import COUNT, MS, example_use, example_workers
from gapless.catalogue.rules.input.read_bound import read_bound
from gapless.catalogue.rules.input.slow_samples import slow_samples
from gapless.catalogue.rules.input.slow_stages import SLOW_STAGES
from gapless.model.change import LoaderChange
from gapless.model.edit import Location
from gapless.model.finding import Detection

(COLLATE_BOUND,) = (rule for rule in SLOW_STAGES if rule.name == "collate-bound")


def test_what_a_step_could_take_is_told_of_all_its_batches() -> None:
    """Gradients are accumulated over four batches: without its waits a step is a half, not 1/8."""
    waits = example_workers(0, {"other": (0.15, 0.02)})
    use = example_use(loader(), {"other": 20.0}, waits, waits=4 * COUNT)
    (detection,) = read_bound(
        evidence_of(cpu(loader()), {"busy.math": 20.0, "idle.data.other": 20.0}, use)
    )
    assert isinstance(detection, Detection)
    assert "without that a step could take 22.7 ms" in detection.summary


SAMPLE_LOCATION = Location("/job/data.py", 12, "__getitem__")
COLLATE_LOCATION = Location("/job/data.py", 30, "together")


def _detect_reading(**facts: Any) -> Detection | None:  # noqa: ANN401
    """Return what is said of reads that take a third of a step on processors that compute, too."""
    image_loader = loader(**facts)
    use = example_use(
        image_loader,
        {"read": 10.0},
        example_workers(image_loader.num_workers, {"read": 0.15}, **_USUAL),
    )
    answers = read_bound(
        evidence_of(cpu(image_loader), {"busy.math": 20.0, "idle.data.read": 10.0}, use)
    )
    return next((answer for answer in answers if isinstance(answer, Detection)), None)


_USUAL: dict[str, Any] = {}


def test_beside_a_training_on_processors_a_stage_is_told_though_workers_might_do() -> None:
    detection = _detect_reading()
    assert detection is not None
    assert detection.summary.startswith("Reading takes 100 % of making a batch")


def test_waits_of_evaluations_for_the_same_loader_are_told_beside_a_step() -> None:
    use = example_use(
        loader(),
        {"collate": 20.0},
        example_workers(0, {"collate": 0.3}),
        evaluation_ns=8 * COUNT * MS,
        share=12 / 32,
    )
    (detection,) = COLLATE_BOUND(
        evidence_of(cpu(loader()), {"busy.math": 20.0, "idle.data.collate": 12.0}, use)
    )
    assert isinstance(detection, Detection)
    assert "Evaluations wait for batches, too, 8.0 ms a step" in detection.summary


def test_with_workers_it_is_not_told_what_more_of_them_would_give() -> None:
    assert _detect_reading(num_workers=1) is None


def test_where_single_batches_are_late_a_stage_is_not_told() -> None:
    _USUAL["fetch_median_ns"] = 1_000_000
    try:
        assert _detect_reading() is None
    finally:
        _USUAL.clear()


def test_a_stage_is_told_at_the_users_function() -> None:
    detection = _detect_reading(sample=SAMPLE_LOCATION, collate=COLLATE_LOCATION)
    assert detection is not None
    assert detection.location == SAMPLE_LOCATION
    slow_loader = loader(sample=SAMPLE_LOCATION, collate=COLLATE_LOCATION)
    use = example_use(slow_loader, {"collate": 40.0}, example_workers(0, {"collate": 5.0}))
    (collate_detection,) = COLLATE_BOUND(
        evidence_of(cpu(slow_loader), {"busy.math": 8.0, "idle.data.collate": 40.0}, use)
    )
    assert isinstance(collate_detection, Detection)
    assert collate_detection.location == COLLATE_LOCATION


def test_where_workers_would_do_on_a_gpu_a_stage_is_told_unless_they_are_named() -> None:
    image_loader = loader()
    use = example_use(
        image_loader, {"other": 20.0}, example_workers(0, {"other": 0.3, "collate": 0.1})
    )
    answers = slow_samples(
        evidence_of(gpu(image_loader), {"busy.math": 20.0, "idle.data.other": 20.0}, use)
    )
    (detection,) = (answer for answer in answers if isinstance(answer, Detection))
    assert detection.unless == "loader-in-training-process"
    worker_detection = replace(detection, name=detection.unless, unless=None)
    assert detection.yields_to(worker_detection)
    assert not worker_detection.yields_to(detection)
    other_detection = replace(
        worker_detection, changes=(LoaderChange(image_loader.id + 1, num_workers=2),)
    )
    assert not detection.yields_to(other_detection)


@pytest.mark.parametrize(
    ("waited_ms", "sample_ms", "is_told"),
    [(1.6, 0.006, False), (1.6, 0.012, True), (16.0, 0.006, True)],
)
def test_samples_like_those_of_torch_are_no_cause_in_little_of_a_step(
    waited_ms: float, sample_ms: float, *, is_told: bool
) -> None:
    rows_loader = loader()
    use = example_use(
        rows_loader, {"other": waited_ms}, example_workers(0, {"other": sample_ms, "collate": 0})
    )
    answers = slow_samples(
        evidence_of(cpu(rows_loader), {"busy.math": 20.0, "idle.data.other": waited_ms}, use)
    )
    assert any(isinstance(answer, Detection) for answer in answers) is is_told


def _detect_parsing(**facts: Any) -> Detection:  # noqa: ANN401
    image_loader = loader(**({"random": False, "length": 1000, "batch_bytes": 32_000} | facts))
    stages = {"read": 0.1, "other": 0.2}
    use = example_use(image_loader, {"read": 5.0, "other": 10.0}, example_workers(0, stages))
    evidence = evidence_of(cpu(image_loader), {"busy.math": 20.0, "idle.data.other": 15.0}, use)
    (detection,) = (answer for answer in slow_samples(evidence) if isinstance(answer, Detection))
    return detection


def _removed_stages(detection: Detection) -> set[str]:
    (change,) = detection.changes
    assert isinstance(change, LoaderChange)
    return set(change.stages)


def test_samples_that_fit_in_memory_need_neither_to_be_read_nor_made_again() -> None:
    detection = _detect_parsing()
    assert _removed_stages(detection) == {"other", "read"}
    assert detection.summary.startswith("The data set's own code and reading take ")


@pytest.mark.parametrize(
    "facts",
    [
        {"random": True},
        {"length": 10**12},
        {"batch_bytes": None},
        {"length": None, "iterations": 1},
    ],
)
def test_what_differs_each_time_or_may_not_fit_is_read_all_the_same(facts: dict[str, Any]) -> None:
    assert _removed_stages(_detect_parsing(**facts)) == {"other"}


def test_of_an_unknown_length_all_batches_of_several_epochs_are_enough() -> None:
    assert _removed_stages(_detect_parsing(length=None, iterations=3, batches=60)) == {
        "other",
        "read",
    }
