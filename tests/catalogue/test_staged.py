"""Stages of making a batch: what a step is told to become, where it takes several batches."""

from typing import Any

from gapless.catalogue.examples import cpu, loader
from gapless.catalogue.rules.collate_bound import collate_bound
from gapless.catalogue.rules.read_bound import read_bound
from gapless.catalogue.seen_examples import seen
from gapless.catalogue.seen_parts import COUNT, made_by, used
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
