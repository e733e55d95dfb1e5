"""Stages of making a batch: what a step is told to become, where it takes several batches."""

from gapless.catalogue.examples import cpu, loader
from gapless.catalogue.rules.read_bound import read_bound
from gapless.catalogue.seen_examples import seen
from gapless.catalogue.seen_parts import COUNT, made_by, used
from gapless.model.finding import Loss


def test_what_a_step_could_take_is_told_of_all_its_batches() -> None:
    """Gradients are accumulated over four batches: without its waits a step is a half, not 1/8."""
    waits = made_by(0, {"other": (0.15, 0.02)})
    use = used(loader(), {"other": 20.0}, waits, waits=4 * COUNT)
    (found,) = read_bound(seen(cpu(loader()), {"busy.math": 20.0, "idle.data.other": 20.0}, use))
    assert isinstance(found, Loss)
    assert "without that a step could take 22.7 ms" in found.summary
