"""The line at which padding is changed: the collate function where that pads too far."""

from dataclasses import replace

from gapless.catalogue.rules.padded_batches import padded_batches
from gapless.model.edit import Where
from gapless.model.finding import Loss

_PADS = Where("/job/train.py", 44, "__call__")


def test_rows_that_are_all_padded_are_changed_where_they_are_put_together() -> None:
    places = set[tuple[bool, bool]]()
    for of in (one.seen for one in padded_batches.figures if one.says and one.seen is not None):
        assert of.facts is not None
        own = tuple(replace(one, collate=_PADS) for one in of.facts.loaders)
        (loss,) = padded_batches(replace(of, facts=replace(of.facts, loaders=own)))
        assert isinstance(loss, Loss)
        too_far = (loss.no_remedy or "").startswith("Pad in the collate function")
        places.add((too_far, loss.where == _PADS))
    assert places == {(True, True), (False, False)}
