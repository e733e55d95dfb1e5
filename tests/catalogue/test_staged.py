"""Stages of making a batch: what a step is told to become, where it takes several batches."""

from dataclasses import replace
from typing import Any

import pytest

from gapless.catalogue.examples import cpu, gpu, loader
from gapless.catalogue.rules.collate_bound import collate_bound
from gapless.catalogue.rules.read_bound import read_bound
from gapless.catalogue.rules.slow_samples import slow_samples
from gapless.catalogue.seen_examples import seen
from gapless.catalogue.seen_parts import COUNT, made_by, used
from gapless.model.change import Feed
from gapless.model.edit import Where
from gapless.model.finding import Loss


def test_what_a_step_could_take_is_told_of_all_its_batches() -> None:
    """Gradients are accumulated over four batches: without its waits a step is a half, not 1/8."""
    waits = made_by(0, {"other": (0.15, 0.02)})
    use = used(loader(), {"other": 20.0}, waits, waits=4 * COUNT)
    (found,) = read_bound(seen(cpu(loader()), {"busy.math": 20.0, "idle.data.other": 20.0}, use))
    assert isinstance(found, Loss)
    assert "without that a step could take 22.7 ms" in found.summary


AT = Where("/job/data.py", 12, "__getitem__")
PUT = Where("/job/data.py", 30, "together")


def _told(**facts: Any) -> Loss | None:  # noqa: ANN401
    """Give what is said of reads that take a third of a step on processors that compute, too."""
    one = loader(**facts)
    use = used(one, {"read": 10.0}, made_by(one.num_workers, {"read": 0.15}, **_USUAL))
    found = read_bound(seen(cpu(one), {"busy.math": 20.0, "idle.data.read": 10.0}, use))
    return next((one for one in found if isinstance(one, Loss)), None)


_USUAL: dict[str, Any] = {}


def test_beside_a_training_on_processors_a_stage_is_told_though_workers_might_do() -> None:
    found = _told()
    assert found is not None
    assert found.summary.startswith("Reading takes 100 % of making a batch")


def test_with_workers_it_is_not_told_what_more_of_them_would_give() -> None:
    assert _told(num_workers=1) is None


def test_where_single_batches_are_late_a_stage_is_not_told() -> None:
    _USUAL["fetch_median_ns"] = 1_000_000
    try:
        assert _told() is None
    finally:
        _USUAL.clear()


def test_a_stage_is_told_at_the_users_function() -> None:
    found = _told(sample=AT, collate=PUT)
    assert found is not None
    assert found.where == AT
    slow = loader(sample=AT, collate=PUT)
    use = used(slow, {"collate": 40.0}, made_by(0, {"collate": 5.0}))
    (told,) = collate_bound(seen(cpu(slow), {"busy.math": 8.0, "idle.data.collate": 40.0}, use))
    assert isinstance(told, Loss)
    assert told.where == PUT


def test_where_workers_would_do_on_a_gpu_a_stage_is_told_unless_they_are_named() -> None:
    one = loader()
    use = used(one, {"other": 20.0}, made_by(0, {"other": 0.3}))
    found = slow_samples(seen(gpu(one), {"busy.math": 20.0, "idle.data.other": 20.0}, use))
    (loss,) = (one for one in found if isinstance(one, Loss))
    assert loss.unless == "loader-in-training-process"
    workers = replace(loss, name=loss.unless, unless=None)
    assert loss.yields_to(workers)
    assert not workers.yields_to(loss)
    elsewhere = replace(workers, changes=(Feed(one.id + 1, num_workers=2),))
    assert not loss.yields_to(elsewhere)


def _read_and_parsed(**facts: Any) -> Loss:  # noqa: ANN401
    one = loader(**({"random": False, "length": 1000, "batch_bytes": 32_000} | facts))
    stages = {"read": 0.1, "other": 0.2}
    use = used(one, {"read": 5.0, "other": 10.0}, made_by(0, stages))
    made = seen(cpu(one), {"busy.math": 20.0, "idle.data.other": 15.0}, use)
    (loss,) = (one for one in slow_samples(made) if isinstance(one, Loss))
    return loss


def _gone(loss: Loss) -> set[str]:
    (change,) = loss.changes
    assert isinstance(change, Feed)
    return set(change.stages)


def test_samples_that_fit_in_memory_need_neither_to_be_read_nor_made_again() -> None:
    loss = _read_and_parsed()
    assert _gone(loss) == {"other", "read"}
    assert loss.summary.startswith("The data set's own code and reading take ")


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
    assert _gone(_read_and_parsed(**facts)) == {"other"}


def test_of_an_unknown_length_all_batches_of_several_epochs_are_enough() -> None:
    assert _gone(_read_and_parsed(length=None, iterations=3, batches=60)) == {"other", "read"}
