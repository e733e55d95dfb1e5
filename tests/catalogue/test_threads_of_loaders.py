"""Whose batches fewer threads of the training bear on."""

from dataclasses import replace

from gapless.catalogue.examples import cpu, loader, machine
from gapless.catalogue.rules.too_many_threads import too_many_threads
from gapless.catalogue.seen_examples import seen
from gapless.model.change import NO_LOADER, Feed
from gapless.model.finding import Loss


def _fed(trains: tuple[bool | None, ...]) -> list[int]:
    loaders = [loader(id=number, trains=one) for number, one in enumerate(trains)]
    many = machine(cpus=4, intra_op_threads=32, device=None)
    facts = replace(cpu(many), loaders=tuple(loaders))
    (found,) = too_many_threads(seen(facts, {"busy.math": 90.0}))
    assert isinstance(found, Loss)
    return [one.loader for one in found.changes if isinstance(one, Feed)]


def test_a_loader_for_evaluation_that_was_not_asked_yet_is_left_out() -> None:
    assert _fed((True, None)) == [0]
    assert _fed((True, False)) == [0]


def test_where_none_is_known_to_feed_the_training_any_may() -> None:
    assert _fed((None, False)) == [0]


def test_where_nothing_feeds_the_training_its_threads_are_its_own() -> None:
    assert _fed(()) == [NO_LOADER]
    assert _fed((False,)) == [NO_LOADER]
