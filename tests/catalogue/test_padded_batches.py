"""The line at which padding is changed: the collate function where that pads too far."""

from msgspec.structs import replace

from gapless.catalogue.examples.reading import read_figures
from gapless.catalogue.rules.needless.padded_batches import padded_batches
from gapless.model.edit import Location
from gapless.model.finding import Detection

_PADS = Location("/job/train.py", 44, "__call__")


def test_rows_that_are_all_padded_are_changed_where_they_are_put_together() -> None:
    outcomes = set[tuple[bool, bool]]()
    figures = read_figures(padded_batches)
    for evidence in (figure.evidence for figure in figures if figure.expected):
        assert evidence.facts is not None
        loaders = tuple(replace(loader, collate=_PADS) for loader in evidence.facts.loaders)
        (detection,) = padded_batches(
            replace(evidence, facts=replace(evidence.facts, loaders=loaders))
        )
        assert isinstance(detection, Detection)
        too_far = (detection.no_remedy or "").startswith("Pad in the collate function")
        outcomes.add((too_far, detection.location == _PADS))
    assert outcomes == {(True, True), (False, False)}
