"""Processors that others took: what does not want one is no part of the price."""

from gapless.catalogue.examples import cpu, loader
from gapless.catalogue.rules.taken_processors import taken_processors
from gapless.catalogue.seen_examples import seen
from gapless.catalogue.seen_parts import made_by, used
from gapless.model.change import Hosted
from gapless.model.finding import Loss
from gapless.model.run import Others


def waits(blocked: float) -> list[float]:
    """Give the factors of the waits for data, of which so much is spent asleep."""
    made = made_by(0, {"other": 1.0}, on_cpu=1 - blocked, run_queue=0.0, blocked=blocked)
    use = used(loader(), {"other": 20.0}, made)
    leaves = {"busy.math": 20.0, "idle.data.other": 20.0}
    (found,) = taken_processors(seen(cpu(loader()), leaves, use, Others(1.0, 0.0, 2)))
    assert isinstance(found, Loss)
    hosted = [one for one in found.changes if isinstance(one, Hosted)]
    return [one.factor.mid for one in hosted if one.leaves == ("idle.data",)]


def test_waits_for_storage_are_not_shorter_on_more_processors() -> None:
    assert waits(blocked=0.0) == [0.75]
    assert waits(blocked=0.5) == [0.875]
    assert waits(blocked=1.0) == []
