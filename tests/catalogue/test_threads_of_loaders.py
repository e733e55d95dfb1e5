"""Whose batches fewer threads of the training bear on."""

from msgspec.structs import replace

from gapless.catalogue.examples.evidence import evidence_of
from gapless.catalogue.examples.example_facts import cpu, loader, machine
from gapless.catalogue.rules.compute.too_many_threads import too_many_threads
from gapless.model.change import NO_LOADER, LoaderChange
from gapless.model.finding import Detection


def _affected_loaders(trains: tuple[bool | None, ...]) -> list[int]:
    loaders = [loader(id=number, trains=feeds) for number, feeds in enumerate(trains)]
    wide_machine = machine(cpus=4, intra_op_threads=32, device=None)
    facts = replace(cpu(wide_machine), loaders=tuple(loaders))
    (detection,) = too_many_threads(evidence_of(facts, {"busy.math": 90.0}))
    assert isinstance(detection, Detection)
    return [change.loader for change in detection.changes if isinstance(change, LoaderChange)]


def test_a_loader_for_evaluation_that_was_not_asked_yet_is_left_out() -> None:
    assert _affected_loaders((True, None)) == [0]
    assert _affected_loaders((True, False)) == [0]


def test_where_none_is_known_to_feed_the_training_any_may() -> None:
    assert _affected_loaders((None, False)) == [0]


def test_where_nothing_feeds_the_training_its_threads_are_its_own() -> None:
    assert _affected_loaders(()) == [NO_LOADER]
    assert _affected_loaders((False,)) == [NO_LOADER]
