"""Fixes of a loader that is no DataLoader: there are no arguments of torch's to set."""

import pytest

from gapless.catalogue.declare import listing
from gapless.catalogue.declare.fix import Option
from gapless.catalogue.examples.example_facts import gpu, loader


@pytest.mark.parametrize("name", ["more-workers", "persistent-workers", "pin-memory", "prefetch"])
def test_no_argument_is_set_where_no_dataloader_was_made(name: str) -> None:
    framework_loader = loader(stands_in="fastai.data.load._FakeLoader")
    (proposal,) = listing.find_fix(name)(gpu(framework_loader), Option())
    assert proposal.refused == (
        "the batches at train.py:41 come from a loader of fastai's own, which is set where it is "
        "made"
    )
