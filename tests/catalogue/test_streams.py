"""A stream that does not share its samples out: one worker may read it, and no more."""

from gapless.catalogue.examples import gpu, loader
from gapless.catalogue.rules.loader_in_training_process import loader_in_training_process
from gapless.catalogue.seen_examples import seen
from gapless.catalogue.seen_parts import made_by, used
from gapless.model.change import Feed
from gapless.model.facts import Loader
from gapless.model.finding import Loss


def _loss(lines: Loader) -> Loss:
    of = seen(
        gpu(lines),
        {"busy.math": 20, "idle.data.read": 80},
        used(lines, {"read": 80.0}, made_by(0, {"read": 1.25})),
    )
    (found,) = loader_in_training_process(of)
    assert isinstance(found, Loss)
    return found


def test_one_worker_is_proposed_for_a_stream_that_does_not_share() -> None:
    loss = _loss(loader(iterable=True, asks_worker_info=False))
    assert loss.helps == ("more-workers=1",)
    assert [one.num_workers for one in loss.changes if isinstance(one, Feed)] == [1]
    assert (loss.no_remedy or "").startswith("One worker can be set; more than one cannot")


def test_one_that_shares_gets_as_many_as_keep_up() -> None:
    loss = _loss(loader(iterable=True, asks_worker_info=True))
    assert loss.helps[0] == "more-workers=6"
    assert loss.no_remedy is None
