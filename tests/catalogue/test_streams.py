"""A stream that does not share its samples out: one worker may read it, and no more."""

from gapless.catalogue.examples.evidence import evidence_of
from gapless.catalogue.examples.example_facts import gpu, loader
from gapless.catalogue.examples.parts import example_use, example_workers
from gapless.catalogue.rules.input.loader_in_training_process import loader_in_training_process
from gapless.model.change import LoaderChange
from gapless.model.facts import Loader
from gapless.model.finding import Detection


def _find_detection(stream: Loader) -> Detection:
    evidence = evidence_of(
        gpu(stream),
        {"busy.math": 20, "idle.data.read": 80},
        example_use(stream, {"read": 80.0}, example_workers(0, {"read": 1.25})),
    )
    (detection,) = loader_in_training_process(evidence)
    assert isinstance(detection, Detection)
    return detection


def test_one_worker_is_proposed_for_a_stream_that_does_not_share() -> None:
    detection = _find_detection(loader(iterable=True, asks_worker_info=False))
    assert tuple(map(str, detection.helps)) == ("more-workers=1",)
    assert [
        change.num_workers for change in detection.changes if isinstance(change, LoaderChange)
    ] == [1]
    assert (detection.no_remedy or "").startswith("One worker can be used; more than one cannot")


def test_one_that_shares_gets_as_many_as_keep_up() -> None:
    detection = _find_detection(loader(iterable=True, asks_worker_info=True))
    assert str(detection.helps[0]) == "more-workers=6"
    assert detection.no_remedy is None
