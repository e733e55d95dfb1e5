"""Fixes that are tried together: each is judged with those before it laid."""

import pytest

from gapless.catalogue.declare.fix import describe_proposal
from gapless.catalogue.declare.hypothetical import assume_edits, propose_together
from gapless.catalogue.examples import example_facts
from gapless.errors import UsageError
from gapless.model.edit import Location, SetArgument, SetGlobal

LOADER = "torch.utils.data.DataLoader"


def test_prefetching_finds_the_workers_that_come_with_it() -> None:
    proposals = propose_together(
        ["more-workers=4", "prefetch=8", "persistent-workers"], example_facts.gpu()
    )
    assert [describe_proposal(proposal) for proposal in proposals] == [
        "equivalent: num_workers 0 → 4 at train.py:41",
        "same: prefetch_factor 2 → 8 at train.py:41",
        "equivalent: persistent_workers False → True at train.py:41",
    ]


def test_a_trap_sees_what_comes_together() -> None:
    facts = example_facts.gpu(example_facts.machine(shm_bytes=1 << 30))
    proposals = propose_together(["more-workers=8", "prefetch=8"], facts)
    assert [proposal.refused is None for proposal in proposals] == [True, False]
    assert "are 2.4 GiB" in describe_proposal(proposals[1])


def test_what_one_has_set_is_so_already_for_the_next() -> None:
    proposals = propose_together(["workers-and-one-thread=2", "one-thread"], example_facts.cpu())
    assert describe_proposal(proposals[1]) == "nothing to change: intra-op threads are already 1"


def test_an_optimizer_that_is_fused_already_is_not_told_to_use_foreach() -> None:
    proposals = propose_together(["fused", "foreach"], example_facts.cpu())
    assert [describe_proposal(proposal) for proposal in proposals] == [
        "equivalent: AdamW at train.py:52: fused None → True",
        "nothing to change: AdamW at train.py:52 is fused, which does more",
    ]


def test_a_fix_is_tried_once_only_with_itself() -> None:
    with pytest.raises(UsageError, match="more-workers is named twice"):
        propose_together(["more-workers=4", "more-workers=8"], example_facts.gpu())


def test_only_what_is_meant_is_assumed() -> None:
    facts = example_facts.gpu(
        example_facts.loader(), example_facts.loader(id=1, location=Location("other.py", 3))
    )
    changed_facts = assume_edits(
        facts,
        [
            SetArgument(LOADER, "pin_memory", value=True, where=example_facts.LOADER_LINE),
            SetArgument("torch.optim.SGD", "pin_memory", value=True),
            SetGlobal("torch.backends.cudnn.benchmark", value=True),
        ],
    )
    assert [loader.pin_memory for loader in changed_facts.loaders] == [True, False]
    assert changed_facts.precision == facts.precision
